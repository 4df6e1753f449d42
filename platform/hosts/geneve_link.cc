// SPDX-License-Identifier: Apache-2.0
#include "platform/hosts/geneve_link.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <utility>

#include "platform/hosts/host_stream.h"
#include "runtime/ring/real_clock.h"

namespace snf {
namespace {

constexpr int kBufferBytes = 4 << 20;  // of a socket
constexpr size_t kUdpHeader = 8;
constexpr auto kWordsIndex = static_cast<size_t>(CutChannel::kWords);

absl::Status Failed(const std::string& what) {
  return absl::UnavailableError(
      fmt::format("{}: {}", what, std::strerror(errno)));
}

sockaddr* Generic(sockaddr_storage& address) {
  return reinterpret_cast<sockaddr*>(&address);
}

socklen_t SizeOf(const sockaddr_storage& address) {
  return address.ss_family == AF_INET6 ? sizeof(sockaddr_in6)
                                       : sizeof(sockaddr_in);
}

uint16_t PortOf(const sockaddr_storage& address) {
  return ntohs(address.ss_family == AF_INET6
                   ? reinterpret_cast<const sockaddr_in6&>(address).sin6_port
                   : reinterpret_cast<const sockaddr_in&>(address).sin_port);
}

sockaddr_storage WithPort(sockaddr_storage address, uint16_t port) {
  if (address.ss_family == AF_INET6) {
    reinterpret_cast<sockaddr_in6&>(address).sin6_port = htons(port);
  } else {
    reinterpret_cast<sockaddr_in&>(address).sin_port = htons(port);
  }
  return address;
}

// Packets are not to be fragmented, neither here nor on their way.
void SetOptions(int fd) {
  const int discover = IP_PMTUDISC_DO;
  setsockopt(fd, IPPROTO_IP, IP_MTU_DISCOVER, &discover, sizeof(discover));
  setsockopt(fd, IPPROTO_IPV6, IPV6_MTU_DISCOVER, &discover, sizeof(discover));
  const int on = 1;
  setsockopt(fd, IPPROTO_IPV6, IPV6_DONTFRAG, &on, sizeof(on));
  for (const auto& [force, ask] : {std::pair(SO_RCVBUFFORCE, SO_RCVBUF),
                                   std::pair(SO_SNDBUFFORCE, SO_SNDBUF)}) {
    if (setsockopt(fd, SOL_SOCKET, force, &kBufferBytes,
                   sizeof(kBufferBytes)) != 0) {
      setsockopt(fd, SOL_SOCKET, ask, &kBufferBytes, sizeof(kBufferBytes));
    }
  }
}

absl::StatusOr<int> BoundSocket(sockaddr_storage at) {
  const int fd = socket(at.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return Failed("socket");
  SetOptions(fd);
  const int on = 1;  // links share the port
  if (PortOf(at) != 0) {
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  }
  if (bind(fd, Generic(at), SizeOf(at)) == 0) return fd;
  const absl::Status failed = Failed(fmt::format("UDP port {}", PortOf(at)));
  close(fd);
  return failed;
}

}  // namespace

// --- The start. ---

absl::StatusOr<int> GeneveLink::OpenForStrays(int listener) {
  sockaddr_storage own = {};
  socklen_t size = sizeof(own);
  if (getsockname(listener, Generic(own), &size) != 0) {
    return Failed("address of the agent");
  }
  return BoundSocket(WithPort(own, kGenevePort));
}

absl::StatusOr<std::unique_ptr<GeneveLink>> GeneveLink::Open(int connection,
                                                             uint16_t port) {
  sockaddr_storage own = {};
  sockaddr_storage peer = {};
  socklen_t size = sizeof(own);
  socklen_t peer_size = sizeof(peer);
  if (getsockname(connection, Generic(own), &size) != 0 ||
      getpeername(connection, Generic(peer), &peer_size) != 0) {
    return Failed("addresses of the connection");
  }
  if (own.ss_family != AF_INET && own.ss_family != AF_INET6) {
    return absl::UnavailableError("the connection has no IP addresses");
  }
  std::unique_ptr<GeneveLink> link(new GeneveLink(own, peer, port));
  if (absl::Status s = link->Bind(); !s.ok()) return s;
  return link;
}

absl::Status GeneveLink::Bind() {
  wake_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (wake_ < 0) return Failed("eventfd");
  for (int& fd : out_) {
    const auto bound = BoundSocket(WithPort(own_, 0));
    if (!bound.ok()) return bound.status();
    fd = *bound;
  }
  buffers_.resize(kBatch * kMostDatagram);
  return absl::OkStatus();
}

GeneveLink::~GeneveLink() {
  Stop();
  for (const int fd : out_) {
    if (fd >= 0) close(fd);
  }
  for (const int fd : in_) {
    if (fd >= 0) close(fd);
  }
  if (wake_ >= 0) close(wake_);
}

absl::Status GeneveLink::DrawKey() {
  ChannelKey key;
  if (getrandom(&key, sizeof(key), 0) != sizeof(key)) {
    return Failed("getrandom");
  }
  key.network &= 0xff'ffff;
  key.reserved = 0;
  key_ = key;
  return absl::OkStatus();
}

GeneveOffer GeneveLink::Offer() const {
  GeneveOffer offer = {.key = key_};
  for (size_t i = 0; i < kCutChannels; ++i) {
    sockaddr_storage bound = {};
    socklen_t size = sizeof(bound);
    if (getsockname(out_[i], Generic(bound), &size) == 0) {
      offer.ports[i] = PortOf(bound);
    }
  }
  return offer;
}

absl::Status GeneveLink::Connect(const GeneveOffer& peer) {
  if (peer.key.network >= 1u << 24 || std::ranges::count(peer.ports, 0) != 0) {
    return absl::InvalidArgumentError("an offer that cannot be");
  }
  if (peer.key != key_) return absl::InvalidArgumentError("another key");
  for (size_t i = 0; i < kCutChannels; ++i) {
    sockaddr_storage to = WithPort(peer_, port_);
    sockaddr_storage from = WithPort(peer_, peer.ports[i]);
    const auto bound = BoundSocket(WithPort(own_, port_));
    if (!bound.ok()) return bound.status();
    in_[i] = *bound;
    if (connect(out_[i], Generic(to), SizeOf(to)) != 0 ||
        connect(in_[i], Generic(from), SizeOf(from)) != 0) {
      return Failed("UDP");
    }
    // Before it was connected, the socket may have taken any datagram.
    std::byte any;
    while (recv(in_[i], &any, 1, MSG_DONTWAIT) >= 0) {
    }
  }
  Begin();
  return absl::OkStatus();
}

void GeneveLink::Begin() {
  if (thread_.joinable()) return;
  stops_.store(false);
  thread_ = std::thread([this] { Run(); });
}

size_t GeneveLink::HeadersOf() const {
  constexpr size_t kIpv4 = 20;
  constexpr size_t kIpv6 = 40;
  return kUdpHeader + (own_.ss_family == AF_INET6 ? kIpv6 : kIpv4);
}

// Returns what the kernel knows of the path.
size_t GeneveLink::KernelsPath(size_t channel) const {
  int mtu = 0;
  socklen_t size = sizeof(mtu);
  if (getsockopt(out_[channel], IPPROTO_IP, IP_MTU, &mtu, &size) != 0 &&
      getsockopt(out_[channel], IPPROTO_IPV6, IPV6_MTU, &mtu, &size) != 0) {
    mtu = PathSearch::kLeast;
  }
  return std::clamp<size_t>(static_cast<size_t>(mtu), PathSearch::kLeast,
                            PathSearch::kMost);
}

absl::Status GeneveLink::Measure() {
  std::unique_lock lock(mutex_);
  search_.Begin(RealClock::Monotonic());
  Wake();
  while (true) {
    switch (search_.Look(RealClock::Monotonic())) {
      case PathSearch::Outcome::kFound:
        return absl::OkStatus();
      case PathSearch::Outcome::kSilent:
        return absl::UnavailableError(
            fmt::format("no answer to GENEVE packets (UDP port {})", port_));
      case PathSearch::Outcome::kPending:
        changed_.wait_for(lock,
                          std::chrono::nanoseconds(PathSearch::kPause.ns));
    }
  }
}

void GeneveLink::Start(LoopMirror::Side side, Deliver deliver, Lost lost) {
  {
    const std::lock_guard lock(mutex_);
    side_ = side;
    deliver_ = std::move(deliver);
    lost_ = std::move(lost);
  }
  Begin();
  Wake();
}

void GeneveLink::Stop() {
  if (!thread_.joinable()) return;
  stops_.store(true);
  Wake();
  thread_.join();
}

void GeneveLink::Wake() {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t did = write(wake_, &one, sizeof(one));
}

// --- What is sent. ---

uint64_t GeneveLink::Waiting() const {
  uint64_t sum = 0;
  for (const ChannelSender& sender : senders_) sum += sender.waiting();
  return sum;
}

Instant GeneveLink::Due() const {
  Instant due = search_.due();
  for (size_t i = 0; i < kCutChannels; ++i) {
    const bool is_full = full_until_[i] != Instant();
    due = std::min(due, is_full ? full_until_[i] : senders_[i].due());
  }
  return due;
}

absl::StatusOr<uint64_t> GeneveLink::Await(uint64_t most, Nanos time) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, std::chrono::nanoseconds(time.ns), [this, most] {
    return is_lost_.load() || Waiting() <= most;
  });
  if (is_lost_.load()) return absl::UnavailableError("the link is lost");
  return Waiting();
}

