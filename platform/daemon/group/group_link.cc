// SPDX-License-Identifier: Apache-2.0
#include "platform/daemon/group/group_link.h"

#include <fmt/format.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/byte_order.h"
#include "base/text/wording.h"
#include "platform/hosts/channel_datagram.h"
#include "platform/service/socket_address.h"

namespace snf {
namespace {

constexpr GeneveOptionName kFrameName = {kSnfOptionClass, 0x85};

void StoreLong(std::byte* to, uint64_t value) {
  Store(to, be32(static_cast<uint32_t>(value >> 32)));
  Store(to + 4, be32(static_cast<uint32_t>(value)));
}
uint64_t LoadLong(const std::byte* from) {
  return uint64_t{LoadBe32(from).host()} << 32 | LoadBe32(from + 4).host();
}

bool IsSameEnd(const sockaddr_storage& a, const sockaddr_storage& b) {
  if (a.ss_family != b.ss_family) return false;
  if (a.ss_family == AF_INET6) {
    const auto& x = reinterpret_cast<const sockaddr_in6&>(a);
    const auto& y = reinterpret_cast<const sockaddr_in6&>(b);
    return x.sin6_port == y.sin6_port &&
           std::memcmp(&x.sin6_addr, &y.sin6_addr, sizeof x.sin6_addr) == 0;
  }
  const auto& x = reinterpret_cast<const sockaddr_in&>(a);
  const auto& y = reinterpret_cast<const sockaddr_in&>(b);
  return x.sin_port == y.sin_port && x.sin_addr.s_addr == y.sin_addr.s_addr;
}

absl::StatusOr<sockaddr_storage> ParseEnd(const std::string& text) {
  return ParseReachable(text, "192.0.2.1:6083");
}

}  // namespace

GroupLink::Batch::Batch() : rooms(new std::byte[kBatch * kRoomBytes]) {
  for (size_t i = 0; i < kBatch; ++i) {
    parts[i] = {room(i).data(), kRoomBytes};
    messages[i].msg_hdr.msg_iov = &parts[i];
    messages[i].msg_hdr.msg_iovlen = 1;
    messages[i].msg_hdr.msg_name = &ends[i];
    messages[i].msg_hdr.msg_namelen = sizeof ends[i];
  }
}

absl::Status GroupLink::Check(const std::string& address) {
  return ParseEnd(address).status();
}

absl::StatusOr<std::unique_ptr<GroupLink>> GroupLink::Open(
    const std::string& address) {
  const auto end = ParseSocketAddress(address);
  if (!end.ok()) return end.status();
  Descriptor socket(::socket(
      end->ss_family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_UDP));
  if (!socket.is_open() ||
      bind(socket.number(), reinterpret_cast<const sockaddr*>(&*end),
           SocketAddressBytes(*end)) != 0) {
    return absl::UnavailableError(
        fmt::format("UDP at {}: {}", address, std::strerror(errno)));
  }
  SetOption(socket, SOL_SOCKET, SO_RXQ_OVFL, 1);
  // Longer datagrams than the path takes are fragmented.
  const bool is_v6 = end->ss_family == AF_INET6;
  SetOption(socket, is_v6 ? IPPROTO_IPV6 : IPPROTO_IP,
            is_v6 ? IPV6_MTU_DISCOVER : IP_MTU_DISCOVER,
            is_v6 ? IPV6_PMTUDISC_DONT : IP_PMTUDISC_DONT);
  for (const auto& [forced, other] : {std::pair{SO_RCVBUFFORCE, SO_RCVBUF},
                                      std::pair{SO_SNDBUFFORCE, SO_SNDBUF}}) {
    if (!SetOption(socket, SOL_SOCKET, forced, kBufferBytes)) {
      SetOption(socket, SOL_SOCKET, other, kBufferBytes);
    }
  }
  return std::unique_ptr<GroupLink>(new GroupLink(std::move(socket)));
}

// The kernel counts on: datagrams that were lost before are not lost here.
std::unique_ptr<GroupLink> GroupLink::Adopt(Descriptor socket) {
  std::array<uint32_t, SK_MEMINFO_VARS> counts{};
  socklen_t bytes = sizeof counts;
  const bool is_known = getsockopt(socket.number(), SOL_SOCKET, SO_MEMINFO,
                                   counts.data(), &bytes) == 0;
  std::unique_ptr<GroupLink> link(new GroupLink(std::move(socket)));
  if (is_known) link->overflow_ = counts[SK_MEMINFO_DROPS];
  return link;
}

void GroupLink::Follow(const GatewayTable& table) {
  epoch_ = table.epoch;
  key_ = table.key;
  members_.fill(std::nullopt);
  for (const Gateway& member : table.members) {
    const auto end =
        ParseEnd(member.address.empty() ? member.states : member.address);
    if (end.ok()) members_[member.number] = *end;
  }
}

bool GroupLink::Send(uint32_t from, uint32_t to, const Frame& frame) {
  if (!members_[to].has_value() || frame.bytes.size() > kMostFrame ||
      queue_ == kBatch) {
    return false;
  }
  const Kind kind = frame.way == Way::kHolder ? Kind::kToHolder
                    : frame.way == Way::kBack ? Kind::kBack
                                              : Kind::kFrame;
  Queue(from, kind, *members_[to], frame);
  return true;
}

void GroupLink::Queue(uint32_t from, Kind kind, const sockaddr_storage& to,
                      const Frame& frame) {
  const std::span<std::byte> room = out_.room(queue_);
  std::array<std::byte, kOptionBytes> data{};
  StoreLong(data.data(), key_);
  const bool is_control = kind == Kind::kGreeting || kind == Kind::kOut;
  if (is_control || kind == Kind::kFrame) {
    StoreLong(&data[8], epoch_);
  } else {
    data[8] = std::byte(frame.home);
    Store(&data[10], be16(frame.segment_bytes));
  }
  data[16] = std::byte(from);
  data[17] = std::byte(frame.side);
  data[18] = std::byte(frame.port);
  data[19] = std::byte(kind);
  const std::array<GeneveOption, 1> options = {{{kFrameName, data}}};
  const BuiltGeneve built = BuildGeneve(
      {.is_control = is_control, .protocol = kBridgedFrame}, options, room);
  std::ranges::copy(frame.bytes, room.begin() + built.bytes);
  out_.parts[queue_].iov_len = built.bytes + frame.bytes.size();
  out_.ends[queue_] = to;
  out_.messages[queue_].msg_hdr.msg_namelen = SocketAddressBytes(to);
  ++queue_;
}

void GroupLink::Greet(uint32_t from, GroupCounts& counts) {
  self_ = from;
  for (uint32_t number = 0; number < members_.size(); ++number) {
    if (!members_[number].has_value() || number == from) continue;
    if (queue_ == kBatch) Flush(counts);
    Queue(from, Kind::kGreeting, *members_[number], {});
  }
}

void GroupLink::Flush(GroupCounts& counts) {
  for (size_t done = 0; done < queue_;) {
    const int sent =
        sendmmsg(socket_.number(), &out_.messages[done],
                 static_cast<unsigned>(queue_ - done), MSG_DONTWAIT);
    if (sent > 0) {
      done += static_cast<size_t>(sent);
    } else if (errno != EINTR) {
      ++done;
      counts.Add(GroupCount::kLinkDropped);
    }
  }
  queue_ = 0;
}

size_t GroupLink::Receive(GroupCounts& counts, Take take) {
  for (size_t i = 0; i < kBatch; ++i) {
    msghdr& message = in_.messages[i].msg_hdr;
    message.msg_namelen = sizeof in_.ends[i];
    message.msg_control = &in_.controls[i];
    message.msg_controllen = sizeof in_.controls[i];
  }
  const int result = recvmmsg(socket_.number(), in_.messages.data(), kBatch,
                              MSG_DONTWAIT, nullptr);
  if (result <= 0) return 0;
  const auto came = static_cast<size_t>(result);
  CountOverflow(in_.messages[came - 1].msg_hdr, counts);
  for (size_t i = 0; i < came; ++i) TakeDatagram(i, counts, take);
  return came;
}

// The kernel counts datagrams that were lost before this one, if any were.
void GroupLink::CountOverflow(msghdr& message, GroupCounts& counts) {
  for (cmsghdr* part = CMSG_FIRSTHDR(&message); part != nullptr;
       part = CMSG_NXTHDR(&message, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SO_RXQ_OVFL) {
      continue;
    }
    uint32_t lost = 0;
    std::memcpy(&lost, CMSG_DATA(part), sizeof lost);
    counts.Add(GroupCount::kLinkOverflow, lost - overflow_);
    overflow_ = lost;
  }
}

bool GroupLink::has_frames() const {
  pollfd wanted = {.fd = socket_.number(), .events = POLLIN, .revents = 0};
  return poll(&wanted, 1, 0) > 0;
}

void GroupLink::TakeControl(size_t i, std::span<const std::byte> data,
                            GroupCounts& counts) {
  const bool is_member =
      IsOfMember(std::to_integer<uint32_t>(data[16]), in_.ends[i]);
  const Kind kind{std::to_integer<uint8_t>(data[19])};
  if (kind == Kind::kGreeting && !is_member) {
    if (queue_ == kBatch) Flush(counts);
    Queue(self_, Kind::kOut, in_.ends[i], {});
  } else if (kind == Kind::kOut && is_member) {
    out_epoch_ = std::max(out_epoch_, LoadLong(&data[8]));
  }
}

bool GroupLink::IsOfMember(uint32_t number,
                           const sockaddr_storage& from) const {
  return number < kMostAtPorts && members_[number].has_value() &&
         IsSameEnd(*members_[number], from);
}

void GroupLink::TakeDatagram(size_t i, GroupCounts& counts, Take take) {
  const std::span<const std::byte> bytes =
      in_.room(i).first(in_.messages[i].msg_len);
  GeneveHeader header;
  const std::array<GeneveOptionName, 1> known = {kFrameName};
  const bool is_whole = (in_.messages[i].msg_hdr.msg_flags & MSG_TRUNC) == 0;
  if (!is_whole || ParseGeneve(bytes, known, header) != GeneveFault::kNone ||
      header.protocol != kBridgedFrame) {
    counts.Add(GroupCount::kMalformed);
    return;
  }
  GeneveOptions list(header.options);
  const auto option = list.Next();
  if (!option.has_value() || option->name != kFrameName ||
      option->data.size() != kOptionBytes || list.Next().has_value()) {
    counts.Add(GroupCount::kMalformed);
    return;
  }
  const std::span<const std::byte> data = option->data;
  const bool has_key = LoadLong(data.data()) == key_;
  if (header.is_control) {
    // Members may greet this one before it has read the table.
    if (has_key) {
      TakeControl(i, data, counts);
    } else if (key_ != 0) {
      counts.Add(GroupCount::kStranger);
    }
    return;
  }
  if (!has_key ||
      !IsOfMember(std::to_integer<uint32_t>(data[16]), in_.ends[i])) {
    counts.Add(GroupCount::kStranger);
    return;
  }
  Frame frame = {.side = Side{std::to_integer<uint8_t>(data[17])},
                 .port = std::to_integer<uint8_t>(data[18]),
                 .bytes = bytes.subspan(header.bytes()),
                 .from = std::to_integer<uint32_t>(data[16])};
  const Kind kind{std::to_integer<uint8_t>(data[19])};
  if (kind == Kind::kToHolder || kind == Kind::kBack) {
    frame.way = kind == Kind::kBack ? Way::kBack : Way::kHolder;
    frame.home = std::to_integer<uint8_t>(data[8]);
    frame.segment_bytes = LoadBe16(&data[10]).host();
  }
  take(frame);
}

}  // namespace snf
