// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RUNTIME_REDIS_REDIS_STORE_H_
#define SNF_RUNTIME_REDIS_REDIS_STORE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "base/ids.h"
#include "base/messages/messages.h"
#include "base/time.h"
#include "runtime/redis/redis_connection.h"
#include "runtime/store/state_store.h"
#include "runtime/store/store_options.h"
#include "runtime/store/store_reads.h"

namespace snf {

// Theory of operation. A connection of one loop of units to a Redis that keeps
// the state of flows. The states of a run are the fields of one hash, by flow:
// HSET, HGET and HDEL. Commands are sent without waiting for the replies to
// those before them; replies come in the same order.
//
//   Write, Read ─► hiredis' buffer ─Poll─► Redis
//   take ◄─ StoreReads ◄─ replies ◄─Poll─┘
//
// If the connection breaks, or its oldest request is unanswered for `patience`,
// all requests under way count as lost, and a new connection is made after a
// pause, which doubles from 1 ms up to 250 ms until there is an answer. Writes
// are not repeated: a unit that misses a state asks the previous unit, which
// writes it again. A Redis that owes an answer for kGone times `patience` is
// gone for good. Times are the machine's, not the run's. Owner-thread only.
class RedisStore final : public StateStore {
 public:
  static constexpr int64_t kGone = 5;

  // `key` names the hash. The first connection is made with the first request.
  // `is_gone` is set once the Redis is; it must outlive this.
  RedisStore(RedisAddress address, std::string key, const StoreOptions& options,
             std::atomic<bool>& is_gone);

  void Write(const State& state, std::span<const std::byte> record) override;
  bool Read(const Pull& pull) override;
  bool Poll(absl::FunctionRef<void(const StoreAnswer&)> take) override;
  bool is_waiting() const override {
    return !requests_.empty() || reads_.size() > 0;
  }
  void Wait(Nanos at_most) override;
  const StoreFigures& figures() const override;

 private:
  // More requests than that, or bytes, are not sent: the Redis is too slow.
  static constexpr size_t kMaxRequests = 65'536;
  static constexpr size_t kMaxBytes = 64 << 20;
  static constexpr Nanos kShortestPause = Milliseconds(1);
  static constexpr Nanos kLongestPause = Milliseconds(250);
  // Longer than the period in which units repeat requests for missing states.
  static constexpr Nanos kIdle = Seconds(2);

  struct Request {
    Instant sent;
    FlowId flow{};
    UnitId unit = kNoUnit;  // that reads; or it is a write
  };

  void NoteAsked(Instant now);
  // Returns false if it was not sent.
  bool Send(const Request& request,
            std::initializer_list<std::string_view> words);
  void Ask(Instant now, const Pull& pull);
  bool AskWhatIsDue(Instant now,
                    absl::FunctionRef<void(const StoreAnswer&)> take);
  bool Connect(Instant now);
  void Disconnect(Instant now);
  bool Flush();
  // Returns false if the connection is of no use any more.
  bool TakeReplies(absl::FunctionRef<void(const StoreAnswer&)> take,
                   bool& moved);
  void TakeReply(const redisReply& reply,
                 absl::FunctionRef<void(const StoreAnswer&)> take);

  RedisAddress address_;
  std::string key_;
  StoreOptions options_;
  std::atomic<bool>& is_gone_;
  // Time of the first request after the last answer, or after kIdle without a
  // request; Instant::max() if no answer is outstanding.
  Instant silent_since_ = Instant::max();
  Instant last_asked_ = Instant::min();
  Instant last_poll_ = Instant::min();
  Instant resumed_ = Instant::min();  // after the loop stood still
  StoreReads reads_;
  RedisConnection connection_;
  std::deque<Request> requests_;  // without a reply, in the order of sending
  bool has_connected_ = false;
  Instant next_try_ = Instant::min();
  Nanos pause_ = kShortestPause;
  std::vector<std::byte> value_;
  mutable StoreFigures figures_;
};

}  // namespace snf

#endif  // SNF_RUNTIME_REDIS_REDIS_STORE_H_
