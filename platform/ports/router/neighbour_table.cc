// SPDX-License-Identifier: Apache-2.0
#include "platform/ports/router/neighbour_table.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/check.h"

namespace snf {

NeighbourTable::NeighbourTable(uint32_t known, uint32_t asked)
    : NeighbourTable(known, asked, SecretSeed()) {}

NeighbourTable::NeighbourTable(uint32_t known, uint32_t asked, uint64_t seed)
    : hash_(seed),
      known_(known),
      known_index_(known),
      asked_(asked),
      asked_index_(asked),
      frames_(size_t{asked} * kMostFrames * kFrameBytes) {
  SNF_CHECK(known > 0 && asked > 0);
}

uint64_t NeighbourTable::HashOf(const IpAddress& address) const {
  const auto words = std::bit_cast<std::array<uint64_t, 2>>(address.bytes);
  return hash_(words.data(), 2);
}

uint32_t NeighbourTable::FindKnown(const IpAddress& address,
                                   uint64_t hash) const {
  return known_index_.Find(
      hash, [&](uint32_t slot) { return known_[slot].address == address; });
}

uint32_t NeighbourTable::FindAsked(const IpAddress& address,
                                   uint64_t hash) const {
  return asked_index_.Find(
      hash, [&](uint32_t slot) { return asked_[slot].address == address; });
}

std::optional<NeighbourTable::Found> NeighbourTable::Find(
    Instant now, const IpAddress& address) {
  const uint32_t slot = FindKnown(address, HashOf(address));
  if (slot == SlotIndex::kNotFound) return std::nullopt;
  Known& known = known_[slot];
  known.is_recent = true;
  Found found = {.mac = known.mac};
  if (now - known.confirmed < kFresh || now < known.next_ask) return found;
  if (known.asks == kMostAsks) {
    Forget(slot);
    return std::nullopt;
  }
  ++known.asks;
  known.next_ask = now + kPause;
  found.ask = true;
  return found;
}

bool NeighbourTable::IsAsked(const IpAddress& address) const {
  return FindAsked(address, HashOf(address)) != SlotIndex::kNotFound;
}

// The hand takes the slots in turn: so a slot in use is that of the oldest.
void NeighbourTable::Ask(Instant now, const IpAddress& address,
                         WithFrame lost) {
  const uint64_t hash = HashOf(address);
  SNF_CHECK(FindAsked(address, hash) == SlotIndex::kNotFound);
  const uint32_t slot = asked_hand_;
  asked_hand_ = (asked_hand_ + 1) % static_cast<uint32_t>(asked_.size());
  if (asked_[slot].is_used) Free(slot, lost);
  Asked& asked = asked_[slot];
  asked.address = address;
  asked.is_used = true;
  asked.asks = 1;
  asked.frames = 0;
  asked.next_ask = now + kPause;
  asked.hash = hash;
  asked_index_.Insert(hash, slot);
}

bool NeighbourTable::Keep(const IpAddress& address,
                          std::span<const std::byte> frame) {
  const uint32_t slot = FindAsked(address, HashOf(address));
  if (slot == SlotIndex::kNotFound) return false;
  Asked& asked = asked_[slot];
  if (asked.frames == kMostFrames || frame.size() > kFrameBytes) return false;
  std::ranges::copy(frame, RoomOf(slot, asked.frames));
  asked.bytes[asked.frames++] = static_cast<uint32_t>(frame.size());
  return true;
}

// A known neighbour's unsolicited claim counts once in kLock: two
// hosts that claim one address cannot make it change with each packet.
bool NeighbourTable::Learn(Instant now, const IpAddress& address,
                           const MacAddress& mac, bool is_answer,
                           WithFrame ready) {
  const uint64_t hash = HashOf(address);
  const uint32_t slot = FindKnown(address, hash);
  if (slot != SlotIndex::kNotFound) {
    Known& known = known_[slot];
    const bool was_asked = is_answer && known.asks > 0;
    if (mac != known.mac) {
      if (!was_asked && now - known.learned < kLock) return false;
      known.mac = mac;
      known.learned = now;
    }
    known.confirmed = now;
    known.asks = 0;
    return true;
  }
  const uint32_t waiting = FindAsked(address, hash);
  if (waiting == SlotIndex::kNotFound) return false;
  Add(now, address, hash, mac);
  Free(waiting, ready);
  return true;
}

void NeighbourTable::Know(Instant confirmed, const IpAddress& address,
                          const MacAddress& mac, WithFrame ready) {
  const uint64_t hash = HashOf(address);
  const uint32_t slot = FindKnown(address, hash);
  if (slot == SlotIndex::kNotFound) {
    Add(confirmed, address, hash, mac);
    const uint32_t waiting = FindAsked(address, hash);
    if (waiting != SlotIndex::kNotFound) Free(waiting, ready);
    return;
  }
  Known& known = known_[slot];
  if (confirmed < known.confirmed) return;
  known.mac = mac;
  known.confirmed = confirmed;
  known.learned = confirmed;
  known.asks = 0;
}

void NeighbourTable::ForEachKnown(
    absl::FunctionRef<void(const IpAddress&, const MacAddress&, Instant)> take)
    const {
  if (known() == 0) return;
  for (uint32_t slot = 0; slot < known_.size(); ++slot) {
    const Known& known = known_[slot];
    if (known.is_used) take(known.address, known.mac, known.confirmed);
  }
}

void NeighbourTable::Add(Instant now, const IpAddress& address, uint64_t hash,
                         const MacAddress& mac) {
  while (known_[known_hand_].is_used && known_[known_hand_].is_recent) {
    known_[known_hand_].is_recent = false;
    known_hand_ = (known_hand_ + 1) % static_cast<uint32_t>(known_.size());
  }
  const uint32_t slot = known_hand_;
  known_hand_ = (known_hand_ + 1) % static_cast<uint32_t>(known_.size());
  if (known_[slot].is_used) Forget(slot);
  known_[slot] = {.address = address,
                  .mac = mac,
                  .is_used = true,
                  .is_recent = true,
                  .asks = 0,
                  .confirmed = now,
                  .next_ask = now,
                  .learned = now,
                  .hash = hash};
  known_index_.Insert(hash, slot);
}

void NeighbourTable::Forget(uint32_t known) {
  known_index_.Erase(known_[known].hash, known);
  known_[known].is_used = false;
}

void NeighbourTable::Free(uint32_t asked, WithFrame with) {
  asked_index_.Erase(asked_[asked].hash, asked);
  asked_[asked].is_used = false;
  for (uint32_t i = 0; i < asked_[asked].frames; ++i) {
    with({RoomOf(asked, i), asked_[asked].bytes[i]});
  }
}

void NeighbourTable::Tick(Instant now,
                          absl::FunctionRef<void(const IpAddress&)> ask,
                          WithFrame lost) {
  if (asked() == 0) return;
  for (uint32_t slot = 0; slot < asked_.size(); ++slot) {
    Asked& asked = asked_[slot];
    if (!asked.is_used || now < asked.next_ask) continue;
    if (asked.asks == kMostAsks) {
      Free(slot, lost);
      continue;
    }
    ++asked.asks;
    asked.next_ask = now + kPause;
    ask(asked.address);
  }
}

void NeighbourTable::Clear(WithFrame lost) {
  for (uint32_t slot = 0; slot < asked_.size(); ++slot) {
    if (asked_[slot].is_used) Free(slot, lost);
  }
}

}  // namespace snf
