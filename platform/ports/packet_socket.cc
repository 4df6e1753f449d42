// SPDX-License-Identifier: Apache-2.0
#include "platform/ports/packet_socket.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/filter.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <poll.h>
#include <time.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "base/byte_order.h"

namespace snf {
namespace {

constexpr int kSocketType = SOCK_RAW | SOCK_CLOEXEC;
constexpr size_t kMacBytes = 12;         // of both addresses
constexpr size_t kHeaderBytes = 14 + 8;  // of Ethernet with two tags
// A clock that was set back or forth is not how long a frame waited.
constexpr Nanos kMaxAge = Seconds(10);

bool BindTo(const Descriptor& socket, int index, uint16_t protocol) {
  sockaddr_ll address = {};
  address.sll_family = AF_PACKET;
  address.sll_ifindex = index;
  address.sll_protocol = htons(protocol);
  return bind(socket.number(), reinterpret_cast<sockaddr*>(&address),
              sizeof address) == 0;
}

// Returns true if the error means that the interface is down or gone.
bool IsOfInterface(int error) {
  return error == ENETDOWN || error == ENXIO || error == ENODEV;
}

// How long ago the kernel took a frame.
Nanos AgeOf(const tpacket2_hdr& slot, Instant now) {
  const Instant came = {int64_t{slot.tp_sec} * 1'000'000'000 + slot.tp_nsec};
  return std::clamp(now - came, Nanos{}, kMaxAge);
}

// The VLAN tag, with its type, that the kernel has taken out of a frame.
std::optional<be32> TagOf(const tpacket2_hdr& slot) {
  if ((slot.tp_status & TP_STATUS_VLAN_VALID) == 0) return std::nullopt;
  const bool has_type = (slot.tp_status & TP_STATUS_VLAN_TPID_VALID) != 0;
  const uint32_t type = has_type ? slot.tp_vlan_tpid : ETH_P_8021Q;
  return be32(type << 16 | slot.tp_vlan_tci);
}

}  // namespace

// Not cleared: pages are the kernel's zeros, and are there once they are used.
PacketSocket::Batch::Batch() : rooms(new std::byte[kBatch * kRoomBytes]) {
  for (size_t i = 0; i < kBatch; ++i) {
    messages[i].msg_hdr.msg_iov = parts[i].data();
    messages[i].msg_hdr.msg_iovlen = parts[i].size();
  }
}

void PacketSocket::Batch::DescribePlain() {
  static OffloadHeader plain{};
  for (auto& frame : parts) frame[0] = {&plain, sizeof plain};
}

absl::StatusOr<std::unique_ptr<PacketPort>> PacketSocket::Open(
    const PortSpec& spec) {
  std::unique_ptr<PacketSocket> port(new PacketSocket(spec));
  const absl::Status status = port->Connect();
  if (status.ok()) return port;
  return absl::Status(
      status.code(),
      fmt::format("port {}: {}", spec.name(), std::string(status.message())));
}

absl::StatusOr<std::unique_ptr<PacketSocket>> PacketSocket::OpenToSend(
    const PortSpec& spec) {
  std::unique_ptr<PacketSocket> port(new PacketSocket(spec));
  const absl::Status status = port->ConnectOut();
  if (status.ok()) return port;
  return absl::Status(
      status.code(),
      fmt::format("port {}: {}", spec.name(), std::string(status.message())));
}

absl::Status PacketSocket::Failed(const char* what) const {
  const std::string message =
      fmt::format("{}: {}: {}", spec_.interface, what, std::strerror(errno));
  if (errno == EPERM || errno == EACCES) {
    return absl::PermissionDeniedError(
        message + "; packet sockets need root or CAP_NET_RAW");
  }
  return absl::FailedPreconditionError(message);
}

absl::Status PacketSocket::Connect() {
  if (absl::Status s = ConnectOut(); !s.ok()) return s;
  if (!Claim()) {
    if (errno != EADDRINUSE) return Failed("a claim on its frames");
    return absl::FailedPreconditionError(fmt::format(
        "{}: another run of SNF forwards {}", spec_.interface,
        spec_.steering == nullptr ? "its frames"
                                  : "the frames of controller " + Share()));
  }
  return ConnectIn();
}

// Fails if the filter stays: two controllers could take one frame.
void PacketSocket::Steer(std::shared_ptr<const Steering> steering) {
  spec_.steering = std::move(steering);
  if (in_.is_open() && !AttachFilter()) Fail(errno);
}

std::string PacketSocket::Share() const {
  return spec_.steering == nullptr ? "" : spec_.steering->controller().text();
}

bool PacketSocket::Claim() { return interface_.Claim(Share()); }

absl::Status PacketSocket::ConnectOut() {
  if (absl::Status s = interface_.Check(); !s.ok()) return s;
  out_ = Descriptor(socket(AF_PACKET, kSocketType, 0));
  if (!out_.is_open()) return Failed("a packet socket");
  mtu_ = interface_.mtu();
  // If it is refused there is less room.
  if (!SetOption(out_, SOL_SOCKET, SO_SNDBUFFORCE, kSendBytes)) {
    SetOption(out_, SOL_SOCKET, SO_SNDBUF, kSendBytes);
  }
  sends_offload_ = SetOption(out_, SOL_PACKET, PACKET_VNET_HDR, 1);
  if (sends_offload_) queued_.DescribePlain();
  // The socket that sends has no protocol: nothing comes to it.
  if (!BindTo(out_, interface_.index(), 0)) {
    return Failed("binding a packet socket");
  }
  return absl::OkStatus();
}

absl::Status PacketSocket::ConnectIn() {
  in_ = Descriptor(socket(AF_PACKET, kSocketType, 0));
  if (!in_.is_open()) return Failed("a packet socket");
  const int index = interface_.index();
  packet_mreq all = {};
  all.mr_ifindex = index;
  all.mr_type = PACKET_MR_PROMISC;
  if (!SetOption(in_, SOL_PACKET, PACKET_ADD_MEMBERSHIP, all)) {
    return Failed("promiscuous mode");
  }
  if (!SetOption(in_, SOL_PACKET, PACKET_IGNORE_OUTGOING, 1) ||
      !SetOption(in_, SOL_PACKET, PACKET_VNET_HDR, 1)) {
    return Failed("options of a packet socket (need Linux 4.20)");
  }
  // Nothing comes before it is bound.
  if (!AttachFilter()) return Failed("a filter of a packet socket");
  if (!ring_.Open(in_.number(), mtu_ + kHeaderBytes)) {
    return Failed("a ring of a packet socket");
  }
  if (!SetOption(in_, SOL_SOCKET, SO_RCVBUFFORCE, kReceiveBytes)) {
    SetOption(in_, SOL_SOCKET, SO_RCVBUF, kReceiveBytes);
  }
  changes_ = interface_.MergeNothing();
  if (!changes_.empty()) changes_ += " off";
  if (!BindTo(in_, index, ETH_P_ALL)) return Failed("binding a packet socket");
  return absl::OkStatus();
}

bool PacketSocket::AttachFilter() {
  if (spec_.steering == nullptr) return true;
  std::vector<sock_filter> steps;
  for (const FilterStep& step : spec_.steering->Program(spec_.side)) {
    steps.push_back({.code = step.code,
                     .jt = step.if_true,
                     .jf = step.if_false,
                     .k = step.value});
  }
  const sock_fprog program = {.len = static_cast<uint16_t>(steps.size()),
                              .filter = steps.data()};
  return SetOption(in_, SOL_SOCKET, SO_ATTACH_FILTER, program);
}

absl::StatusOr<PacketReceiver> PacketSocket::HandOn() {
  Descriptor in(fcntl(in_.number(), F_DUPFD_CLOEXEC, 0));
  if (!in.is_open()) return Failed("another descriptor");
  return PacketReceiver{.socket = std::move(in),
                        .ring_bytes = ring_.bytes(),
                        .slot_bytes = ring_.slot_bytes()};
}

std::optional<uint64_t> PacketSocket::LetGo() { return ring_.next_slot(); }

void PacketSocket::Adopt(PacketReceiver receiver, uint64_t next_slot) {
  interface_.Join();
  in_ = std::move(receiver.socket);
  if (in_.is_open() && ring_.Adopt(in_.number(), receiver.ring_bytes,
                                   receiver.slot_bytes, next_slot)) {
    return;
  }
  const absl::Status status = ConnectIn();
  if (!status.ok()) Fail(ENETDOWN);
}

bool PacketSocket::Receive(Take take) {
  if (!in_.is_open()) return false;
  tpacket2_hdr* slot = ring_.Next();
  if (slot == nullptr) return false;
  const Instant now = WallClock();
  for (size_t i = 0; i < kBatch && slot != nullptr; ++i) {
    TakeFrame(*slot, now, take);
    ring_.Release();
    slot = ring_.Next();
  }
  return true;
}

void PacketSocket::TakeFrame(tpacket2_hdr& slot, Instant now, Take take) {
  const std::optional<Whole> whole = WholeOf(slot);
  if (!whole.has_value()) return;
  const std::optional<be32> tag = TagOf(slot);
  const size_t tag_bytes = tag.has_value() ? kTagBytes : 0;
  const std::optional<FrameOffload> offload =
      ReadOffload(whole->offload, tag_bytes);
  if (!offload.has_value() || whole->frame.size() < kMacBytes) {
    ++figures_.refused;
    return;
  }
  std::span<std::byte> frame = {whole->frame.data() - tag_bytes,
                                whole->frame.size() + tag_bytes};
  if (tag.has_value()) {
    std::memmove(frame.data(), frame.data() + kTagBytes, kMacBytes);
    Store(&frame[kMacBytes], *tag);
  }
  if (!gate_.LetsIn(frame, now)) {
    ++figures_.foreign;
    return;
  }
  TakeOffloaded(frame, *offload, AgeOf(slot, now),
                keeps_merged_ && !tag.has_value(), take);
}

// In a slot the offload stands in front of the frame, where a tag may go later.
// Returns nothing, and counts the frame, if the rest of it is nowhere; nor
// where the interface is gone.
std::optional<PacketSocket::Whole> PacketSocket::WholeOf(tpacket2_hdr& slot) {
  Whole whole{};
  whole.frame = PacketRing::FrameOf(slot);
  if ((slot.tp_status & TP_STATUS_COPY) == 0) {
    std::memcpy(&whole.offload, whole.frame.data() - sizeof whole.offload,
                sizeof whole.offload);
    if (slot.tp_snaplen == slot.tp_len) return whole;
    ++figures_.kernel_drops;
    return std::nullopt;
  }
  std::byte* const room = long_room_.get() + kTagBytes;
  std::array<iovec, 2> parts = {
      {{&whole.offload, sizeof whole.offload}, {room, kRoomBytes - kTagBytes}}};
  msghdr message = {};
  message.msg_iov = parts.data();
  message.msg_iovlen = parts.size();
  const ssize_t bytes = recvmsg(in_.number(), &message, MSG_DONTWAIT);
  if (bytes < 0 && IsOfInterface(errno)) {
    Fail(errno);
    return std::nullopt;
  }
  if (bytes < static_cast<ssize_t>(sizeof whole.offload) ||
      (message.msg_flags & MSG_TRUNC) != 0) {
    ++figures_.refused;
    return std::nullopt;
  }
  whole.frame = {room, static_cast<size_t>(bytes) - sizeof whole.offload};
  return whole;
}

void PacketSocket::StopReceiving() {
  sock_filter nothing = {.code = BPF_RET | BPF_K, .jt = 0, .jf = 0, .k = 0};
  const sock_fprog program = {.len = 1, .filter = &nothing};
  SetOption(in_, SOL_SOCKET, SO_ATTACH_FILTER, program);
}

void PacketSocket::Send(std::span<const std::byte> frame) {
  if (queue_ == kBatch) Flush();
  if (frame.size() > kMaxFrameBytes) {
    ++figures_.send_drops;
    ++figures_.too_long;
    return;
  }
  const std::span<std::byte> room = queued_.room(queue_);
  std::ranges::copy(frame, room.begin());
  queued_.parts[queue_][1] = {room.data(), frame.size()};
  ++queue_;
}

// Sends the frame at once, as the kernel reads it from the caller's memory.
void PacketSocket::SendMerged(std::span<const std::byte> frame,
                              uint16_t segment_bytes) {
  MergedFrame merged;
  if (!sends_offload_ ||
      !merged.Describe(frame, segment_bytes, mtu_ + ETH_HLEN)) {
    PacketPort::SendMerged(frame, segment_bytes);
    return;
  }
  Flush();
  msghdr message = {};
  message.msg_iov = merged.parts().data();
  message.msg_iovlen = merged.parts().size();
  if (sendmsg(out_.number(), &message, MSG_DONTWAIT) >= 0) {
    ++figures_.sent;
  } else if (errno == EINVAL) {
    // A kernel before 6.2 does not take frames of several UDP packets.
    PacketPort::SendMerged(frame, segment_bytes);
  } else {
    CountUnsent(errno);
  }
}

void PacketSocket::Flush() {
  for (size_t done = 0; done < queue_;) {
    const int sent =
        sendmmsg(out_.number(), &queued_.messages[done],
                 static_cast<unsigned>(queue_ - done), MSG_DONTWAIT);
    if (sent > 0) {
      figures_.sent += static_cast<uint64_t>(sent);
      done += static_cast<size_t>(sent);
      continue;
    }
    const int error = errno;
    if (error == EINTR) continue;
    ++done;
    CountUnsent(error);
  }
  queue_ = 0;
}

// A frame is dropped that could not be sent, as where a link is full.
void PacketSocket::CountUnsent(int error) {
  ++figures_.send_drops;
  figures_.too_long += error == EMSGSIZE ? 1 : 0;
  if (IsOfInterface(error)) Fail(error);
}

void PacketSocket::UpdateFigures() {
  Claim();  // A predecessor had it until now.
  tpacket_stats since = {};
  socklen_t size = sizeof since;
  if (getsockopt(in_.number(), SOL_PACKET, PACKET_STATISTICS, &since, &size) ==
      0) {
    figures_.kernel_drops += since.tp_drops;
  }
  // No call of Receive would be told.
  int error = 0;
  size = sizeof error;
  if (getsockopt(in_.number(), SOL_SOCKET, SO_ERROR, &error, &size) == 0 &&
      error != 0) {
    Fail(error);
  }
}

}  // namespace snf
