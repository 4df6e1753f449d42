// SPDX-License-Identifier: Apache-2.0
#include "platform/ports/sockets/packet_queue.h"

#include <arpa/inet.h>
#include <linux/if_ether.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

namespace snf {
namespace {

constexpr int kSocketType = SOCK_RAW | SOCK_CLOEXEC;
constexpr size_t kMacBytes = 12;  // of both addresses
// Linux before 6.4 ignores it: then frames that the machine sends cost more,
// and the filter drops them.
constexpr uint32_t kIgnoreOutgoing = 0x4000;

// The VLAN tag, with its type, that the kernel has taken out of a frame.
std::optional<be32> TagOf(const tpacket2_hdr& slot) {
  if ((slot.tp_status & TP_STATUS_VLAN_VALID) == 0) return std::nullopt;
  const bool has_type = (slot.tp_status & TP_STATUS_VLAN_TPID_VALID) != 0;
  const uint32_t type = has_type ? slot.tp_vlan_tpid : ETH_P_8021Q;
  return be32(type << 16 | slot.tp_vlan_tci);
}

sock_filter Step(int code, uint32_t value, uint8_t if_true = 0,
                 uint8_t if_false = 0) {
  return {.code = static_cast<uint16_t>(code),
          .jt = if_true,
          .jf = if_false,
          .k = value};
}

bool Attach(const Descriptor& socket, std::span<sock_filter> steps) {
  const sock_fprog program = {.len = static_cast<uint16_t>(steps.size()),
                              .filter = steps.data()};
  return SetOption(socket, SOL_SOCKET, SO_ATTACH_FILTER, program);
}

bool BindTo(const Descriptor& socket, int index) {
  sockaddr_ll address = {};
  address.sll_family = AF_PACKET;
  address.sll_ifindex = index;
  address.sll_protocol = htons(ETH_P_ALL);
  return bind(socket.number(), reinterpret_cast<sockaddr*>(&address),
              sizeof address) == 0;
}

}  // namespace

bool IsOfInterface(int error) {
  return error == ENETDOWN || error == ENXIO || error == ENODEV;
}

const char* PacketQueue::Open(int interface, size_t frame_bytes,
                              uint32_t queues) {
  socket_ = Descriptor(socket(AF_PACKET, kSocketType, 0));
  if (!socket_.is_open()) return "a packet socket";
  packet_mreq all = {};
  all.mr_ifindex = interface;
  all.mr_type = PACKET_MR_PROMISC;
  if (!SetOption(socket_, SOL_PACKET, PACKET_ADD_MEMBERSHIP, all)) {
    return "promiscuous mode";
  }
  if (!SetOption(socket_, SOL_PACKET, PACKET_IGNORE_OUTGOING, 1) ||
      !SetOption(socket_, SOL_PACKET, PACKET_VNET_HDR, 1)) {
    return "options of a packet socket (need Linux 4.20)";
  }
  if (!AdmitNone()) return "a filter of a packet socket";
  if (!ring_.Open(socket_.number(), frame_bytes,
                  PacketRing::kMostBytes / queues)) {
    return "a ring of a packet socket";
  }
  const int receive_bytes = kReceiveBytes / static_cast<int>(queues);
  if (!SetOption(socket_, SOL_SOCKET, SO_RCVBUFFORCE, receive_bytes)) {
    SetOption(socket_, SOL_SOCKET, SO_RCVBUF, receive_bytes);
  }
  return BindTo(socket_, interface) ? nullptr : "binding a packet socket";
}

bool PacketQueue::Adopt(Descriptor socket, size_t ring_bytes, size_t slot_bytes,
                        size_t next_slot) {
  socket_ = std::move(socket);
  return socket_.is_open() &&
         ring_.Adopt(socket_.number(), ring_bytes, slot_bytes, next_slot);
}

bool PacketQueue::Join(std::optional<uint16_t>& group) {
  uint32_t wanted = (PACKET_FANOUT_HASH | kIgnoreOutgoing) << 16;
  wanted |= group.has_value() ? *group : PACKET_FANOUT_FLAG_UNIQUEID << 16;
  if (!SetOption(socket_, SOL_PACKET, PACKET_FANOUT, wanted)) return false;
  is_shared_ = true;
  if (group.has_value()) return true;
  uint32_t given = 0;
  socklen_t size = sizeof given;
  if (getsockopt(socket_.number(), SOL_PACKET, PACKET_FANOUT, &given, &size) !=
      0) {
    return false;
  }
  group = static_cast<uint16_t>(given);
  return true;
}

// A group gets the frames that the machine sends, whatever its sockets ignore.
bool PacketQueue::Admit(std::span<const sock_filter> program) {
  if (!is_shared_ && program.empty()) {
    return SetOption(socket_, SOL_SOCKET, SO_DETACH_FILTER, 0);
  }
  std::vector<sock_filter> steps;
  if (is_shared_) {
    steps = {Step(BPF_LD | BPF_W | BPF_ABS,
                  static_cast<uint32_t>(SKF_AD_OFF + SKF_AD_PKTTYPE)),
             Step(BPF_JMP | BPF_JEQ | BPF_K, PACKET_OUTGOING, 0, 1),
             Step(BPF_RET | BPF_K, 0)};
  }
  steps.insert(steps.end(), program.begin(), program.end());
  if (program.empty()) steps.push_back(Step(BPF_RET | BPF_K, 0xffff'ffff));
  return Attach(socket_, steps);
}

bool PacketQueue::AdmitNone() {
  std::array nothing = {Step(BPF_RET | BPF_K, 0)};
  return Attach(socket_, nothing);
}

PacketQueue::Read PacketQueue::ReadFrame(tpacket2_hdr& slot, Frame& frame) {
  Whole whole{};
  if (const Read read = ReadWhole(slot, whole); read != Read::kFrame) {
    return read;
  }
  const std::optional<be32> tag = TagOf(slot);
  const size_t tag_bytes = tag.has_value() ? kTagBytes : 0;
  const std::optional<FrameOffload> offload =
      ReadOffload(whole.offload, tag_bytes);
  if (!offload.has_value() || whole.frame.size() < kMacBytes) {
    return Read::kRefused;
  }
  frame = {
      .bytes = {whole.frame.data() - tag_bytes, whole.frame.size() + tag_bytes},
      .offload = *offload,
      .has_tag = tag.has_value()};
  if (tag.has_value()) {
    std::memmove(frame.bytes.data(), whole.frame.data(), kMacBytes);
    Store(&frame.bytes[kMacBytes], *tag);
  }
  return Read::kFrame;
}

// In a slot the offload stands in front of the frame, where a tag may go later.
PacketQueue::Read PacketQueue::ReadWhole(tpacket2_hdr& slot, Whole& whole) {
  whole.frame = PacketRing::FrameOf(slot);
  if ((slot.tp_status & TP_STATUS_COPY) == 0) {
    std::memcpy(&whole.offload, whole.frame.data() - sizeof whole.offload,
                sizeof whole.offload);
    return slot.tp_snaplen == slot.tp_len ? Read::kFrame : Read::kDropped;
  }
  if (long_room_ == nullptr) {
    long_room_.reset(new std::byte[kTagBytes + most_bytes_]);
  }
  std::byte* const room = long_room_.get() + kTagBytes;
  std::array<iovec, 2> parts = {
      {{&whole.offload, sizeof whole.offload}, {room, most_bytes_}}};
  msghdr message = {};
  message.msg_iov = parts.data();
  message.msg_iovlen = parts.size();
  const ssize_t bytes = recvmsg(socket_.number(), &message, MSG_DONTWAIT);
  if (bytes < 0 && IsOfInterface(errno)) return Read::kFailed;
  if (bytes < static_cast<ssize_t>(sizeof whole.offload) ||
      (message.msg_flags & MSG_TRUNC) != 0) {
    return Read::kRefused;
  }
  whole.frame = {room, static_cast<size_t>(bytes) - sizeof whole.offload};
  return Read::kFrame;
}

uint64_t PacketQueue::TakeDrops() const {
  tpacket_stats since = {};
  socklen_t size = sizeof since;
  if (getsockopt(socket_.number(), SOL_PACKET, PACKET_STATISTICS, &since,
                 &size) != 0) {
    return 0;
  }
  return since.tp_drops;
}

int PacketQueue::TakeError() const {
  int error = 0;
  socklen_t size = sizeof error;
  if (getsockopt(socket_.number(), SOL_SOCKET, SO_ERROR, &error, &size) != 0) {
    return 0;
  }
  return error;
}

}  // namespace snf
