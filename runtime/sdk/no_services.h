// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RUNTIME_SDK_NO_SERVICES_H_
#define SNF_RUNTIME_SDK_NO_SERVICES_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "runtime/sdk/state.h"

namespace snf {

// The services of a flow without a unit: every request fails or does nothing.
class NoServices final : public FlowServices {
 public:
  bool Emit(std::span<const std::byte>) override { return false; }
  std::optional<uint32_t> TakePiece(PoolId, const PiecePreference&) override {
    return std::nullopt;
  }
  void GivePiece(PoolId, uint32_t) override {}
  bool IsExhausted(PoolId) const override { return true; }
  void SetAlias(const FlowKey&, uint64_t, uint32_t) override {}
  void Note(Nanos, bool) override {}
};

}  // namespace snf

#endif  // SNF_RUNTIME_SDK_NO_SERVICES_H_
