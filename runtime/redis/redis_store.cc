// SPDX-License-Identifier: Apache-2.0
#include "runtime/redis/redis_store.h"

#include <hiredis/hiredis.h>
#include <poll.h>
#include <time.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <utility>

#include "base/counters.h"
#include "runtime/ring/real_clock.h"
#include "runtime/store/store_value.h"

namespace snf {
namespace {

std::string_view Text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::span<const std::byte> BytesOf(const redisReply& reply) {
  return std::as_bytes(std::span(reply.str, reply.len));
}

// A flow's field of the hash: its id, in the machine's byte order.
struct Field {
  explicit Field(FlowId flow) {
    const uint64_t id = value(flow);
    std::memcpy(bytes.data(), &id, sizeof id);
  }
  std::string_view text() const { return {bytes.data(), bytes.size()}; }
  std::array<char, 8> bytes;
};

}  // namespace

RedisStore::RedisStore(RedisAddress address, std::string key,
                       const StoreOptions& options, std::atomic<bool>& is_gone)
    : address_(std::move(address)),
      key_(std::move(key)),
      options_(options),
      is_gone_(is_gone),
      reads_(options) {}

void RedisStore::Write(const State& state, std::span<const std::byte> record) {
  const Request request = {.sent = RealClock::Monotonic(), .flow = state.flow};
  const Field field(state.flow);
  bool is_sent = false;
  if (state.applied == Clock{}) {
    ++figures_.erased;
    is_sent = Send(request, {"HDEL", key_, field.text()});
  } else {
    ++figures_.writes;
    MakeStoreValue(state, record, value_);
    is_sent = Send(request, {"HSET", key_, field.text(), Text(value_)});
    if (is_sent) figures_.bytes_written += value_.size();
  }
  if (!is_sent) ++figures_.writes_lost;
}

bool RedisStore::Read(const Pull& pull) {
  const Instant now = RealClock::Monotonic();
  if (!reads_.Open(now, pull)) return false;
  Ask(now, pull);
  return true;
}

// A request that cannot be sent is repeated like an unanswered one.
void RedisStore::Ask(Instant now, const Pull& pull) {
  Send({.sent = now, .flow = pull.flow, .unit = pull.requester},
       {"HGET", key_, Field(pull.flow).text()});
}

void RedisStore::NoteAsked(Instant now) {
  if (silent_since_ == Instant::max() || now - last_asked_ > kIdle) {
    silent_since_ = now;
  }
  last_asked_ = now;
}

bool RedisStore::Send(const Request& request,
                      std::initializer_list<std::string_view> words) {
  NoteAsked(request.sent);
  if (connection_ == nullptr && !Connect(request.sent)) return false;
  if (requests_.size() >= kMaxRequests ||
      sdslen(connection_->obuf) >= kMaxBytes) {
    return false;
  }
  std::array<const char*, 4> starts{};
  std::array<size_t, 4> sizes{};
  size_t count = 0;
  for (const std::string_view word : words) {
    starts[count] = word.data();
    sizes[count++] = word.size();
  }
  if (redisAppendCommandArgv(connection_.get(), static_cast<int>(count),
                             starts.data(), sizes.data()) != REDIS_OK) {
    return false;
  }
  requests_.push_back(request);
  return true;
}

bool RedisStore::Poll(absl::FunctionRef<void(const StoreAnswer&)> take) {
  const Instant now = RealClock::Monotonic();
  // Neither answers that wait unread nor a pause of this loop count as silence
  // of the store.
  if (now - last_poll_ > options_.patience) resumed_ = now;
  last_poll_ = now;
  bool moved = false;
  if (connection_ != nullptr && (!Flush() || !TakeReplies(take, moved))) {
    Disconnect(now);
    moved = true;
  }
  const bool owes = is_waiting() && silent_since_ != Instant::max();
  const Nanos silent = now - std::max(silent_since_, resumed_);
  if (owes && silent > Nanos{kGone * options_.patience.ns}) {
    is_gone_.store(true, std::memory_order_relaxed);
  }
  moved |= AskWhatIsDue(now, take);
  if (connection_ == nullptr) return moved;
  const bool is_late =
      !requests_.empty() &&
      now - std::max(requests_.front().sent, resumed_) >= options_.patience;
  if (is_late || !Flush()) {
    Disconnect(now);
    moved = true;
  }
  return moved;
}

bool RedisStore::AskWhatIsDue(
    Instant now, absl::FunctionRef<void(const StoreAnswer&)> take) {
  bool moved = false;
  while (reads_.next_due() <= now) {
    const std::optional<StoreReads::Due> due = reads_.PopDue(now);
    if (!due.has_value()) continue;
    moved = true;
    Ask(now, due->pull);
    if (due->is_silent) {
      take({.unit = due->pull.requester, .state = {.flow = due->pull.flow}});
    }
  }
  return moved;
}

bool RedisStore::Connect(Instant now) {
  if (now < next_try_) return false;
  next_try_ = now + pause_;
  pause_ = std::min(Nanos{2 * pause_.ns}, kLongestPause);
  connection_ = BeginToConnect(address_);
  if (connection_ != nullptr && connection_->err != 0) connection_.reset();
  if (connection_ == nullptr) return false;
  figures_.reconnects += has_connected_ ? 1 : 0;
  has_connected_ = true;
  return true;
}

void RedisStore::Disconnect(Instant now) {
  connection_.reset();
  next_try_ = now + pause_;
  for (const Request& request : requests_) {
    figures_.writes_lost += request.unit == kNoUnit ? 1 : 0;
  }
  requests_.clear();
}

bool RedisStore::Flush() {
  int is_done = 0;
  return sdslen(connection_->obuf) == 0 ||
         redisBufferWrite(connection_.get(), &is_done) == REDIS_OK;
}

bool RedisStore::TakeReplies(absl::FunctionRef<void(const StoreAnswer&)> take,
                             bool& moved) {
  if (requests_.empty()) return true;
  if (redisBufferRead(connection_.get()) != REDIS_OK) return false;
  while (true) {
    void* raw = nullptr;
    if (redisGetReplyFromReader(connection_.get(), &raw) != REDIS_OK) {
      ++figures_.refused;
      return false;
    }
    if (raw == nullptr) break;
    const RedisReply reply(static_cast<redisReply*>(raw));
    if (requests_.empty()) {
      ++figures_.refused;
      return false;
    }
    moved = true;
    TakeReply(*reply, take);
  }
  return connection_->reader->len < kMaxBytes;
}

void RedisStore::TakeReply(const redisReply& reply,
                           absl::FunctionRef<void(const StoreAnswer&)> take) {
  const Request request = requests_.front();
  requests_.pop_front();
  const Instant now = RealClock::Monotonic();
  if (reply.type == REDIS_REPLY_ERROR) {
    // An error counts as no answer.
    ++figures_.refused;
    figures_.writes_lost += request.unit == kNoUnit ? 1 : 0;
    return;
  }
  pause_ = kShortestPause;
  silent_since_ = Instant::max();
  figures_.round_trip_ns.Record((now - request.sent).ns);
  if (request.unit == kNoUnit) return;
  std::optional<StoreValue> found;
  if (reply.type == REDIS_REPLY_STRING) {
    figures_.bytes_read += reply.len;
    found = ParseStoreValue(BytesOf(reply), request.flow);
  }
  if (!found.has_value() && reply.type != REDIS_REPLY_NIL) ++figures_.refused;
  std::optional<Clock> applied;
  if (found.has_value()) applied = found->state.applied;
  if (!reads_.on_answer(now, request.sent, request.unit, request.flow,
                        applied)) {
    return;
  }
  found->state.pushed = false;
  take({.unit = request.unit,
        .state = found->state,
        .record = found->record,
        .is_there = true});
}

void RedisStore::Wait(Nanos at_most) {
  pollfd entry = {.fd = -1, .events = POLLIN, .revents = 0};
  if (connection_ != nullptr) {
    entry.fd = connection_->fd;
    if (sdslen(connection_->obuf) > 0) entry.events |= POLLOUT;
  }
  const timespec time = {.tv_sec = at_most.ns / 1'000'000'000,
                         .tv_nsec = at_most.ns % 1'000'000'000};
  ppoll(&entry, 1, &time, nullptr);
}

const StoreFigures& RedisStore::figures() const {
  // Adds the figures that only StoreReads counts.
  const StoreCounters& of_reads = reads_.counters();
  figures_.reads = of_reads.reads;
  figures_.read_again = of_reads.read_again;
  figures_.timeouts = of_reads.timeouts;
  figures_.silent = of_reads.silent;
  return figures_;
}

}  // namespace snf
