// SPDX-License-Identifier: Apache-2.0
#include "platform/daemon/group/state_link.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstring>
#include <iterator>
#include <string>
#include <utility>

#include "base/text/wording.h"

namespace snf {
namespace {

constexpr Nanos kConnectPatience = Milliseconds(500);
constexpr std::chrono::milliseconds kBetweenTries{100};
constexpr std::chrono::milliseconds kBeatPause{100};
// A member that joins may be refused at first, by an older table.
constexpr int kTriesUntold = 10;
constexpr size_t kMostBatch = size_t{1} << 16;
constexpr size_t kBatchBytes = 12'000;  // a frame is one call of the system
constexpr size_t kMostAnswer = 1'024;

// The first frame. Its answer is kWelcome, or kRefuse with the reason.
struct MemberHello {
  HostHello program;
  uint64_t key = 0;  // of the table
  uint64_t incarnation = 0;
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
    const std::string& address, Notice notice, std::string tls) {
  const auto listener = HostStream::Listen(address);
  if (!listener.ok()) return listener.status();
  return std::unique_ptr<StateLink>(
      new StateLink(Descriptor(*listener), std::move(notice), std::move(tls)));
}

std::unique_ptr<StateLink> StateLink::Adopt(Descriptor listener, Notice notice,
                                            std::string tls) {
  return std::unique_ptr<StateLink>(
      new StateLink(std::move(listener), std::move(notice), std::move(tls)));
}

StateLink::StateLink(Descriptor listener, Notice notice, std::string tls)
    : listener_(std::move(listener)),
      address_(HostStream::AddressOf(listener_.number(), false)),
      notice_(std::move(notice)),
      tls_(std::move(tls)) {
  // OpenSSL writes to sockets that the other end may have closed.
  if (!tls_.empty()) signal(SIGPIPE, SIG_IGN);
  // Another process may accept at the socket, too (Adopt).
  const int flags = fcntl(listener_.number(), F_GETFL);
  fcntl(listener_.number(), F_SETFL, flags | O_NONBLOCK);
  accepts_ = std::thread([this] { Accept(); });
  sends_ = std::thread([this] { SendAll(); });
}

void StateLink::Stop() {
  if (stops_) return;
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
    FollowOrigins(table, self);
    const Gateway* const own = table.Find(self);
    const Gateway* const member = to.has_value() ? table.Find(*to) : nullptr;
    const std::optional<Peer> before = std::exchange(peer_, std::nullopt);
    if (own != nullptr && member != nullptr && !member->states.empty()) {
      peer_ = {.address = member->states,
               .key = table.key,
               .incarnation = own->incarnation,
               .self = self};
    }
    if (peer_ != before) {
      why_not_.clear();
      unsent_ -= queue_.size();
      queue_.clear();
      round_ = 0;
    }
  }
  changed_.notify_all();
}

void StateLink::FollowOrigins(const GatewayTable& table, uint32_t self) {
  const bool is_other_key = key_ != table.key;
  key_ = table.key;
  for (uint32_t number = 0; number < kMostAtPorts; ++number) {
    Origin& origin = origins_[number];
    const Gateway* const member = number == self ? nullptr : table.Find(number);
    origin.is_member = member != nullptr;
    if (member != nullptr && member->incarnation != origin.incarnation) {
      origin = {.is_member = true, .incarnation = member->incarnation};
    }
    if (member == nullptr || is_other_key) origin.round = 0;
  }
  std::erase_if(received_, [this](const Received& one) {
    return !IsNewest({one.from, one.round});
  });
}

std::string StateLink::WhyNotSent() const {
  const std::scoped_lock lock(mutex_);
  if (round() != 0) return "";
  if (!why_not_.empty()) return why_not_;
  return peer_.has_value() ? peer_->address + ": not connected yet"
                           : "no other member takes them now";
}

void StateLink::Send(uint64_t round, std::vector<std::byte> message) {
  bool was_empty = false;
  {
    const std::scoped_lock lock(mutex_);
    if (round == 0 || round != this->round()) return;
    was_empty = queue_.empty();
    queue_.push_back(std::move(message));
    ++unsent_;
  }
  if (was_empty) changed_.notify_all();
}

std::vector<StateLink::Received> StateLink::Take(size_t most) {
  if (!has_received_.load(std::memory_order_acquire)) return {};
  std::vector<Received> taken;
  bool was_full = false;
  {
    const std::scoped_lock lock(mutex_);
    was_full = received_.size() >= kMostReceived;
    const auto end = received_.begin() + static_cast<std::ptrdiff_t>(
                                             std::min(most, received_.size()));
    std::move(received_.begin(), end, std::back_inserter(taken));
    received_.erase(received_.begin(), end);
    has_received_ = !received_.empty();
  }
  if (was_full) changed_.notify_all();
  return taken;
}

// --- Receives. ---

void StateLink::Accept() {
  constexpr int kPollMs = 50;
  while (!stops_) {
    pollfd wait = {.fd = listener_.number(), .events = POLLIN, .revents = 0};
    const bool has_one = poll(&wait, 1, kPollMs) > 0;
    JoinReaders();
    CutStrangers();
    if (!has_one) continue;
    Descriptor socket(
        accept4(listener_.number(), nullptr, nullptr, SOCK_CLOEXEC));
    if (socket.number() >= 0) {
      Admit(std::move(socket));
    } else {  // the process may have no descriptor left
      std::this_thread::sleep_for(std::chrono::milliseconds(kPollMs));
    }
  }
  for (const auto& reader : readers_) reader->stream.StopReceiving();
  for (const auto& reader : readers_) reader->thread.join();
  readers_.clear();
}

void StateLink::JoinReaders() {
  std::erase_if(readers_, [](const std::unique_ptr<Reader>& reader) {
    if (!reader->has_ended) return false;
    reader->thread.join();
    return true;
  });
}

// Lets the last ones be: a member says its hello at once.
void StateLink::CutStrangers() {
  const Instant now = RealClock::Monotonic();
  size_t strangers = 0;
  for (size_t i = readers_.size(); i > 0; --i) {
    Reader& reader = *readers_[i - 1];
    if (reader.is_member || reader.has_ended || reader.is_cut) continue;
    const bool is_late = now - reader.came > HostStream::kSilence;
    if (++strangers < kMostStrangers && !is_late) continue;
    reader.is_cut = true;
    ++refused_;
    reader.stream.StopReceiving();
  }
}

void StateLink::Admit(Descriptor socket) {
  constexpr size_t kMostReaders = 4 * kMostStrangers;
  if (readers_.size() >= kMostReaders) {
    ++refused_;
    return;
  }
  readers_.push_back(std::make_unique<Reader>(socket.Release()));
  readers_.back()->thread =
      std::thread([this, reader = readers_.back().get()] { Read(*reader); });
}

void StateLink::Read(Reader& reader) {
  const absl::Status ended = ReadAll(reader);
  if (!absl::IsUnavailable(ended)) ++refused_;
  // The stream's end does not wait for the peer's then.
  shutdown(reader.stream.fd(), SHUT_RDWR);
  reader.has_ended = true;
}

// Files that cannot be used keep all members away: says so once.
absl::Status StateLink::Encrypt(HostStream& stream) {
  if (tls_.empty()) return absl::OkStatus();
  const auto files = ReadTlsFiles(tls_, TlsEnd::kServer);
  if (files.ok()) {
    has_told_of_files_ = false;
    return stream.Shake(*files, TlsEnd::kServer, "");
  }
  if (!has_told_of_files_.exchange(true) && notice_ != nullptr) {
    notice_(true, fmt::format("flows' states of others are not taken: {}",
                              std::string(files.status().message())));
  }
  return files.status();
}

absl::Status StateLink::ReadAll(Reader& reader) {
  if (const absl::Status s = Encrypt(reader.stream); !s.ok()) {
    return absl::PermissionDeniedError(s.message());
  }
  // CutStrangers ends it earlier, also if bytes come one by one.
  constexpr Nanos kLongest{2 * HostStream::kSilence.ns};
  auto frame = reader.stream.Receive(kLongest, sizeof(MemberHello));
  if (!frame.ok()) return frame.status();
  const auto connection = TakeHello(frame->bytes);
  if (!connection.ok()) {
    const std::string why(connection.status().message());
    (void)reader.stream.Send(HostFrame::kRefuse, std::as_bytes(std::span(why)));
    return connection.status();
  }
  reader.is_member = true;
  absl::Status status = reader.stream.Send(HostFrame::kWelcome, {});
  while (status.ok()) {
    frame = reader.stream.Receive(HostStream::kSilence, kMostBatch);
    if (!frame.ok()) return frame.status();
    const bool is_beat = frame->kind == HostFrame::kBeat;
    if (!is_beat && frame->kind != HostFrame::kUpdate) {
      return absl::InvalidArgumentError("a frame of another kind");
    }
    status = TakeBatch(*connection,
                       is_beat ? std::span<const std::byte>{} : frame->bytes);
  }
  return status;
}

absl::StatusOr<StateLink::Connection> StateLink::TakeHello(
    std::span<const std::byte> bytes) {
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
  if (hello.key != key_ || hello.number >= kMostAtPorts) {
    return absl::PermissionDeniedError("no member");
  }
  // The tables may differ for now.
  Origin& origin = origins_[hello.number];
  if (!origin.is_member || origin.incarnation != hello.incarnation) {
    return absl::UnavailableError("not in the table");
  }
  if (hello.round <= origin.last) {
    return absl::UnavailableError("there is a newer connection");
  }
  origin.round = origin.last = hello.round;
  return Connection{hello.number, hello.round};
}

absl::Status StateLink::TakeBatch(const Connection& connection,
                                  std::span<const std::byte> batch) {
  std::vector<Received> came;
  while (!batch.empty()) {
    uint32_t size = 0;
    const bool has_size = batch.size() >= sizeof size;
    if (has_size) {
      std::memcpy(&size, batch.data(), sizeof size);
      batch = batch.subspan(sizeof size);
    }
    if (!has_size || size > batch.size() || size > kMostBytes) {
      return absl::InvalidArgumentError("a message that cannot be");
    }
    const auto bytes = batch.first(size);
    came.push_back(
        {connection.from, connection.round, {bytes.begin(), bytes.end()}});
    batch = batch.subspan(size);
  }
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] {
    return stops_ || !IsNewest(connection) || received_.size() < kMostReceived;
  });
  if (stops_ || !IsNewest(connection)) {
    return absl::UnavailableError("its messages are not taken any more");
  }
  std::ranges::move(came, std::back_inserter(received_));
  has_received_ = !received_.empty();
  return absl::OkStatus();
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
    if (tried_ != peer) failed_tries_ = 0;
    tried_ = peer;
    const absl::Status ended = SendTo(*peer);
    EndRound(*peer, ended);
    if (ended.ok()) continue;  // there is another peer
    Tell(*peer, ended);
    Pause();
  }
}

