// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RUNTIME_SDK_TEST_STATE_H_
#define SNF_RUNTIME_SDK_TEST_STATE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "runtime/sdk/state.h"

// For tests and benchmarks: flows without a unit.

namespace snf {

class NoServices final : public FlowServices {
 public:
  bool Emit(std::span<const std::byte>) override { return false; }
  std::optional<uint32_t> TakePiece(PoolId, const PieceWish&) override {
    return std::nullopt;
  }
  void GivePiece(PoolId, uint32_t) override {}
  bool IsExhausted(PoolId) const override { return true; }
  void SetAlias(const FlowKey&, uint64_t, uint32_t) override {}
  void Note(Nanos, bool) override {}
};

// A flow while an NF handles one packet.
struct TestFlow {
  explicit TestFlow(std::span<std::byte> record) : view(record) {}
  StateView view;
  NoServices services;
  FlowState flow{FlowId{1}, Instant{}, Instant::max(), view, services};
};

}  // namespace snf

#endif  // SNF_RUNTIME_SDK_TEST_STATE_H_
