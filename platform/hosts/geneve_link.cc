// SPDX-License-Identifier: Apache-2.0
#include "platform/hosts/geneve_link.h"

#include <fmt/format.h>
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

#include "base/text/stderr_line.h"
#include "platform/hosts/host_stream.h"
#include "runtime/ring/real_clock.h"

namespace snf {
namespace {

constexpr auto kWordsIndex = static_cast<size_t>(CutChannel::kWords);

}  // namespace

// --- The start. ---

absl::StatusOr<int> GeneveLink::OpenForStrays(int listener) {
  return GeneveSockets::OpenForStrays(listener);
}

absl::StatusOr<std::unique_ptr<GeneveLink>> GeneveLink::Open(int connection,
                                                             uint16_t port) {
  auto sockets = GeneveSockets::Open(connection, port);
  if (!sockets.ok()) return sockets.status();
  std::unique_ptr<GeneveLink> link(new GeneveLink(*std::move(sockets)));
  link->wake_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (link->wake_ < 0) return SystemFailure("eventfd");
  return link;
}

GeneveLink::GeneveLink(std::unique_ptr<GeneveSockets> sockets)
    : sockets_(std::move(sockets)) {}

GeneveLink::~GeneveLink() {
  Stop();
  if (wake_ >= 0) close(wake_);
}

absl::Status GeneveLink::DrawKey() {
  ChannelKey key;
  if (getrandom(&key, sizeof(key), 0) != sizeof(key)) {
    return SystemFailure("getrandom");
  }
  key.network &= 0xff'ffff;
  key.reserved = 0;
  key_ = key;
  return absl::OkStatus();
}

GeneveOffer GeneveLink::Offer() const {
  return {.key = key_, .ports = sockets_->ports()};
}

absl::Status GeneveLink::Connect(const GeneveOffer& peer) {
  if (peer.key.network >= 1u << 24 || std::ranges::count(peer.ports, 0) != 0) {
    return absl::InvalidArgumentError("an offer that cannot be");
  }
  if (peer.key != key_) return absl::InvalidArgumentError("another key");
  if (absl::Status s = sockets_->Connect(peer.ports); !s.ok()) return s;
  Begin();
  return absl::OkStatus();
}

void GeneveLink::Begin() {
  if (thread_.joinable()) return;
  stops_.store(false);
  thread_ = std::thread([this] { Run(); });
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
        return absl::UnavailableError(fmt::format(
            "no answer to GENEVE packets (UDP port {})", sockets_->port()));
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
  PrintOnStderr("packets to the other host have {} bytes at most\n",
                search_.bytes());
  std::fflush(stderr);
}

void GeneveLink::AskPath(size_t channel, Instant now) {
  if (!search_.is_due(now, channel)) return;
  for (const size_t bytes :
       search_.Ask(now, channel, sockets_->KernelsPath(channel))) {
    SendControl(channel,
                {.kind = DatagramKind::kProbe,
                 .channel = static_cast<uint32_t>(channel),
                 .probed = static_cast<uint32_t>(bytes)},
                bytes - sockets_->headers(), MSG_DONTWAIT);
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
  std::array<DatagramHeader, GeneveSockets::kBatch> headers;
  std::array<std::array<iovec, 2>, GeneveSockets::kBatch> parts;
  std::array<mmsghdr, GeneveSockets::kBatch> all;
  if (!HasRoom(channel, now)) return;
  full_until_[channel] = {};
  for (size_t count = GeneveSockets::kBatch; count == GeneveSockets::kBatch;) {
    const size_t most =
        search_.bytes() - sockets_->headers() - DatagramHeader::kPiece;
    uint64_t first = 0;
    for (count = 0; count < GeneveSockets::kBatch; ++count) {
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
        sendmmsg(sockets_->out(channel), &batch[done],
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
    if (errno == EMSGSIZE && search_.Limit(sockets_->KernelsPath(channel))) {
      OnShorterPath(now);
    }
    ++done;
  }
  return true;
}

void GeneveLink::SendControl(size_t channel, const ChannelDatagram& datagram,
                             size_t bytes, int flags) {
  DatagramHeader header;
  BuildHeader(datagram, key_, header);
  sockets_->Send(channel, header, bytes, flags);
}

void GeneveLink::SendAcks() {
  for (const ChannelDatagram& acks : arrivals_.TakeAcks()) {
    SendControl(kWordsIndex, acks, 0, 0);
  }
}

// --- What is received. ---

void GeneveLink::Refuse(DatagramRefusal why) {
  const std::lock_guard lock(mutex_);
  if (refused_[static_cast<size_t>(why)]++ > 0) return;
  PrintOnStderr("GENEVE packets are refused: {}\n", Name(why));
  std::fflush(stderr);
}

void GeneveLink::Take(size_t channel, std::span<const std::byte> payload) {
  ChannelDatagram datagram;
  const DatagramRefusal refusal =
      ParseDatagram(payload, key_, kCutChannels, datagram);
  if (refusal != DatagramRefusal::kNone) return Refuse(refusal);
  switch (datagram.kind) {
    case DatagramKind::kPiece:
      if (!arrivals_.Take(datagram)) Refuse(DatagramRefusal::kWindow);
      return;
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
  constexpr int kRounds = 8;  // then other channels
  for (int round = 0; round < kRounds; ++round) {
    const bool is_more = sockets_->Receive(
        channel,
        [&](std::span<const std::byte> payload) { Take(channel, payload); });
    if (!is_more) return;
  }
}

// Sends what is due. Errors: Unavailable if the other end is silent.
absl::Status GeneveLink::Turn(Instant now) {
  const uint64_t repeated = arrivals_.repeated();
  const std::lock_guard lock(mutex_);
  repeated_ = repeated;
  // If this thread stood still, answers may just be on their way.
  if (now - turned_ > Nanos{2 * HostStream::kBeat.ns}) resumed_ = now;
  turned_ = now;
  for (size_t i = 0; i < kCutChannels; ++i) {
    ChannelSender& sender = senders_[i];
    if (HasRoom(i, now)) sender.OnDue(now);
    if (sender.timeouts() >= ChannelSender::kBlackHole) {
      if (search_.Suspect(now, i)) OnShorterPath(now);
    } else {
      search_.Trust(i);
    }
    AskPath(i, now);
    const Instant progress =
        std::max({sender.last_progress(), resumed_,
                  search_.answered(i).value_or(Instant::min())});
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
    waits[i] = {.fd = sockets_->in(i), .events = POLLIN, .revents = 0};
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
    if (!arrivals_.is_started()) {
      const std::lock_guard lock(mutex_);
      if (deliver_ != nullptr) arrivals_.Start(side_, deliver_);
    }
    absl::Status status = arrivals_.DeliverAll();
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
  PrintOnStderr("GENEVE to {}: {}\n", peer, text);
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
