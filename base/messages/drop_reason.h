// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_BASE_MESSAGES_DROP_REASON_H_
#define SNF_BASE_MESSAGES_DROP_REASON_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace snf {

// Tells why the platform itself dropped a packet. An NF names its own reasons
// (runtime/sdk/nf.h), which are counted beside these.
enum class DropReason : uint8_t {
  kUnitQueueFull,     // the unit's channel had no free slot
  kStartBufferFull,   // the unit was still starting, and its buffer was full
  kFlowTableFull,     // the flow is new, and max_flows are already there
  kBufferPoolEmpty,   // no buffer was free to hold the packet
  kPacketTooLarge,    // it is larger than the largest buffer
  kDuplicateClock,    // the unit had applied its clock before (U1)
  kHoldOverflow,      // the unit already held too many waiting packets (U2)
  kNoAlias,           // it came to an address that is no flow's alias
  kAliasConflict,     // its flow's alias belongs to another flow (U9)
  kAliasLimit,        // its flow's group has as many aliases as it may
  kNoPieces,          // the NF needed a piece of a pool that is empty
  kFragmentEarly,     // it is a fragment that came before the first one
  kNotTranslated,     // it answers what never went out translated
  kPacketCorrupt,     // its description in shared memory cannot be
  kUnitFailed,        // it was in a unit that failed, or its flow is given up
  kStoreSilent,       // its flow's state is in a store that does not answer
  kControllerFailed,  // it was in the buffers of a controller that failed
  kNfFailed,          // the NF failed on it, or on too many of its flow
  // The chain filters or translates, and in the packet is unread (Unread) …
  kTypeUnknown,        // a packet behind an unknown type
  kLinkUnreadable,     // a packet behind too many tags, or a cut header
  kIpUnreadable,       // its IP header
  kTooManyExtensions,  // ports behind that many extension headers
  kExtensionNotRead,   // ports behind mobility, HIP or shim6
  kNoUpperHeader,      // its ports, or they are in a later fragment
  kFragmentOverlap,    // it overwrites its first fragment
  kCount,
};

inline constexpr size_t kDropReasons = static_cast<size_t>(DropReason::kCount);

// Returns the name used in reports, in JSON and as a metric label.
constexpr std::string_view ToString(DropReason reason) {
  constexpr std::array<std::string_view, kDropReasons> kNames = {
      "unit_queue_full",     "start_buffer_full",  "flow_table_full",
      "buffer_pool_empty",   "packet_too_large",   "duplicate_clock",
      "hold_overflow",       "no_mapping",         "mapping_conflict",
      "mapping_limit",       "no_pieces",          "fragment_early",
      "not_translated",      "packet_corrupt",     "unit_failed",
      "store_silent",        "controller_failed",  "nf_failed",
      "type_unknown",        "link_unreadable",    "ip_unreadable",
      "too_many_extensions", "extension_not_read", "no_upper_header",
      "fragment_overlap"};
  return kNames[static_cast<size_t>(reason)];
}

}  // namespace snf

#endif  // SNF_BASE_MESSAGES_DROP_REASON_H_