absl::Status GeneveLink::Send(std::span<const std::byte> frame) {
  const std::lock_guard lock(mutex_);
  if (is_lost_.load()) return absl::UnavailableError("the link is lost");
  splitter_.Split(frame, messages_);
  for (size_t i = 0; i < kCutChannels; ++i) {
    if (!messages_[i].empty()) senders_[i].Write(messages_[i]);
  }
  Pump(RealClock::Monotonic());
  if (Due() < sleeps_until_) Wake();
  return absl::OkStatus();
}

void GeneveLink::OnShorterPath(Instant now) {
  for (ChannelSender& sender : senders_) sender.TakeShorterPath(now);
  fmt::print(stderr, "packets to the other host have {} bytes at most\n",
             search_.bytes());
  std::fflush(stderr);
}

void GeneveLink::AskPath(size_t channel, Instant now) {
  if (!search_.is_due(now, channel)) return;
  for (const size_t bytes : search_.Ask(now, channel, KernelsPath(channel))) {
    SendControl(channel,
                {.kind = DatagramKind::kProbe,
                 .channel = static_cast<uint32_t>(channel),
                 .probed = static_cast<uint32_t>(bytes)},
                bytes - HeadersOf(), MSG_DONTWAIT);
  }
}

void GeneveLink::Pump(Instant now) {
  for (size_t i = 0; i < kCutChannels; ++i) PumpOne(i, now);
}

