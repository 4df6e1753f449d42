// SPDX-License-Identifier: Apache-2.0
#include "platform/ports/gwlb/outer_table.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"

namespace snf {
namespace {

// Addresses that no card has: local ones, of one host each.
constexpr auto kOfHeader = std::byte{0x02};
constexpr auto kOfTable = std::byte{0x06};
constexpr size_t kAddressBytes = 6;
constexpr size_t kGenerationAt = 4;  // behind three bytes of the slot

}  // namespace

OuterTable::OuterTable(uint32_t capacity)
    : OuterTable(capacity, SecretSeed()) {}

OuterTable::OuterTable(uint32_t capacity, uint64_t seed)
    : hash_(seed), slots_(capacity), index_(capacity) {
  SNF_CHECK(capacity > 0 && capacity < 1u << 24);
  constexpr uint64_t kNumberIs = 1;
  const uint64_t number = hash_(&kNumberIs, 1);
  std::memcpy(number_.data(), &number, number_.size());
}

OuterHeader OuterTable::HeaderOf(const Slot& slot) {
  return {.source = slot.source,
          .destination = slot.destination,
          .source_port = slot.source_port,
          .traffic_class = slot.traffic_class,
          .geneve = std::span(slot.geneve).first(slot.geneve_bytes)};
}

// Each step takes the hash so far and the next words.
uint64_t OuterTable::HashOf(const OuterHeader& outer) const {
  constexpr size_t kWords = KeyedHash::kMaxWords;
  constexpr size_t kStepBytes = (kWords - 1) * sizeof(uint64_t);
  std::array<uint64_t, kWords> words = {
      uint64_t{outer.source.host()} << 32 | outer.destination.host(),
      uint64_t{outer.source_port.host()} << 32 |
          uint64_t{outer.traffic_class} << 16 | outer.geneve.size()};
  uint64_t hash = hash_(words.data(), 2);
  for (auto left = outer.geneve; !left.empty();) {
    const auto step = left.first(std::min(left.size(), kStepBytes));
    words = {hash};
    std::memcpy(&words[1], step.data(), step.size());
    hash = hash_(words.data(), kWords);
    left = left.subspan(step.size());
  }
  return hash;
}

uint32_t OuterTable::FreeSlot() {
  if (used_ < slots_.size()) return used_++;
  while (slots_[hand_].is_recent) {
    slots_[hand_].is_recent = false;
    hand_ = (hand_ + 1) % used_;
  }
  const uint32_t slot = hand_;
  hand_ = (hand_ + 1) % used_;
  index_.Erase(slots_[slot].hash, slot);
  ++slots_[slot].generation;
  ++evicted_;
  return slot;
}

uint32_t OuterTable::SlotFor(const OuterHeader& outer) {
  const uint64_t hash = HashOf(outer);
  const uint32_t known = index_.Find(hash, [&](uint32_t slot) {
    const OuterHeader other = HeaderOf(slots_[slot]);
    return other.source == outer.source &&
           other.destination == outer.destination &&
           other.source_port == outer.source_port &&
           other.traffic_class == outer.traffic_class &&
           std::ranges::equal(other.geneve, outer.geneve);
  });
  if (known != SlotIndex::kNotFound) return known;
  const uint32_t number = FreeSlot();
  Slot& slot = slots_[number];
  slot.source = outer.source;
  slot.destination = outer.destination;
  slot.hash = hash;
  slot.source_port = outer.source_port;
  slot.traffic_class = outer.traffic_class;
  slot.geneve_bytes = static_cast<uint16_t>(outer.geneve.size());
  std::ranges::copy(outer.geneve, slot.geneve.begin());
  index_.Insert(hash, number);
  return number;
}

void OuterTable::Name(const OuterHeader& outer, std::span<std::byte> link) {
  SNF_CHECK(outer.geneve.size() <= kMaxGeneveBytes);
  SNF_CHECK(link.size() >= 2 * kAddressBytes);
  const uint32_t number = SlotFor(outer);
  Slot& slot = slots_[number];
  slot.is_recent = true;
  link[0] = kOfTable;
  std::ranges::copy(number_, &link[1]);
  std::byte* const source = &link[kAddressBytes];
  Store(source, be32(number));  // the upper byte is 0
  source[0] = kOfHeader;
  Store(source + kGenerationAt, be16(slot.generation));
}

std::optional<OuterHeader> OuterTable::Find(
    std::span<const std::byte> frame) const {
  if (frame.size() < 2 * kAddressBytes) return std::nullopt;
  // The way back has the addresses exchanged.
  const bool is_reversed = frame[0] == kOfHeader;
  const auto header =
      frame.subspan(is_reversed ? 0 : kAddressBytes, kAddressBytes);
  const auto table =
      frame.subspan(is_reversed ? kAddressBytes : 0, kAddressBytes);
  if (header[0] != kOfHeader || table[0] != kOfTable ||
      !std::ranges::equal(table.subspan(1), number_)) {
    return std::nullopt;
  }
  const uint32_t number = LoadBe32(header.data()).host() & 0x00ff'ffff;
  if (number >= used_) return std::nullopt;
  const Slot& slot = slots_[number];
  if (LoadBe16(&header[kGenerationAt]).host() != slot.generation) {
    return std::nullopt;
  }
  return HeaderOf(slot);
}

}  // namespace snf
