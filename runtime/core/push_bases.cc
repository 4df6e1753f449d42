// SPDX-License-Identifier: Apache-2.0
#include "runtime/core/push_bases.h"

#include <cstring>

#include "base/byte_order.h"
#include "base/check.h"
#include "runtime/logger/delta.h"

namespace snf {
namespace {

// A record of up to kClockBytes cannot get a smaller delta.
size_t PlacesOf(const UnitOptions& options, const StateSchema& schema) {
  const size_t bytes = schema.record_bytes();
  if (bytes <= PushBases::kClockBytes || options.replicas == 0) return 0;
  return std::min<size_t>(options.push_bases, PushBases::kMostBytes / bytes);
}

}  // namespace

std::optional<Clock> BaseOf(std::span<const std::byte> delta) {
  if (delta.size() < PushBases::kClockBytes) return std::nullopt;
  return Clock{LoadAs<uint64_t>(delta.data())};
}

PushBases::PushBases(const UnitOptions& options, const StateSchema& schema)
    : schema_(&schema),
      record_words_(schema.record_bytes() / sizeof(uint64_t)),
      bases_(PlacesOf(options, schema)),
      images_(bases_.size() * record_words_),
      deltas_(bases_.size() == 0 ? 0 : kDeltaBytes + MaxDeltaBytes(schema)) {}

uint32_t PushBases::MakeDelta(Instant now, uint32_t slot, const State& state,
                              std::span<const std::byte> record) {
  if (bases_.size() == 0) return 0;
  const Base& base = bases_[PlaceOf(slot)];
  const bool is_known = base.flow == state.flow && base.clock != Clock{} &&
                        base.clock < state.applied &&
                        base.in_a_row < kMaxDeltasInARow &&
                        now - base.pushed <= kLifetime;
  if (!is_known || made_ == kMaxMade || used_ + kClockBytes > kDeltaBytes) {
    return 0;
  }
  const std::span<std::byte> room = deltas_.span().subspan(used_);
  const uint64_t clock = value(base.clock);
  std::memcpy(room.data(), &clock, kClockBytes);
  const uint32_t bytes =
      kClockBytes + EncodeDifference(*schema_, ImageOf(slot), record,
                                     room.subspan(kClockBytes));
  if (bytes >= state.bytes) return 0;
  mades_[made_++] = {.flow = state.flow, .begin = used_, .bytes = bytes};
  used_ += bytes;
  return bytes;
}

bool PushBases::has(uint32_t slot, UnitId unit) const {
  const Base& base = bases_[PlaceOf(slot)];
  const auto units = std::span(base.units).first(base.count);
  return std::ranges::find(units, unit) != units.end();
}

void PushBases::Keep(Instant now, uint32_t slot, const State& state,
                     std::span<const std::byte> record,
                     std::span<const UnitId> units) {
  if (bases_.size() == 0) return;
  Base& base = bases_[PlaceOf(slot)];
  const bool is_delta = made_ > 0 && mades_[made_ - 1].flow == state.flow;
  base.in_a_row = is_delta ? base.in_a_row + uint8_t{1} : uint8_t{0};
  base.flow = state.flow;
  base.clock = state.applied;
  base.pushed = now;
  base.count = static_cast<uint8_t>(units.size());
  std::ranges::copy(units, base.units.begin());
  std::memcpy(ImageOf(slot).data(), record.data(), record.size());
}

std::span<const std::byte> PushBases::delta(FlowId flow) const {
  for (const Made& made : std::span(mades_).first(made_)) {
    if (made.flow == flow) {
      return {deltas_.data() + made.begin, made.bytes};
    }
  }
  SNF_CHECK(false);
}

}  // namespace snf