bool GeneveLink::HasRoom(size_t channel, Instant now) const {
  return full_until_[channel] <= now;
}

void GeneveLink::PumpOne(size_t channel, Instant now) {
  ChannelSender& sender = senders_[channel];
  std::array<DatagramHeader, kBatch> headers;
  std::array<std::array<iovec, 2>, kBatch> parts;
  std::array<mmsghdr, kBatch> all;
  if (!HasRoom(channel, now)) return;
  full_until_[channel] = {};
  for (size_t count = kBatch; count == kBatch;) {
    const size_t most = search_.bytes() - HeadersOf() - DatagramHeader::kPiece;
    uint64_t first = 0;
    for (count = 0; count < kBatch; ++count) {
      const auto piece = sender.Next(now, most);
      if (!piece.has_value()) break;
      if (count == 0) first = piece->number;
      BuildHeader({.kind = DatagramKind::kPiece,
                   .channel = static_cast<uint32_t>(channel),
                   .number = piece->number,
                   .offset = piece->offset},
                  key_, headers[count]);
      parts[count][0] = {headers[count].bytes.data(), headers[count].size};
      parts[count][1] = {const_cast<std::byte*>(piece->bytes.data()),
                         piece->bytes.size()};
      all[count] = {};
      all[count].msg_hdr.msg_iov = parts[count].data();
      all[count].msg_hdr.msg_iovlen = 2;
    }
    if (!SendBatch(channel, now, std::span(all).first(count), first)) return;
  }
}

