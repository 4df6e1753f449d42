// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RUNTIME_SDK_TEST_RANDOM_STATE_H_
#define SNF_RUNTIME_SDK_TEST_RANDOM_STATE_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/rng.h"
#include "gtest/gtest.h"
#include "runtime/sdk/nf.h"

namespace snf {

// An NF for tests with slots of random kinds and sizes. It makes random changes
// of state and keeps the expected values in a second form.
class RandomStateNf final : public NetworkFunction {
 public:
  using Bytes = std::vector<std::byte>;
  using Twelve = std::array<uint32_t, 3>;

  RandomStateNf(Rng& rng, uint32_t slots, uint32_t max_blob_bytes) {
    for (uint32_t i = 0; i < slots; ++i) {
      const std::string name = "slot" + std::to_string(i);
      switch (rng.Below(4)) {
        case 0:
          bytes_.emplace(i, declare<uint8_t>(name));
          break;
        case 1:
          twelves_.emplace(i, declare<Twelve>(name));
          break;
        default:
          blobs_.emplace(
              i, declare_blob(name, static_cast<uint32_t>(
                                        rng.Below(max_blob_bytes) + 1)));
      }
    }
    values_.resize(slots);
  }

  Verdict process_packet(Packet&, FlowState&) override {
    return Verdict::forward();
  }

  // Makes one random call of FlowState and expects its documented effect.
  void Change(Rng& rng, FlowState& flow) {
    const auto slot = static_cast<uint32_t>(rng.Below(values_.size()));
    if (const auto found = blobs_.find(slot); found != blobs_.end()) {
      ChangeBlob(rng, flow, found->second);
    } else if (const auto byte = bytes_.find(slot); byte != bytes_.end()) {
      ChangeTyped(rng, flow, byte->second);
    } else {
      ChangeTyped(rng, flow, twelves_.at(slot));
    }
  }

  // Expects that a reader of `flow` sees all expected values.
  void ExpectAllIn(const FlowState& flow) const {
    for (const auto& [slot, handle] : bytes_) ExpectTyped(flow, handle);
    for (const auto& [slot, handle] : twelves_) ExpectTyped(flow, handle);
    for (const auto& [slot, blob] : blobs_) {
      ASSERT_EQ(flow.has(blob), values_[slot].has_value());
      const std::span<const std::byte> bytes = flow.get(blob);
      ASSERT_EQ(Bytes(bytes.begin(), bytes.end()),
                values_[slot].value_or(Bytes()));
    }
  }

  // Returns the only record that holds the expected values.
  Bytes Record() const {
    Bytes record(schema().record_bytes());
    uint64_t present = 0;
    for (uint32_t slot = 0; slot < values_.size(); ++slot) {
      if (!values_[slot].has_value()) continue;
      const Bytes& value = *values_[slot];
      present |= uint64_t{1} << slot;
      std::byte* to = &record[schema().offset(slot)];
      if (schema().is_blob(slot)) {
        const uint64_t length = value.size();
        std::memcpy(to, &length, 8);
        to += 8;
      }
      std::copy(value.begin(), value.end(), to);
    }
    if (!record.empty()) std::memcpy(record.data(), &present, 8);
    return record;
  }

 private:
  static Bytes RandomBytes(Rng& rng, size_t bytes) {
    Bytes random(bytes);
    for (std::byte& byte : random) byte = static_cast<std::byte>(rng.Next());
    return random;
  }
  // Returns a random number up to `max`, often 0 or `max`.
  static uint32_t Some(Rng& rng, uint32_t max) {
    const uint64_t kind = rng.Below(6);
    return kind == 0   ? 0
           : kind == 1 ? max
                       : static_cast<uint32_t>(rng.Below(uint64_t{max} + 1));
  }

  template <typename T>
  void ChangeTyped(Rng& rng, FlowState& flow, Slot<T> slot) {
    if (rng.Below(4) == 0) {
      flow.erase(slot);
      values_[slot.index()].reset();
      return;
    }
    Bytes bytes = RandomBytes(rng, sizeof(T));
    T value;
    std::memcpy(&value, bytes.data(), sizeof value);
    flow.put(slot, value);
    values_[slot.index()] = bytes;
  }

  template <typename T>
  void ExpectTyped(const FlowState& flow, Slot<T> slot) const {
    ASSERT_EQ(flow.has(slot), values_[slot.index()].has_value());
    const T value = flow.get(slot);
    Bytes bytes(sizeof value);
    std::memcpy(bytes.data(), &value, sizeof value);
    ASSERT_EQ(bytes, values_[slot.index()].value_or(Bytes(sizeof value)));
  }

  void ChangeBlob(Rng& rng, FlowState& flow, Blob blob) {
    std::optional<Bytes>& value = values_[blob.index()];
    const auto length = static_cast<uint32_t>(value ? value->size() : 0);
    switch (rng.Below(6)) {
      case 0:
        flow.erase(blob);
        value.reset();
        return;
      case 1:  // refused
        ASSERT_FALSE(flow.put(blob, RandomBytes(rng, blob.max_bytes() + 1)));
        ASSERT_FALSE(flow.patch(blob, length + 1, {}));
        ASSERT_FALSE(flow.patch(
            blob, length, RandomBytes(rng, blob.max_bytes() + 1 - length)));
        return;
      case 2:
        value = RandomBytes(rng, Some(rng, blob.max_bytes()));
        ASSERT_TRUE(flow.put(blob, *value));
        return;
      case 3: {  // the blob without its first bytes
        const uint32_t cut = Some(rng, length);
        ASSERT_TRUE(flow.put(blob, flow.get(blob).subspan(cut)));
        const Bytes before = value.value_or(Bytes());
        value = Bytes(before.begin() + cut, before.end());
        return;
      }
      default: {
        const uint32_t begin = Some(rng, length);
        const Bytes bytes =
            RandomBytes(rng, Some(rng, blob.max_bytes() - begin));
        ASSERT_TRUE(flow.patch(blob, begin, bytes));
        if (!value) value.emplace();
        value->resize(std::max<size_t>(length, begin + bytes.size()));
        std::copy(bytes.begin(), bytes.end(), value->begin() + begin);
      }
    }
  }

  std::map<uint32_t, Slot<uint8_t>> bytes_;
  std::map<uint32_t, Slot<Twelve>> twelves_;
  std::map<uint32_t, Blob> blobs_;
  std::vector<std::optional<Bytes>> values_;  // by slot
};

}  // namespace snf

#endif  // SNF_RUNTIME_SDK_TEST_RANDOM_STATE_H_
