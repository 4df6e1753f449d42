// SPDX-License-Identifier: Apache-2.0
#include "platform/live/packet_socket.h"

#include <arpa/inet.h>
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

#include "base/byte_order.h"

namespace snf {
namespace {

constexpr size_t kMacBytes = 12;  // of both addresses
// A clock that was set back or forth is not how long a frame waited.
constexpr Nanos kMaxAge = Seconds(10);

template <typename Value>
bool SetOption(const Descriptor& socket, int level, int option,
               const Value& value) {
  return setsockopt(socket.number(), level, option, &value, sizeof value) == 0;
}

bool BindTo(const Descriptor& socket, int index, uint16_t protocol) {
  sockaddr_ll address = {};
  address.sll_family = AF_PACKET;
  address.sll_ifindex = index;
  address.sll_protocol = htons(protocol);
  return bind(socket.number(), reinterpret_cast<sockaddr*>(&address),
              sizeof address) == 0;
}

// What the kernel tells beside a frame.
struct Beside {
  Nanos age;
  std::optional<be32> tag;  // a VLAN tag with its type
  bool is_cut = false;
};

Beside BesideOf(msghdr& message, Instant now) {
  Beside beside;
  beside.is_cut = (message.msg_flags & MSG_TRUNC) != 0;
  for (cmsghdr* part = CMSG_FIRSTHDR(&message); part != nullptr;
       part = CMSG_NXTHDR(&message, part)) {
    const auto* const data = reinterpret_cast<std::byte*>(CMSG_DATA(part));
    if (part->cmsg_level == SOL_SOCKET && part->cmsg_type == SCM_TIMESTAMPNS) {
      const auto time = LoadAs<timespec>(data);
      const Instant came = {time.tv_sec * 1'000'000'000 + time.tv_nsec};
      beside.age = std::clamp(now - came, Nanos{}, kMaxAge);
    } else if (part->cmsg_level == SOL_PACKET &&
               part->cmsg_type == PACKET_AUXDATA) {
      const auto aux = LoadAs<tpacket_auxdata>(data);
      if ((aux.tp_status & TP_STATUS_VLAN_VALID) == 0) continue;
      const bool has_type = (aux.tp_status & TP_STATUS_VLAN_TPID_VALID) != 0;
      const uint32_t type = has_type ? aux.tp_vlan_tpid : ETH_P_8021Q;
      beside.tag = be32(type << 16 | aux.tp_vlan_tci);
    }
  }
  return beside;
}

}  // namespace

// Not cleared: pages are the kernel's zeros, and are there once they are used.
PacketSocket::Batch::Batch() : rooms(new std::byte[kBatch * kRoomBytes]) {
  for (size_t i = 0; i < kBatch; ++i) {
    messages[i].msg_hdr.msg_iov = parts[i].data();
    messages[i].msg_hdr.msg_iovlen = 2;
  }
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

absl::Status PacketSocket::Connect() {
  if (absl::Status s = interface_.Check(); !s.ok()) return s;
  const auto failed = [this](const char* what) {
    const std::string message =
        fmt::format("{}: {}: {}", spec_.interface, what, std::strerror(errno));
    if (errno == EPERM || errno == EACCES) {
      return absl::PermissionDeniedError(
          message + "; packet sockets want root or CAP_NET_RAW");
    }
    return absl::FailedPreconditionError(message);
  };
  constexpr int kType = SOCK_RAW | SOCK_CLOEXEC;
  in_ = Descriptor(socket(AF_PACKET, kType, 0));
  out_ = Descriptor(socket(AF_PACKET, kType, 0));
  if (!in_.is_open() || !out_.is_open()) return failed("a packet socket");
  const int index = interface_.index();
  packet_mreq all = {};
  all.mr_ifindex = index;
  all.mr_type = PACKET_MR_PROMISC;
  if (!SetOption(in_, SOL_PACKET, PACKET_ADD_MEMBERSHIP, all)) {
    return failed("promiscuous mode");
  }
  if (!SetOption(in_, SOL_PACKET, PACKET_IGNORE_OUTGOING, 1) ||
      !SetOption(in_, SOL_PACKET, PACKET_AUXDATA, 1) ||
      !SetOption(in_, SOL_PACKET, PACKET_VNET_HDR, 1)) {
    return failed("options of a packet socket (Linux 4.20 has them)");
  }
  // What follows may be refused: then there is less room, and no age.
  SetOption(in_, SOL_SOCKET, SO_TIMESTAMPNS, 1);
  if (!SetOption(in_, SOL_SOCKET, SO_RCVBUFFORCE, kReceiveBytes)) {
    SetOption(in_, SOL_SOCKET, SO_RCVBUF, kReceiveBytes);
  }
  if (!SetOption(out_, SOL_SOCKET, SO_SNDBUFFORCE, kSendBytes)) {
    SetOption(out_, SOL_SOCKET, SO_SNDBUF, kSendBytes);
  }
  mtu_ = interface_.mtu();
  changes_ = interface_.MergeNothing();
  if (!changes_.empty()) changes_ += " off";
  for (size_t i = 0; i < kBatch; ++i) PrepareToReceive(i);
  // The socket that sends has no protocol: nothing comes to it.
  if (!BindTo(out_, index, 0) || !BindTo(in_, index, ETH_P_ALL)) {
    return failed("binding a packet socket");
  }
  return absl::OkStatus();
}

void PacketSocket::PrepareToReceive(size_t i) {
  received_.parts[i][0] = {&offloads_[i], sizeof offloads_[i]};
  const std::span<std::byte> room = received_.room(i).subspan(kTagBytes);
  received_.parts[i][1] = {room.data(), room.size()};
  msghdr& message = received_.messages[i].msg_hdr;
  message.msg_control = controls_[i].bytes.data();
  message.msg_controllen = kControlBytes;
}

bool PacketSocket::Receive(Take take) {
  const int count = recvmmsg(in_.number(), received_.messages.data(), kBatch,
                             MSG_DONTWAIT, nullptr);
  if (count < 0) {
    if (errno == EINVAL) {
      // A frame whose offload the kernel cannot describe.
      ++figures_.refused;
      return true;
    }
    if (errno != EAGAIN && errno != EINTR) Fail(errno);
    return false;
  }
  const Instant now = WallClock();
  for (size_t i = 0; i < static_cast<size_t>(count); ++i) {
    TakeFrame(i, now, take);
    received_.messages[i].msg_hdr.msg_controllen = kControlBytes;
  }
  return count > 0;
}

// Returns nothing for what FinishFrame does not know.
std::optional<FrameOffload> PacketSocket::Read(const Offload& offload,
                                               size_t tag_bytes) {
  constexpr uint8_t kNeedsChecksum = 1;
  constexpr uint8_t kNone = 0, kTcpIpv4 = 1, kTcpIpv6 = 4, kUdp = 5;
  constexpr uint8_t kCongestion = 0x80;  // a flag beside them
  FrameOffload left = {.segment_bytes = 0};
  if ((offload.flags & kNeedsChecksum) != 0) {
    left.checksum_start =
        static_cast<uint16_t>(offload.checksum_start + tag_bytes);
    left.checksum_offset = offload.checksum_offset;
  }
  switch (offload.segments & ~kCongestion) {
    case kNone:
      return left;
    case kTcpIpv4:
    case kTcpIpv6:
    case kUdp:
      if (offload.segment_bytes == 0) return std::nullopt;
      left.segment_bytes = offload.segment_bytes;
      return left;
    default:
      return std::nullopt;
  }
}

void PacketSocket::TakeFrame(size_t i, Instant now, Take take) {
  const Beside beside = BesideOf(received_.messages[i].msg_hdr, now);
  const size_t length = received_.messages[i].msg_len;
  const size_t tag_bytes = beside.tag.has_value() ? kTagBytes : 0;
  const std::optional<FrameOffload> offload = Read(offloads_[i], tag_bytes);
  if (beside.is_cut || !offload.has_value() ||
      length < sizeof offloads_[i] + kMacBytes) {
    ++figures_.refused;
    return;
  }
  std::span<std::byte> frame = received_.room(i).subspan(
      kTagBytes - tag_bytes, tag_bytes + length - sizeof offloads_[i]);
  if (beside.tag.has_value()) {
    std::memmove(frame.data(), frame.data() + kTagBytes, kMacBytes);
    Store(&frame[kMacBytes], *beside.tag);
  }
  const size_t packets = FinishFrame(
      frame, *offload,
      [&](std::span<const std::byte> packet) { take(packet, beside.age); });
  figures_.received += packets;
  figures_.refused += packets == 0 ? 1 : 0;
  figures_.split += packets > 1 ? 1 : 0;
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
    return;
  }
  const std::span<std::byte> room = queued_.room(queue_);
  std::ranges::copy(frame, room.begin());
  queued_.parts[queue_][0] = {room.data(), frame.size()};
  queued_.messages[queue_].msg_hdr.msg_iovlen = 1;
  ++queue_;
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
    // The frame is dropped that could not be sent, as where a link is full.
    ++figures_.send_drops;
    ++done;
    if (error == ENETDOWN || error == ENXIO || error == ENODEV) Fail(error);
  }
  queue_ = 0;
}

void PacketSocket::UpdateFigures() {
  tpacket_stats since = {};
  socklen_t size = sizeof since;
  if (getsockopt(in_.number(), SOL_PACKET, PACKET_STATISTICS, &since, &size) ==
      0) {
    figures_.kernel_drops += since.tp_drops;
  }
}

}  // namespace snf