bool GeneveLink::SendBatch(size_t channel, Instant now,
                           std::span<mmsghdr> batch, uint64_t first) {
  for (size_t done = 0; done < batch.size();) {
    const int sent =
        sendmmsg(out_[channel], &batch[done],
                 static_cast<unsigned>(batch.size() - done), MSG_DONTWAIT);
    if (sent > 0) {
      done += static_cast<size_t>(sent);
      continue;
    }
    // An ICMP error is of an earlier datagram.
    if (errno == EINTR || errno == ECONNREFUSED) continue;
    if (errno == EAGAIN || errno == ENOBUFS) {
      senders_[channel].TakeBack(first + done);
      full_until_[channel] = now + kFullTime;
      return false;
    }
    // A datagram that the kernel refuses is lost, and sent again.
    if (errno == EMSGSIZE && search_.Limit(KernelsPath(channel))) {
      OnShorterPath(now);
    }
    ++done;
  }
  return true;
}

void GeneveLink::SendControl(size_t channel, const ChannelDatagram& datagram,
                             size_t zeros, int flags) {
  static constexpr std::array<std::byte, kMostDatagram> kZeros{};
  DatagramHeader header;
  BuildHeader(datagram, key_, header);
  std::array<iovec, 2> parts = {
      iovec{header.bytes.data(), header.size},
      iovec{const_cast<std::byte*>(kZeros.data()),
            zeros > header.size ? zeros - header.size : 0}};
  msghdr message = {};
  message.msg_iov = parts.data();
  message.msg_iovlen = parts.size();
  sendmsg(out_[channel], &message, flags);
}

void GeneveLink::SendAcks() {
  ChannelDatagram acks = {.kind = DatagramKind::kAck};
  size_t bytes = 0;
  for (size_t i = 0; i < kCutChannels; ++i) {
    if (!std::exchange(incoming_[i].is_ack_due, false)) continue;
    AckOfChannel ack = {.channel = static_cast<uint32_t>(i),
                        .ack = incoming_[i].receiver.Ack()};
    if (bytes + ack.bytes() > kMostAckBytes) {
      SendControl(kWordsIndex, acks, 0, 0);
      acks.acks.clear();
      bytes = 0;
    }
    bytes += ack.bytes();
    acks.acks.push_back(std::move(ack));
  }
  if (!acks.acks.empty()) SendControl(kWordsIndex, acks, 0, 0);
}

// --- What is received. ---

void GeneveLink::Refuse(DatagramRefusal why) {
  const std::lock_guard lock(mutex_);
  if (refused_[static_cast<size_t>(why)]++ > 0) return;
  fmt::print(stderr, "GENEVE packets are refused: {}\n", Name(why));
  std::fflush(stderr);
}

void GeneveLink::Take(size_t channel, std::span<const std::byte> payload) {
  ChannelDatagram datagram;
  const DatagramRefusal refusal =
      ParseDatagram(payload, key_, kCutChannels, datagram);
  if (refusal != DatagramRefusal::kNone) return Refuse(refusal);
  switch (datagram.kind) {
    case DatagramKind::kPiece: {
      Incoming& in = incoming_[datagram.channel];
      if (!in.receiver.Take(datagram.number, datagram.offset, datagram.bytes)) {
        return Refuse(DatagramRefusal::kWindow);
      }
      in.is_ack_due = true;
      return;
    }
    case DatagramKind::kAck: {
      absl::Status status;
      {
        const std::lock_guard lock(mutex_);
        const Instant now = RealClock::Monotonic();
        for (const AckOfChannel& of : datagram.acks) {
          const absl::Status taken = senders_[of.channel].TakeAck(now, of.ack);
          if (!taken.ok()) status = taken;
        }
      }
      if (!status.ok()) Refuse(DatagramRefusal::kWindow);
      return;
    }
    case DatagramKind::kProbe:
      return SendControl(channel,
                         {.kind = DatagramKind::kProbeAnswer,
                          .channel = datagram.channel,
                          .probed = datagram.probed},
                         0, MSG_DONTWAIT);
    case DatagramKind::kProbeAnswer: {
      const std::lock_guard lock(mutex_);
      search_.on_answer(RealClock::Monotonic(), channel, datagram.probed);
    }
  }
}

