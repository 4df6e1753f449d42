// SPDX-License-Identifier: Apache-2.0
#include "platform/ports/sockets/sending_socket.h"

#include <linux/if_ether.h>
#include <linux/if_packet.h>

#include <cerrno>

#include "platform/ports/frames/frame_offload.h"
#include "platform/ports/sockets/packet_queue.h"

namespace snf {
namespace {

// A frame is dropped that could not be sent, as where a link is full.
void CountUnsent(int error, SentFrames& counts) {
  ++counts.drops;
  counts.too_long += error == EMSGSIZE ? 1 : 0;
  if (IsOfInterface(error)) counts.lost = error;
}

}  // namespace

const char* SendingSocket::Open(int interface, uint32_t mtu) {
  socket_ = Descriptor(socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0));
  if (!socket_.is_open()) return "a packet socket";
  mtu_ = mtu;
  // If it is refused there is less room.
  if (!SetOption(socket_, SOL_SOCKET, SO_SNDBUFFORCE, kSendBytes)) {
    SetOption(socket_, SOL_SOCKET, SO_SNDBUF, kSendBytes);
  }
  takes_offload_ = SetOption(socket_, SOL_PACKET, PACKET_VNET_HDR, 1);
  static OffloadHeader plain{};
  for (size_t i = 0; i < kBatch; ++i) {
    parts_[i][0] = {&plain, takes_offload_ ? sizeof plain : 0};
    messages_[i].msg_hdr.msg_iov = parts_[i].data();
    messages_[i].msg_hdr.msg_iovlen = parts_[i].size();
  }
  // The socket has no protocol: nothing comes to it.
  sockaddr_ll address = {};
  address.sll_family = AF_PACKET;
  address.sll_ifindex = interface;
  const bool is_bound =
      bind(socket_.number(), reinterpret_cast<sockaddr*>(&address),
           sizeof address) == 0;
  return is_bound ? nullptr : "binding a packet socket";
}

void SendingSocket::Send(std::span<const std::span<const std::byte>> frames,
                         SentFrames& counts) {
  for (size_t i = 0; i < frames.size(); ++i) {
    parts_[i][1] = {const_cast<std::byte*>(frames[i].data()), frames[i].size()};
  }
  for (size_t done = 0; done < frames.size();) {
    const int sent =
        sendmmsg(socket_.number(), &messages_[done],
                 static_cast<unsigned>(frames.size() - done), MSG_DONTWAIT);
    if (sent > 0) {
      counts.sent += static_cast<uint64_t>(sent);
      done += static_cast<size_t>(sent);
      continue;
    }
    const int error = errno;
    if (error == EINTR) continue;
    ++done;
    CountUnsent(error, counts);
  }
}

bool SendingSocket::SendMerged(std::span<const std::byte> frame,
                               uint16_t segment_bytes, SentFrames& counts) {
  MergedFrame merged;
  if (!takes_offload_ ||
      !merged.Describe(frame, segment_bytes, mtu_ + ETH_HLEN)) {
    return false;
  }
  msghdr message = {};
  message.msg_iov = merged.parts().data();
  message.msg_iovlen = merged.parts().size();
  if (sendmsg(socket_.number(), &message, MSG_DONTWAIT) >= 0) {
    ++counts.sent;
    return true;
  }
  // A kernel before 6.2 does not take frames of several UDP packets.
  if (errno == EINVAL) return false;
  CountUnsent(errno, counts);
  return true;
}

void SendingSocket::SendCut(std::span<const std::byte> frame,
                            uint16_t segment_bytes, SentFrames& counts) {
  const size_t packets =
      CutFrame(frame, segment_bytes, [&](std::span<const std::byte> packet) {
        Send({&packet, 1}, counts);
      });
  if (packets == 0) {
    ++counts.drops;
  } else {
    counts.cut += packets - 1;
  }
}

}  // namespace snf
