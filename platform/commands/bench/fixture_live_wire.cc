// SPDX-License-Identifier: Apache-2.0
#include "platform/commands/bench/fixture_live_wire.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <sched.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "base/rng.h"

namespace snf {
namespace {

constexpr size_t kMessages = 64;

absl::Status Failed(const char* what) {
  return absl::FailedPreconditionError(
      fmt::format("{}: {}", what, std::strerror(errno)));
}

// A packet socket of an interface; it receives if `protocol` is not 0.
Descriptor OpenSocket(const char* interface, uint16_t protocol) {
  Descriptor opened(socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0));
  sockaddr_ll address = {};
  address.sll_family = AF_PACKET;
  address.sll_ifindex = static_cast<int>(if_nametoindex(interface));
  address.sll_protocol = htons(protocol);
  if (opened.is_open() &&
      bind(opened.number(), reinterpret_cast<sockaddr*>(&address),
           sizeof address) == 0) {
    return opened;
  }
  return Descriptor();
}

template <size_t kCount>
struct Messages {
  void Set(size_t i, const std::byte* bytes, size_t length) {
    // Sending only reads them.
    parts[i] = {const_cast<std::byte*>(bytes), length};
    all[i].msg_hdr.msg_iov = &parts[i];
    all[i].msg_hdr.msg_iovlen = 1;
  }
  std::array<mmsghdr, kCount> all{};
  std::array<iovec, kCount> parts{};
};

absl::Status MakeInterfaces() {
  if (unshare(CLONE_NEWNET) != 0) {
    return absl::PermissionDeniedError(
        "needs root, to make a network namespace");
  }
  // Children of this thread are in the namespace as well.
  const int code = std::system(
      "exec >/dev/null 2>&1;"
      "ip link add sender type veth peer name lan0 &&"
      "ip link add receiver type veth peer name wan0 &&"
      "for i in sender lan0 receiver wan0; do "
      "ip link set $i addrgenmode none up || exit 1; done");
  if (code == 0) return absl::OkStatus();
  return absl::FailedPreconditionError("ip makes no veth interfaces");
}

}  // namespace

absl::StatusOr<std::unique_ptr<LiveWire>> LiveWire::Make(
    uint32_t flows, absl::FunctionRef<absl::Status()> open) {
  std::unique_ptr<LiveWire> wire(new LiveWire);
  for (uint32_t i = 0; i < flows; ++i) {
    const MadeConnection of = MadeConnection::Number(i);
    wire->frames_.push_back(MakeFrame(of.protocol, of.inside, of.far));
  }
  Rng rng(1);
  rng.Shuffle(std::span(wire->frames_));
  absl::Status status;
  std::thread([&] { status = wire->OpenIn(open); }).join();
  if (!status.ok()) return status;
  return wire;
}

absl::Status LiveWire::OpenIn(absl::FunctionRef<absl::Status()> open) {
  if (absl::Status s = MakeInterfaces(); !s.ok()) return s;
  sender_ = OpenSocket("sender", 0);
  if (!sender_.is_open()) return Failed("a packet socket");
  return open();
}

uint32_t LiveWire::Send(uint64_t most) {
  const auto count = static_cast<uint32_t>(std::min<uint64_t>(most, kBurst));
  Messages<kMessages> messages;
  for (uint32_t sent = 0; sent < count;) {
    const auto batch =
        std::min<uint32_t>(static_cast<uint32_t>(kMessages), count - sent);
    for (uint32_t i = 0; i < batch; ++i) {
      messages.Set(i, frames_[(next_ + i) % frames_.size()].data(), kMadeBytes);
    }
    const int done = sendmmsg(sender_.number(), messages.all.data(), batch, 0);
    if (done <= 0) return sent;
    sent += static_cast<uint32_t>(done);
    next_ = (next_ + static_cast<size_t>(done)) % frames_.size();
  }
  return count;
}

absl::Status BareForwarder::Open() {
  in_ = OpenSocket("lan0", ETH_P_ALL);
  out_ = OpenSocket("wan0", 0);
  if (!in_.is_open() || !out_.is_open()) return Failed("a packet socket");
  constexpr int kRoom = 64 << 20;
  setsockopt(in_.number(), SOL_SOCKET, SO_RCVBUFFORCE, &kRoom, sizeof kRoom);
  return absl::OkStatus();
}

uint32_t BareForwarder::Turn(bool sends) {
  Messages<kBatch> messages;
  for (size_t i = 0; i < kBatch; ++i) {
    messages.Set(i, &rooms_[i * kRoomBytes], kRoomBytes);
  }
  const int count = recvmmsg(in_.number(), messages.all.data(), kBatch,
                             MSG_DONTWAIT, nullptr);
  if (count <= 0) return 0;
  if (!sends) return static_cast<uint32_t>(count);
  for (size_t i = 0; i < static_cast<size_t>(count); ++i) {
    messages.parts[i].iov_len = messages.all[i].msg_len;
  }
  const int sent = sendmmsg(out_.number(), messages.all.data(),
                            static_cast<unsigned>(count), MSG_DONTWAIT);
  return sent <= 0 ? 0 : static_cast<uint32_t>(sent);
}

}  // namespace snf