void GeneveLink::ReceiveAll(size_t channel) {
  std::array<iovec, kBatch> parts;
  std::array<mmsghdr, kBatch> all;
  constexpr int kRounds = 8;  // then other channels
  for (int round = 0; round < kRounds; ++round) {
    for (size_t i = 0; i < kBatch; ++i) {
      parts[i] = {&buffers_[i * kMostDatagram], kMostDatagram};
      all[i] = {};
      all[i].msg_hdr.msg_iov = &parts[i];
      all[i].msg_hdr.msg_iovlen = 1;
    }
    const int got =
        recvmmsg(in_[channel], all.data(), kBatch, MSG_DONTWAIT, nullptr);
    for (int i = 0; i < got; ++i) {
      const auto at = static_cast<size_t>(i);
      Take(channel,
           std::span(buffers_).subspan(at * kMostDatagram, all[at].msg_len));
    }
    if (got < static_cast<int>(kBatch)) return;
  }
}

// Returns true if a message was delivered.
absl::StatusOr<bool> GeneveLink::DeliverOne(CutChannel channel) {
  Incoming& in = incoming_[static_cast<size_t>(channel)];
  if (!in.head.has_value()) {
    CutHead head;
    if (in.receiver.ready().size() < sizeof(head)) return false;
    std::memcpy(&head, in.receiver.ready().data(), sizeof(head));
    if (head.bytes == 0 || head.bytes > HostStream::kMostBytes) {
      return absl::InvalidArgumentError(
          fmt::format("a message of {} bytes", head.bytes));
    }
    in.head = head;
    in.receiver.Consume(sizeof(head));
    in.is_ack_due = true;
  }
  const std::span<const std::byte> ready = in.receiver.ready();
  const size_t rest = in.head->bytes - in.begun.size();
  if (ready.size() < rest) {
    if (ready.size() < kChannelWindow / 2) return false;
    in.begun.insert(in.begun.end(), ready.begin(), ready.end());
    in.receiver.Consume(ready.size());
    in.is_ack_due = true;
    return false;
  }
  if (!order_->MayApply(channel, *in.head)) return false;
  absl::Status status;
  if (in.begun.empty()) {
    status = deliver_to_(ready.first(rest));
  } else {
    in.begun.insert(in.begun.end(), ready.begin(),
                    ready.begin() + static_cast<std::ptrdiff_t>(rest));
    status = deliver_to_(in.begun);
    in.begun = {};
  }
  if (!status.ok()) return status;
  in.receiver.Consume(rest);
  in.is_ack_due = true;
  in.head.reset();
  order_->on_applied(channel);
  return true;
}

absl::Status GeneveLink::DeliverAll() {
  for (bool did = true; did;) {
    did = false;
    for (size_t i = 0; i < kCutChannels; ++i) {
      while (true) {
        const auto one = DeliverOne(static_cast<CutChannel>(i));
        if (!one.ok()) return one.status();
        if (!*one) break;
        did = true;
      }
    }
  }
  return absl::OkStatus();
}

