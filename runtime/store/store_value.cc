// SPDX-License-Identifier: Apache-2.0
#include "runtime/store/store_value.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/check.h"

namespace snf {
namespace {

// The last byte is the format's version.
constexpr std::array<char, 8> kFormat = {'s', 'n', 'f', 's', 't', 'a', 't', 1};
// Offset of State's bool, which must be 0 or 1, and of an enum that the unit
// reads (Replication).
constexpr size_t kPushed = offsetof(State, pushed);

}  // namespace

void MakeStoreValue(const State& state, std::span<const std::byte> record,
                    std::vector<std::byte>& value) {
  SNF_CHECK(record.size() == state.bytes);
  value.resize(kStoreValueHeader + record.size());
  std::byte* const header = value.data() + kFormat.size();
  std::memcpy(value.data(), kFormat.data(), kFormat.size());
  std::memcpy(header, &state, sizeof(State));
  // Gaps between its members are 0.
  std::fill(header + kPushed + 1, header + sizeof(State), std::byte{0});
  std::copy(record.begin(), record.end(), value.begin() + kStoreValueHeader);
}

std::optional<StoreValue> ParseStoreValue(std::span<const std::byte> value,
                                          FlowId flow) {
  if (value.size() < kStoreValueHeader ||
      std::memcmp(value.data(), kFormat.data(), kFormat.size()) != 0) {
    return std::nullopt;
  }
  const auto header = value.subspan(kFormat.size(), sizeof(State));
  if (header[kPushed] > std::byte{1}) return std::nullopt;
  StoreValue parsed;
  std::memcpy(&parsed.state, header.data(), sizeof(State));
  parsed.record = value.subspan(kStoreValueHeader);
  if (parsed.state.flow != flow || parsed.state.bytes != parsed.record.size()) {
    return std::nullopt;
  }
  return parsed;
}

}  // namespace snf
