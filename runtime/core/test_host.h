// SPDX-License-Identifier: Apache-2.0
// The records that units of a host show each other, for tests.
#ifndef SNF_RUNTIME_CORE_TEST_HOST_H_
#define SNF_RUNTIME_CORE_TEST_HOST_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "base/rng.h"
#include "runtime/core/host_records.h"

namespace snf {

// TestHost keeps what units show, by unit and slot, as HostStore does. It may
// lie: then some records are torn, ahead, of another clock, or nonsense.
class TestHost final : public HostRecords {
 public:
  explicit TestHost(uint16_t units, uint32_t slots = ~uint32_t{0})
      : units_(units), slots_(slots) {}

  // Lets some reads, `lies` of 65,536, find something else.
  void Lie(Rng& rng, uint32_t lies) {
    rng_ = &rng;
    lies_ = lies;
  }

  void on_report(uint32_t /*epoch*/) override {}
  bool has(UnitId unit) const override {
    return value(unit) < units_ && !away.contains(unit);
  }
  bool Show(UnitId unit, uint32_t slot, const State& state,
            std::span<const std::byte> bytes) override {
    if (slot >= slots_) return false;
    records[{unit, slot}] = {state, {bytes.begin(), bytes.end()}};
    return true;
  }
  std::optional<HostRecord> Read(UnitId unit, FlowId flow,
                                 Clock clock) override {
    miss_ = away.contains(unit) ? HostMiss::kAway : HostMiss::kUnknown;
    if (rng_ != nullptr && rng_->Chance(lies_)) return Lied(flow, clock);
    for (const auto& [at, shown] : records) {
      if (at.first != unit || shown.first.flow != flow) continue;
      miss_ = HostMiss::kStale;
      if (shown.first.applied != clock) continue;
      read_ = shown;
      return HostRecord{read_.first, read_.second};
    }
    return std::nullopt;
  }
  HostMiss miss() const override { return miss_; }

  using Shown = std::pair<State, std::vector<std::byte>>;
  std::map<std::pair<UnitId, uint32_t>, Shown> records;
  std::set<UnitId> away;  // units that are on another host (now)

 private:
  // Any record that is shown, as it is, or with a content that cannot be, or
  // none.
  std::optional<HostRecord> Lied(FlowId flow, Clock clock) {
    miss_ = rng_->Below(2) == 0 ? HostMiss::kTorn : HostMiss::kAhead;
    if (records.empty() || rng_->Below(3) == 0) return std::nullopt;
    read_ = std::next(records.begin(),
                      static_cast<int64_t>(rng_->Below(records.size())))
                ->second;
    if (rng_->Below(2) == 0) {
      // Its clock and flow are right, its length is not.
      read_.first.flow = flow;
      read_.first.applied = clock;
      read_.first.bytes += 8;
    } else if (read_.first.flow == flow && read_.first.applied == clock) {
      return std::nullopt;
    }
    return HostRecord{read_.first, read_.second};
  }

  const uint16_t units_;
  const uint32_t slots_;
  Rng* rng_ = nullptr;
  uint32_t lies_ = 0;
  HostMiss miss_ = HostMiss::kUnknown;
  Shown read_;
};

}  // namespace snf

#endif  // SNF_RUNTIME_CORE_TEST_HOST_H_
