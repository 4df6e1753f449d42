// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RUNTIME_LOGGER_DELTA_H_
#define SNF_RUNTIME_LOGGER_DELTA_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "runtime/sdk/state.h"
#include "runtime/sdk/state_schema.h"

namespace snf {

// Theory of operation. A delta is the change of a flow's record by one packet,
// for the logger that keeps a copy (proto/protocol.md §5, proto/decisions.md
// 17), or of several packets, for a unit that keeps an older copy (U3). Flow,
// clocks and the schema's hash travel beside it. This is the partial delta; a
// whole one is the record itself, which StateSchema::IsWellFormed judges.
//
//   8 bytes   a bit for each slot that changed
//   8 bytes   a bit for each slot of the record that has a value now
//   then for each slot that changed and has a value, in order, without gaps:
//     a typed slot   its bytes
//     a blob         its length, begin and end of the written part, 4 bytes
//                    each; then the bytes from begin to end
//
// Integers are in the machine's byte order. No change is no bytes.
//
// Worked example, with the schema of state_schema.h (packets, ports, name): a
// packet counts itself and appends 3 bytes to a name of 5. Bits 0 and 2
// changed, and the delta takes 8 + 8, 8 for the count, and 12 + 3 (length 8,
// from 5 to 8): 39 bytes, where the record has 64.

// Returns the bytes that a delta of this schema takes at most.
uint32_t MaxDeltaBytes(const StateSchema& schema);

// Writes the delta of all changes made through `state` to `to`, which has room
// for MaxDeltaBytes. Returns the bytes written. Budget: ≤ 20 ns beside the copy
// for two slots; no allocation.
uint32_t EncodeDelta(const StateSchema& schema, const StateView& state,
                     std::span<std::byte> to);

// Writes the delta that leads from one record to another; both are well-formed.
// Returns the bytes written, 0 if the records are equal. Budget: ≤ 40 ns beside
// a look at each used byte for two slots; no allocation.
uint32_t EncodeDifference(const StateSchema& schema,
                          std::span<const std::byte> before,
                          std::span<const std::byte> after,
                          std::span<std::byte> to);

// Applies a delta to `record`, which is well-formed. The delta is not trusted:
// returns false, and changes nothing, if it is malformed, or if its base cannot
// have been this record (other slots had values, a blob was too short). The
// record stays well-formed whatever the bytes; only the clocks show whether its
// values are right. Budget: ≤ 40 ns beside the copy for two slots; no
// allocation.
bool ApplyDelta(const StateSchema& schema, std::span<const std::byte> delta,
                std::span<std::byte> record);

}  // namespace snf

#endif  // SNF_RUNTIME_LOGGER_DELTA_H_
