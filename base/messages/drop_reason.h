// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_BASE_MESSAGES_DROP_REASON_H_
#define SNF_BASE_MESSAGES_DROP_REASON_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace snf {

// Why the platform itself dropped a packet. An NF's own reasons are named by
// the NF (runtime/sdk/nf.h) and counted beside these.
enum class DropReason : uint8_t {
  kUnitQueueFull,    // the unit's channel had no free slot
  kStartBufferFull,  // the unit was still starting and its buffer was full
  kFlowTableFull,    // a new flow, and max_flows are already there
  kBufferPoolEmpty,  // no buffer to hold the packet
  kPacketTooLarge,   // larger than the largest buffer
  kDuplicateClock,   // a unit saw a clock that it had applied (U1)
  kHoldOverflow,     // a unit holds too many packets that wait for state (U2)
  kNoAlias,          // came to an address at which no flow is known
  kAliasConflict,    // its flow's alias is another flow's
  kAliasLimit,       // its flow's group has all the aliases that it may
  kNoPieces,         // the NF waited for a pool that is empty
  kFragmentEarly,    // a fragment before its first; its flow is not known
  kNotTranslated,    // of the far side: what it answers never went out
  kCount,
};

inline constexpr size_t kDropReasons = static_cast<size_t>(DropReason::kCount);

// The name used in reports, in JSON and as a metric label.
constexpr std::string_view ToString(DropReason reason) {
  constexpr std::array<std::string_view, kDropReasons> kNames = {
      "unit_queue_full",   "start_buffer_full", "flow_table_full",
      "buffer_pool_empty", "packet_too_large",  "duplicate_clock",
      "hold_overflow",     "no_alias",          "alias_conflict",
      "alias_limit",       "no_pieces",         "fragment_early",
      "not_translated"};
  return kNames[static_cast<size_t>(reason)];
}

}  // namespace snf

#endif  // SNF_BASE_MESSAGES_DROP_REASON_H_
