// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RUNTIME_STORE_STORE_VALUE_H_
#define SNF_RUNTIME_STORE_STORE_VALUE_H_

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "base/messages/messages.h"

namespace snf {

// A flow's state as a store keeps it: the message State as it is, in the
// machine's byte order, behind a word that names the format, then the record.
inline constexpr size_t kStoreValueHeader = 8 + sizeof(State);

// Makes it of a state and the first state.bytes bytes of its record, in
// `value`, which keeps its memory.
void MakeStoreValue(const State& state, std::span<const std::byte> record,
                    std::vector<std::byte>& value);

struct StoreValue {
  State state;
  std::span<const std::byte> record;  // points into the parsed value
};
// Returns nothing if `value`, which comes from outside of the process, is
// malformed or of another flow. The unit checks whether the record fits the NF.
std::optional<StoreValue> ParseStoreValue(std::span<const std::byte> value,
                                          FlowId flow);

}  // namespace snf

#endif  // SNF_RUNTIME_STORE_STORE_VALUE_H_
