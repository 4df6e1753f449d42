// SPDX-License-Identifier: Apache-2.0
#include "platform/ports/gwlb_port.h"

#include <fmt/format.h>
#include <linux/filter.h>
#include <linux/sock_diag.h>
#include <netinet/ip.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "base/packet/headers.h"

namespace snf {
namespace {

using Byte = std::byte;

constexpr size_t kLinkBytes = EthernetHeader<Byte>::kBytes;

be32 AddressOf(const in_addr& address) {
  return LoadAs<be32>(reinterpret_cast<const Byte*>(&address));
}

// The parts of a received packet's description by the kernel.
struct Beside {
  be32 destination{};
  uint8_t traffic_class = 0;
  Instant came = Instant::min();
};
Beside BesideOf(msghdr& message) {
  Beside beside;
  for (cmsghdr* part = CMSG_FIRSTHDR(&message); part != nullptr;
       part = CMSG_NXTHDR(&message, part)) {
    const auto* const data = reinterpret_cast<const Byte*>(CMSG_DATA(part));
    if (part->cmsg_level == IPPROTO_IP && part->cmsg_type == IP_PKTINFO) {
      beside.destination = AddressOf(LoadAs<in_pktinfo>(data).ipi_addr);
    } else if (part->cmsg_level == IPPROTO_IP && part->cmsg_type == IP_TOS) {
      beside.traffic_class = LoadAs<uint8_t>(data);
    } else if (part->cmsg_level == SOL_SOCKET &&
               part->cmsg_type == SCM_TIMESTAMPNS) {
      const auto time = LoadAs<timespec>(data);
      beside.came = {time.tv_sec * 1'000'000'000 + time.tv_nsec};
    }
  }
  return beside;
}

}  // namespace

// Not cleared: pages are the kernel's zeros, and are there once they are used.
GwlbPort::In::In() : rooms(new Byte[kBatch * kInRoomBytes]) {
  for (size_t i = 0; i < kBatch; ++i) {
    parts[i] = {&rooms[i * kInRoomBytes + kLinkRoom], kInRoomBytes - kLinkRoom};
    messages[i].msg_hdr.msg_iov = &parts[i];
    messages[i].msg_hdr.msg_iovlen = 1;
    messages[i].msg_hdr.msg_name = &senders[i];
    messages[i].msg_hdr.msg_control = &controls[i];
  }
}

GwlbPort::Out::Out() : rooms(new Byte[kBatch * kOutRoomBytes]) {
  for (size_t i = 0; i < kBatch; ++i) {
    messages[i].msg_hdr.msg_iov = &parts[i];
    messages[i].msg_hdr.msg_iovlen = 1;
    messages[i].msg_hdr.msg_name = &receivers[i];
    messages[i].msg_hdr.msg_namelen = sizeof receivers[i];
  }
}

std::vector<PortReason> GwlbPort::reasons() const {
  std::vector<PortReason> reasons;
  for (size_t i = 1; i < kGwlbRefusals; ++i) {
    reasons.push_back({.name = std::string(Name(static_cast<GwlbRefusal>(i))),
                       .count = refusals_[i]});
  }
  reasons.push_back({.name = kNoOuterHeader, .count = no_outer_header_});
  reasons.push_back({.name = kNotIp, .count = not_ip_});
  reasons.push_back({.name = kEvicted, .count = outer_.evicted()});
  return reasons;
}

absl::StatusOr<std::unique_ptr<PacketPort>> GwlbPort::Open(
    const PortSpec& spec) {
  std::unique_ptr<GwlbPort> port(new GwlbPort(spec));
  const absl::Status status = port->Connect();
  if (status.ok()) return port;
  return absl::Status(
      status.code(),
      fmt::format("port {}: {}", spec.name(), std::string(status.message())));
}

absl::Status GwlbPort::Failed(const char* what) const {
  const std::string message =
      fmt::format("{}: {}: {}", spec_.interface, what, std::strerror(errno));
  if (errno == EPERM || errno == EACCES) {
    return absl::PermissionDeniedError(message +
                                       "; gwlb ports need root or CAP_NET_RAW");
  }
  return absl::FailedPreconditionError(message);
}

absl::Status GwlbPort::Connect() {
  if (absl::Status s = interface_.Check(); !s.ok()) return s;
  mtu_ = kGwlbMtu;
  out_ = Descriptor(
      socket(AF_INET, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_RAW));
  if (!out_.is_open()) return Failed("a raw socket");
  const std::string& name = spec_.interface;
  if (setsockopt(out_.number(), SOL_SOCKET, SO_BINDTODEVICE, name.data(),
                 static_cast<socklen_t>(name.size())) != 0) {
    return Failed("binding a raw socket");
  }
  // If it is refused there is less room.
  if (!SetOption(out_, SOL_SOCKET, SO_SNDBUFFORCE, kSendBytes)) {
    SetOption(out_, SOL_SOCKET, SO_SNDBUF, kSendBytes);
  }
  if (absl::Status s = ConnectIn(); !s.ok()) return s;
  if (spec_.health_port == 0) return absl::OkStatus();
  auto health = HealthResponder::Listen(spec_.health_port);
  if (!health.ok()) return health.status();
  health_ = *std::move(health);
  return absl::OkStatus();
}

absl::Status GwlbPort::ConnectIn() {
  in_ =
      Descriptor(socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!in_.is_open()) return Failed("a UDP socket");
  const std::string& name = spec_.interface;
  if (setsockopt(in_.number(), SOL_SOCKET, SO_BINDTODEVICE, name.data(),
                 static_cast<socklen_t>(name.size())) != 0 ||
      !SetOption(in_, IPPROTO_IP, IP_PKTINFO, 1) ||
      !SetOption(in_, IPPROTO_IP, IP_RECVTOS, 1) ||
      !SetOption(in_, SOL_SOCKET, SO_TIMESTAMPNS, 1)) {
    return Failed("options of a UDP socket");
  }
  if (!SetOption(in_, SOL_SOCKET, SO_RCVBUFFORCE, kReceiveBytes)) {
    SetOption(in_, SOL_SOCKET, SO_RCVBUF, kReceiveBytes);
  }
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(kGenevePort);
  if (bind(in_.number(), reinterpret_cast<const sockaddr*>(&address),
           sizeof address) != 0) {
    return Failed("UDP port 6081");
  }
  return absl::OkStatus();
}

bool GwlbPort::Receive(Take take) {
  has_turned_ = true;
  for (size_t i = 0; i < kBatch; ++i) {
    received_.messages[i].msg_hdr.msg_namelen = sizeof received_.senders[i];
    received_.messages[i].msg_hdr.msg_controllen = kControlBytes;
  }
  const int count = recvmmsg(in_.number(), received_.messages.data(), kBatch,
                             MSG_DONTWAIT, nullptr);
  if (count <= 0) return false;
  const Instant now = WallClock();
  for (size_t i = 0; i < static_cast<size_t>(count); ++i) {
    TakePacket(i, now, take);
  }
  return true;
}

void GwlbPort::TakePacket(size_t i, Instant now, Take take) {
  msghdr& message = received_.messages[i].msg_hdr;
  const std::span<Byte> room = received_.room(i);
  const std::span<Byte> payload =
      room.subspan(kLinkRoom, received_.messages[i].msg_len);
  GeneveHeader header;
  const GwlbRefusal refusal = ParseGwlb(payload, header);
  if (refusal != GwlbRefusal::kNone) {
    ++figures_.refused;
    ++refusals_[static_cast<size_t>(refusal)];
    return;
  }
  const Beside beside = BesideOf(message);
  const EtherType type = header.protocol;
  const size_t before = kLinkRoom + header.bytes() - kLinkBytes;
  std::array<Byte, kLinkBytes> link{};
  outer_.Name({.source = AddressOf(received_.senders[i].sin_addr),
               .destination = beside.destination,
               .source_port = LoadAs<be16>(reinterpret_cast<const Byte*>(
                   &received_.senders[i].sin_port)),
               .traffic_class = beside.traffic_class,
               .geneve = payload.first(header.bytes())},
              link);
  Store(&link[kLinkBytes - 2], be16(static_cast<uint16_t>(type)));
  // The end of the outer header makes room: the table has it.
  const std::span<Byte> frame =
      room.subspan(before, kLinkRoom + payload.size() - before);
  std::ranges::copy(link, frame.begin());
  ++figures_.received;
  const bool is_dated = beside.came != Instant::min();
  take({.bytes = frame,
        .age = is_dated ? std::max(now - beside.came, Nanos{}) : Nanos{}});
}

// The kernel counts packets that the filter refuses as its drops.
void GwlbPort::StopReceiving() {
  ReadKernelDrops();
  has_stopped_ = true;
  sock_filter nothing = {.code = BPF_RET | BPF_K, .jt = 0, .jf = 0, .k = 0};
  const sock_fprog program = {.len = 1, .filter = &nothing};
  SetOption(in_, SOL_SOCKET, SO_ATTACH_FILTER, program);
}

void GwlbPort::ReadKernelDrops() {
  std::array<uint32_t, SK_MEMINFO_VARS> memory = {};
  socklen_t size = sizeof memory;
  if (!has_stopped_ &&
      getsockopt(in_.number(), SOL_SOCKET, SO_MEMINFO, &memory, &size) == 0) {
    figures_.kernel_drops = memory[SK_MEMINFO_DROPS];
  }
}

void GwlbPort::Drop(uint64_t& reason) {
  ++figures_.send_drops;
  ++reason;
}

// The kernel fills in length, identification and checksum of IPv4.
size_t GwlbPort::WriteOuter(const OuterHeader& outer, EtherType inner,
                            std::span<Byte> to) {
  // Version 4 and 5 words; don't fragment; TTL 64; UDP.
  constexpr std::array<uint8_t, kIpBytes> kIp = {0x45, 0,    0, 0,  0,
                                                 0,    0x40, 0, 64, 17};
  std::memcpy(to.data(), kIp.data(), kIpBytes);
  to[1] = Byte{outer.traffic_class};
  const auto ip = Ipv4Header<Byte>::At(to, 0);
  ip.set_source(outer.destination);
  ip.set_destination(outer.source);
  const std::span<Byte> udp = to.subspan(kIpBytes, kUdpBytes);
  Store(udp.data(), outer.source_port);
  Store(&udp[2], be16(kGenevePort));
  Store(&udp[6], be16(0));
  const std::span<Byte> geneve = to.subspan(kIpBytes + kUdpBytes);
  std::ranges::copy(outer.geneve, geneve.begin());
  Store(&geneve[2], be16(static_cast<uint16_t>(inner)));
  return kIpBytes + kUdpBytes + outer.geneve.size();
}

void GwlbPort::Send(std::span<const Byte> frame) {
  if (queue_ == kBatch) Flush();
  const auto ethernet = EthernetHeader<const Byte>::At(frame, 0);
  const std::optional<OuterHeader> outer = outer_.Find(frame);
  if (!outer.has_value()) return Drop(no_outer_header_);
  if (!ethernet || (ethernet.type() != EtherType::kIpv4 &&
                    ethernet.type() != EtherType::kIpv6)) {
    return Drop(not_ip_);
  }
  const auto inner = frame.subspan(kLinkBytes);
  if (inner.size() > kGwlbMtu) return Drop(figures_.too_long);
  const std::span<Byte> room = queued_.room(queue_);
  const size_t front = WriteOuter(*outer, ethernet.type(), room);
  std::ranges::copy(inner, &room[front]);
  Store(&room[kIpBytes + 4],
        be16(static_cast<uint16_t>(front - kIpBytes + inner.size())));
  queued_.parts[queue_] = {room.data(), front + inner.size()};
  sockaddr_in& receiver = queued_.receivers[queue_];
  receiver = {};
  receiver.sin_family = AF_INET;
  std::memcpy(&receiver.sin_addr, &outer->source, sizeof receiver.sin_addr);
  ++queue_;
}

void GwlbPort::Flush() {
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
    ++figures_.send_drops;
    figures_.too_long += error == EMSGSIZE ? 1 : 0;
    ++done;
  }
  queue_ = 0;
}

void GwlbPort::UpdateFigures() {
  ReadKernelDrops();
  // A socket of a lost interface says nothing.
  if (!interface_.Check().ok()) Fail(ENETDOWN);
  if (health_ != nullptr) {
    health_->Answer(has_turned_ && !has_stopped_ && status_.ok());
  }
  has_turned_ = false;
}

}  // namespace snf
