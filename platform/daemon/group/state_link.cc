// SPDX-License-Identifier: Apache-2.0
#include "platform/daemon/group/state_link.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

#include "runtime/ring/real_clock.h"

namespace snf {
namespace {

constexpr Nanos kConnectPatience = Milliseconds(500);
constexpr std::chrono::milliseconds kBetweenTries{100};
constexpr std::chrono::milliseconds kBeatPause{100};
// A peer may be frozen for a while; a machine that is lost says nothing at all.
constexpr Nanos kPeerPatience = Seconds(5);
constexpr size_t kMostBatch = size_t{1} << 16;
constexpr size_t kBatchBytes = 12'000;  // a frame is one call of the system

// The first frame.
struct MemberHello {
  HostHello program;
  uint64_t key = 0;  // of the table
  uint64_t round = 0;
  uint32_t number = 0;
  uint32_t reserved = 0;
};

void Append(std::span<const std::byte> bytes, std::vector<std::byte>& to) {
  const auto size = static_cast<uint32_t>(bytes.size());
  const auto head = std::as_bytes(std::span(&size, 1));
  to.insert(to.end(), head.begin(), head.end());
  to.insert(to.end(), bytes.begin(), bytes.end());
}

}  // namespace

absl::StatusOr<std::unique_ptr<StateLink>> StateLink::Listen(
    const std::string& address) {
  const auto listener = HostStream::Listen(address);
  if (!listener.ok()) return listener.status();
  return std::unique_ptr<StateLink>(new StateLink(Descriptor(*listener)));
}

StateLink::StateLink(Descriptor listener)
    : listener_(std::move(listener)),
      address_(HostStream::AddressOf(listener_.number(), false)) {
  accepts_ = std::thread([this] { Accept(); });
  sends_ = std::thread([this] { SendAll(); });
}

StateLink::~StateLink() {
  stops_ = true;
  {
    const std::scoped_lock lock(mutex_);
    peer_.reset();
  }
  changed_.notify_all();
  sends_.join();
  accepts_.join();
}

void StateLink::Follow(const GatewayTable& table, uint32_t self,
                       std::optional<uint32_t> to) {
  {
    const std::scoped_lock lock(mutex_);
    key_ = table.key;
    members_ = table.live() & ~SetOf(self);
    const Gateway* const member = to.has_value() ? table.Find(*to) : nullptr;
    peer_.reset();
    if (member != nullptr && !member->states.empty()) {
      peer_ = {.address = member->states, .key = table.key, .self = self};
    }
  }
  changed_.notify_all();
}

size_t StateLink::room() const {
  const std::scoped_lock lock(mutex_);
  return round() == 0 ? 0 : kMostQueued - std::min(queue_.size(), kMostQueued);
}

void StateLink::Send(uint64_t round, std::vector<std::byte> message) {
  {
    const std::scoped_lock lock(mutex_);
    if (round == 0 || round != this->round()) return;
    queue_.push_back(std::move(message));
  }
  changed_.notify_all();
}

std::vector<StateLink::Received> StateLink::Take() {
  std::vector<Received> received;
  {
    const std::scoped_lock lock(mutex_);
    received.swap(received_);
  }
  if (!received.empty()) changed_.notify_all();
  return received;
}

// --- Receives. ---

void StateLink::Accept() {
  constexpr int kPollMs = 50;
  while (!stops_) {
    pollfd wait = {.fd = listener_.number(), .events = POLLIN, .revents = 0};
    const bool has_one = poll(&wait, 1, kPollMs) > 0;
    std::erase_if(readers_, [](const std::unique_ptr<Reader>& reader) {
      if (!reader->has_ended) return false;
      reader->thread.join();
      return true;
    });
    if (!has_one) continue;
    const int socket =
        accept4(listener_.number(), nullptr, nullptr, SOCK_CLOEXEC);
    if (socket < 0) continue;
    readers_.push_back(std::make_unique<Reader>(socket));
    if (readers_.size() > kMostAtPorts) {  // strangers hold connections
      ++refused_;
      readers_.pop_back();
      continue;
    }
    readers_.back()->thread =
        std::thread([this, reader = readers_.back().get()] { Read(*reader); });
  }
  for (const auto& reader : readers_) reader->stream.StopReceiving();
  for (const auto& reader : readers_) reader->thread.join();
  readers_.clear();
}

void StateLink::Read(Reader& reader) {
  const absl::Status ended = ReadAll(reader);
  if (!absl::IsUnavailable(ended)) ++refused_;
  reader.has_ended = true;
}

absl::Status StateLink::ReadAll(Reader& reader) {
  auto frame = reader.stream.Receive(HostStream::kSilence, sizeof(MemberHello));
  if (!frame.ok()) return frame.status();
  uint64_t round = 0;
  const auto from = TakeHello(frame->bytes, round);
  if (!from.ok()) return from.status();
  while (!stops_) {
    frame = reader.stream.Receive(kPeerPatience, kMostBatch);
    if (!frame.ok()) return frame.status();
    if (frame->kind == HostFrame::kBeat) continue;
    if (frame->kind != HostFrame::kUpdate ||
        !TakeBatch(*from, round, frame->bytes)) {
      return absl::InvalidArgumentError("a message that cannot be");
    }
  }
  return absl::UnavailableError("ends");
}

absl::StatusOr<uint32_t> StateLink::TakeHello(std::span<const std::byte> bytes,
                                              uint64_t& round) const {
  MemberHello hello;
  if (bytes.size() != sizeof hello) {
    return absl::InvalidArgumentError("no hello");
  }
  std::memcpy(&hello, bytes.data(), sizeof hello);
  const HostHello own = HelloOfThisProgram();
  const absl::Status same =
      CheckHello(std::as_bytes(std::span(&hello.program, 1)), own);
  if (!same.ok()) return same;
  const std::scoped_lock lock(mutex_);
  if (hello.key != key_ || hello.number >= kMostAtPorts ||
      !Has(members_, hello.number)) {
    return absl::PermissionDeniedError("no member");
  }
  round = hello.round;
  return hello.number;
}

bool StateLink::TakeBatch(uint32_t from, uint64_t round,
                          std::span<const std::byte> batch) {
  std::vector<Received> came;
  while (!batch.empty()) {
    uint32_t size = 0;
    if (batch.size() < sizeof size) return false;
    std::memcpy(&size, batch.data(), sizeof size);
    batch = batch.subspan(sizeof size);
    if (size > batch.size() || size > kMostBytes) return false;
    const auto bytes = batch.first(size);
    came.push_back({from, round, {bytes.begin(), bytes.end()}});
    batch = batch.subspan(size);
  }
  std::unique_lock lock(mutex_);
  changed_.wait(lock,
                [this] { return stops_ || received_.size() < kMostReceived; });
  std::ranges::move(came, std::back_inserter(received_));
  return true;
}

// --- Sends. ---

void StateLink::SendAll() {
  while (!stops_) {
    std::optional<Peer> peer;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return stops_ || peer_.has_value(); });
      peer = peer_;
    }
    if (!peer.has_value()) continue;
    (void)SendTo(*peer);
    {
      const std::scoped_lock lock(mutex_);
      round_ = 0;
      queue_.clear();
    }
    Pause();
  }
}