bool StateLink::BeginRound(const Peer& peer, uint64_t round) {
  const std::scoped_lock lock(mutex_);
  if (peer_ != peer) return false;
  round_ = round;
  why_not_.clear();
  return true;
}

void StateLink::EndRound(const Peer& peer, const absl::Status& status) {
  const std::scoped_lock lock(mutex_);
  if (peer_ == peer && !status.ok()) {
    why_not_ =
        fmt::format("{}: {}", peer.address, std::string(status.message()));
  }
  queue_.clear();
  unsent_ = 0;
  round_ = 0;
}

void StateLink::Tell(const Peer& peer, const absl::Status& status) {
  failed_tries_ = status.ok() ? 0 : failed_tries_ + 1;
  const bool is_told = told_ == peer;
  if (notice_ == nullptr || stops_) return;
  if (status.ok() && !is_told) {
    notice_(false, fmt::format("flows' states go to {}", peer.address));
    told_ = peer;
  } else if (failed_tries_ == kTriesUntold) {
    notice_(true, fmt::format("flows' states do not go to {}: {}", peer.address,
                              std::string(status.message())));
    told_.reset();
  }
}

void StateLink::Pause() {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, kBetweenTries, [this] { return stops_.load(); });
}

absl::StatusOr<uint64_t> StateLink::Greet(const Peer& peer,
                                          HostStream& stream) {
  const MemberHello hello = {
      .program = HelloOfThisProgram(),
      .key = peer.key,
      .incarnation = peer.incarnation,
      .round = static_cast<uint64_t>(RealClock::Monotonic().ns) | 1,
      .number = peer.self};
  const absl::Status sent =
      stream.Send(HostFrame::kHello, std::as_bytes(std::span(&hello, 1)));
  if (!sent.ok()) return sent;
  const auto answer = stream.Receive(kConnectPatience, kMostAnswer);
  if (!answer.ok()) return answer.status();
  if (answer->kind == HostFrame::kWelcome) return hello.round;
  const std::string why(reinterpret_cast<const char*>(answer->bytes.data()),
                        answer->bytes.size());
  return absl::PermissionDeniedError("refused: " + Printable(why));
}

