// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RUNTIME_CORE_TEST_UNIT_PIECES_H_
#define SNF_RUNTIME_CORE_TEST_UNIT_PIECES_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/core/test_unit.h"

namespace snf {

inline constexpr uint16_t kA = 0;
inline constexpr uint16_t kB = 1;
inline constexpr PoolId kPorts{0};
inline constexpr PoolId kOthers{1};
inline constexpr PoolId kThird{2};
inline constexpr uint64_t kAll = ~uint64_t{0};

inline std::span<const NetworkFunction::Pool> TestPools() {
  static const std::vector<NetworkFunction::Pool> kPools = {
      {"ports", 70, 2'100}, {"others", 0, 1'000}, {"third", 0, 63}};
  return kPools;
}

// The tests have unit A, whose NF takes one of the ports for each packet, or
// waits for it.
class UnitPiecesTest : public ::testing::Test {
 protected:
  using Lines = TestUnit::Lines;

  UnitPiecesTest() {
    unit_.nf.missing = [this](FlowState& flow) -> std::optional<PoolId> {
      was_exhausted_ = flow.is_exhausted(kPorts);
      if (goes_without_ && was_exhausted_) return std::nullopt;
      const std::optional<uint32_t> port = flow.take(kPorts, {.last = 9'999});
      if (!port.has_value()) return kPorts;
      taken_.push_back(*port);
      return std::nullopt;
    };
  }

  void Start(const PacketMeta& meta) { unit_.Send(meta); }
  Lines Run(const PacketMeta& meta) {
    unit_.Send(meta);
    return unit_.Serve();
  }
  Lines Grant(uint32_t word, uint64_t mask) {
    return unit_.on_pieces(0, word, mask);
  }
  // Puts ports there that nobody needs; flow 99 came and went for them.
  void Stock(uint32_t first_word, uint32_t words) {
    const auto missing = unit_.nf.missing;
    for (uint32_t w = first_word; w < first_word + words; ++w) {
      bool has_come = false;
      unit_.nf.missing = [&](FlowState&) -> std::optional<PoolId> {
        return has_come ? std::nullopt : std::optional(kPorts);
      };
      unit_.Send(New(99));
      unit_.Serve();
      has_come = true;
      Grant(w, kAll);
      unit_.Serve();
      unit_.on_end_flow(99, 1);
    }
    unit_.nf.missing = missing;
  }
  // Runs one more packet, with which the NF does `what` instead.
  Lines Do(uint64_t flow, const std::function<void(FlowState&)>& what) {
    const auto missing = std::exchange(
        unit_.nf.missing, [&](FlowState& state) -> std::optional<PoolId> {
          what(state);
          return std::nullopt;
        });
    Lines lines = Run(New(flow));
    unit_.nf.missing = missing;
    return lines;
  }
  uint64_t refused() const { return unit_.unit.counters().pieces_refused; }

  TestUnit unit_{kA, kSmallUnit, TestPools()};
  bool goes_without_ = false;
  bool was_exhausted_ = false;
  std::vector<uint32_t> taken_;
};

}  // namespace snf

#endif  // SNF_RUNTIME_CORE_TEST_UNIT_PIECES_H_
