// SPDX-License-Identifier: Apache-2.0
#include "runtime/store/store_value.h"

#include <array>
#include <cstring>

#include "base/check.h"

namespace snf {
namespace {

// The last byte is the format's version.
constexpr std::array<char, 8> kFormat = {'s', 'n', 'f', 's', 't', 'a', 't', 1};
// Where State has a bool, which must be 0 or 1, and an enum that the unit looks
// at (Replication).
constexpr size_t kPushed = offsetof(State, pushed);

}  // namespace

void MakeStoreValue(const State& state, std::span<const std::byte> record,
                    std::vector<std::byte>& value) {
  SNF_CHECK(record.size() == state.bytes);
  // Gaps between its members are 0.
  std::array<std::byte, sizeof(State)> header{};
  std::memcpy(header.data(), &state, sizeof(State));
  for (size_t i = kPushed + 1; i < header.size(); ++i) header[i] = std::byte{0};
  value.clear();
  const auto format = std::as_bytes(std::span(kFormat));
  value.insert(value.end(), format.begin(), format.end());
  value.insert(value.end(), header.begin(), header.end());
  value.insert(value.end(), record.begin(), record.end());
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