absl::Status StateLink::SendTo(const Peer& peer) {
  const auto socket = HostStream::Connect(peer.address, kConnectPatience);
  if (!socket.ok()) return socket.status();
  HostStream stream(*socket);
  if (!tls_.empty()) {  // the files may have been renewed
    const auto tls = ReadTlsFiles(tls_, TlsEnd::kClient);
    if (!tls.ok()) return tls.status();
    const absl::Status s = stream.Shake(*tls, TlsEnd::kClient, peer.address);
    if (!s.ok()) return s;
  }
  const auto round = Greet(peer, stream);
  if (!round.ok()) return round.status();
  if (!BeginRound(peer, *round)) return absl::OkStatus();
  Tell(peer, absl::OkStatus());
  while (true) {
    const Batch batch = NextBatch(*round);
    if (batch.is_over) return absl::OkStatus();
    absl::Status sent;
    if (batch.messages > 0) {
      sent = stream.Send(HostFrame::kUpdate, batch.bytes);
    } else if (stream.is_beat_due()) {
      sent = stream.Send(HostFrame::kBeat, {});
    }
    if (!sent.ok()) return sent;
    unsent_ -= batch.messages;
  }
}

StateLink::Batch StateLink::NextBatch(uint64_t round) {
  Batch batch;
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, kBeatPause, [&] {
    return stops_ || round_ != round || !queue_.empty();
  });
  // Follow has ended the round if there was another peer since.
  batch.is_over = stops_ || round_ != round;
  while (!queue_.empty() && batch.bytes.size() < kBatchBytes) {
    Append(queue_.front(), batch.bytes);
    ++batch.messages;
    queue_.pop_front();
  }
  return batch;
}

}  // namespace snf
