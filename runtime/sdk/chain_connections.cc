// SPDX-License-Identifier: Apache-2.0
#include "runtime/sdk/chain_connections.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"

namespace snf {

ConnectionTable::Key ConnectionTable::KeyOf(const StateView& state,
                                            uint32_t entry) const {
  return LoadAs<Key>(KeyAt(state, entry));
}

void ConnectionTable::PutKey(StateView& state, uint32_t entry,
                             const Key& key) const {
  std::memcpy(
      state.BlobInPlace(offset_, entry * entry_bytes_, sizeof(Key)).data(),
      &key, sizeof key);
  Mark(state, entry);
}

// Compares keys word by word, for speed.
uint32_t ConnectionTable::Find(const StateView& state, const IpAddress& address,
                               be16 port) const {
  const auto high = LoadAs<uint64_t>(address.bytes.data());
  const auto low = LoadAs<uint64_t>(address.bytes.data() + 8);
  const uint32_t entries = size(state);
  const std::byte* key = KeyAt(state, 0);
  for (uint32_t entry = 0; entry < entries; ++entry, key += entry_bytes_) {
    if (LoadAs<uint64_t>(key) == high && LoadAs<uint64_t>(key + 8) == low &&
        LoadAs<uint64_t>(key + offsetof(Key, port)) == port.host()) {
      return entry;
    }
  }
  return kNone;
}

uint32_t ConnectionTable::Oldest(const StateView& state) const {
  const uint32_t entries = size(state);
  uint32_t oldest = 0;
  for (uint32_t entry = 1; entry < entries; ++entry) {
    if (UseOf(state, entry) < UseOf(state, oldest)) oldest = entry;
  }
  return oldest;
}

uint64_t ConnectionTable::LastUse(const StateView& state) const {
  const uint32_t entries = size(state);
  uint64_t last = 0;
  for (uint32_t entry = 0; entry < entries; ++entry) {
    last = std::max(last, UseOf(state, entry));
  }
  return last;
}

uint32_t ConnectionTable::Add(StateView& state, const IpAddress& address,
                              be16 port) const {
  const uint32_t entry = size(state);
  SNF_CHECK(entry < max_);
  const Key key = {
      .address = address, .port = port.host(), .used = LastUse(state) + 1};
  // Bytes behind a blob's length are 0, so the new record is already zeros.
  state.PatchBlob(slot_, offset_, entry * entry_bytes_,
                  std::as_bytes(std::span(&key, 1)));
  const uint32_t record = entry * entry_bytes_ + uint32_t{sizeof key};
  state.PatchBlob(slot_, offset_, record, RecordOf(state, entry));
  return entry;
}

// An entry that is already the one used last is not written, so a flow with one
// connection writes nothing.
void ConnectionTable::Use(StateView& state, uint32_t entry) const {
  const uint64_t last = LastUse(state);
  if (UseOf(state, entry) == last) return;
  Key key = KeyOf(state, entry);
  key.used = last + 1;
  PutKey(state, entry, key);
}

void ConnectionTable::Remove(StateView& state, uint32_t entry) const {
  const uint32_t last = size(state) - 1;
  const std::span<const std::byte> all = state.GetBlob(offset_);
  if (entry != last) {
    state.PatchBlob(slot_, offset_, entry * entry_bytes_,
                    all.subspan(last * entry_bytes_));
  }
  state.PutBlob(slot_, offset_, all.first(last * entry_bytes_));
}

}  // namespace snf