// Sends what is due. Errors: Unavailable if the other end is silent.
absl::Status GeneveLink::Turn(Instant now) {
  uint64_t repeated = 0;
  for (const Incoming& in : incoming_) repeated += in.receiver.repeated();
  const std::lock_guard lock(mutex_);
  repeated_ = repeated;
  for (size_t i = 0; i < kCutChannels; ++i) {
    ChannelSender& sender = senders_[i];
    if (HasRoom(i, now)) sender.OnDue(now);
    if (sender.timeouts() >= ChannelSender::kBlackHole) {
      if (search_.Suspect(now, i)) OnShorterPath(now);
    } else {
      search_.Trust(i);
    }
    AskPath(i, now);
    const Instant progress = std::max(
        sender.last_progress(), search_.answered(i).value_or(Instant::min()));
    if (sender.is_unanswered() && now - progress > HostStream::kSilence) {
      return absl::UnavailableError(
          fmt::format("GENEVE packets were not acknowledged for {} ms",
                      HostStream::kSilence.ns / 1'000'000));
    }
  }
  Pump(now);
  changed_.notify_all();
  return absl::OkStatus();
}

void GeneveLink::Run() {
  std::array<pollfd, kCutChannels + 1> waits;
  for (size_t i = 0; i < kCutChannels; ++i) {
    waits[i] = {.fd = in_[i], .events = POLLIN, .revents = 0};
  }
  waits.back() = {.fd = wake_, .events = POLLIN, .revents = 0};
  while (!stops_.load()) {
    Nanos left = HostStream::kBeat;
    {
      const std::lock_guard lock(mutex_);
      const Instant now = RealClock::Monotonic();
      sleeps_until_ = std::min(Due(), now + left);
      left = std::max(sleeps_until_ - now, Nanos{0});
    }
    const timespec timeout = {.tv_sec = left.ns / 1'000'000'000,
                              .tv_nsec = left.ns % 1'000'000'000};
    ppoll(waits.data(), waits.size(), &timeout, nullptr);
    uint64_t woken = 0;
    if (waits.back().revents != 0) {
      [[maybe_unused]] const ssize_t did = read(wake_, &woken, sizeof(woken));
    }
    for (size_t i = 0; i < kCutChannels; ++i) {
      if (waits[i].revents != 0) ReceiveAll(i);
    }
    absl::Status status;
    if (!order_.has_value()) {
      const std::lock_guard lock(mutex_);
      if (deliver_ != nullptr) {
        order_.emplace(side_);
        deliver_to_ = deliver_;
      }
    }
    if (order_.has_value()) status = DeliverAll();
    SendAcks();
    if (status.ok()) status = Turn(RealClock::Monotonic());
    if (status.ok()) continue;
    Lost lost;
    {
      const std::lock_guard lock(mutex_);
      is_lost_.store(true);
      lost = lost_;
      changed_.notify_all();
    }
    if (lost) lost(status);
    return;
  }
}

GeneveLink::Counts GeneveLink::counts() const {
  const std::lock_guard lock(mutex_);
  Counts counts;
  counts.repeated = repeated_;
  counts.refused = refused_;
  counts.path = search_.bytes();
  for (const ChannelSender& sender : senders_) {
    counts.sent.datagrams += sender.counts().datagrams;
    counts.sent.lost += sender.counts().lost;
    counts.sent.probes += sender.counts().probes;
  }
  return counts;
}

void GeneveLink::TellCounts(const std::string& peer) const {
  const std::string text = TextOf(counts());
  if (text.empty()) return;
  fmt::print(stderr, "GENEVE to {}: {}\n", peer, text);
  std::fflush(stderr);
}

std::string TextOf(const GeneveLink::Counts& counts) {
  std::string refused;
  for (size_t i = 0; i < counts.refused.size(); ++i) {
    if (counts.refused[i] == 0) continue;
    refused += fmt::format(", refused {} ({})", counts.refused[i],
                           Name(static_cast<DatagramRefusal>(i)));
  }
  const ChannelSender::Counts& sent = counts.sent;
  if (sent.lost + sent.probes + counts.repeated == 0 && refused.empty()) {
    return "";
  }
  return fmt::format(
      "datagrams sent {}, found lost {}, probes {}, received again {}{}",
      sent.datagrams, sent.lost, sent.probes, counts.repeated, refused);
}

}  // namespace snf