void StateLink::Pause() {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, kBetweenTries, [this] { return stops_.load(); });
}

absl::Status StateLink::SendTo(const Peer& peer) {
  const auto socket = HostStream::Connect(peer.address, kConnectPatience);
  if (!socket.ok()) return socket.status();
  HostStream stream(*socket);
  const MemberHello hello = {
      .program = HelloOfThisProgram(),
      .key = peer.key,
      .round = static_cast<uint64_t>(RealClock::Monotonic().ns) | 1,
      .number = peer.self};
  absl::Status sent =
      stream.Send(HostFrame::kHello, std::as_bytes(std::span(&hello, 1)));
  if (!sent.ok()) return sent;
  {
    const std::scoped_lock lock(mutex_);
    queue_.clear();
    round_ = hello.round;
  }
  while (true) {
    bool is_over = false;
    const std::vector<std::byte> batch = NextBatch(peer, is_over);
    if (is_over) return absl::OkStatus();
    if (!batch.empty()) {
      sent = stream.Send(HostFrame::kUpdate, batch);
    } else if (stream.is_beat_due()) {
      sent = stream.Send(HostFrame::kBeat, {});
    }
    if (!sent.ok()) return sent;
  }
}

std::vector<std::byte> StateLink::NextBatch(const Peer& peer, bool& is_over) {
  std::vector<std::byte> batch;
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, kBeatPause,
                    [&] { return stops_ || peer_ != peer || !queue_.empty(); });
  is_over = stops_ || peer_ != peer;
  while (!queue_.empty() && batch.size() < kBatchBytes) {
    Append(queue_.front(), batch);
    queue_.pop_front();
  }
  return batch;
}

}  // namespace snf
