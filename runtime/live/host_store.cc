// SPDX-License-Identifier: Apache-2.0
#include "runtime/live/host_store.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>

#include "base/check.h"
#include "base/packet/packet_info.h"

namespace snf {
namespace {

constexpr size_t kPage = 4'096;
constexpr size_t kLine = 64;

constexpr size_t RoundUp(size_t bytes, size_t to) {
  return (bytes + to - 1) / to * to;
}

// Another loop may read a word while it is written, so each access is atomic.
// Loads of what only this loop writes are as cheap.
template <typename T>
T Load(std::span<const std::byte> memory, size_t at) {
  auto* const word = reinterpret_cast<T*>(
      const_cast<std::byte*>(&memory[at]));  // is read only
  return std::atomic_ref<T>(*word).load(std::memory_order_acquire);
}
template <typename T>
void Store(std::span<std::byte> memory, size_t at, T value) {
  std::atomic_ref<T>(*reinterpret_cast<T*>(&memory[at]))
      .store(value, std::memory_order_release);
}

constexpr size_t At(uint32_t word) { return word * sizeof(uint64_t); }

uint64_t SizeWord(const State& state) {
  return uint64_t{state.bytes} | uint64_t{static_cast<uint8_t>(state.link)}
                                     << 32;
}

}  // namespace

// --- Places. ---

size_t HostStore::IndexBytes(const Options& options) {
  const size_t buckets = std::bit_ceil(size_t{options.slots} * 2 / kWays + 1);
  return buckets * kWays * sizeof(uint32_t);
}
size_t HostStore::SlotBytes(const Options& options) {
  return kHeadBytes + RoundUp(options.record_bytes, kLine);
}
size_t HostStore::UnitBytes(const Options& options) {
  return RoundUp(IndexBytes(options) + options.slots * SlotBytes(options),
                 kPage);
}
size_t HostStore::PartBytes(const Options& options) {
  const size_t units = (options.max_units + options.loops - 1) / options.loops;
  return units * UnitBytes(options);
}

size_t HostStore::BytesFor(const Options& options) {
  const size_t parts = options.loops * PartBytes(options);
  return parts == 0 ? 0 : parts + RoundUp(options.loops, kPage);
}

uint32_t HostStore::SlotsFor(uint32_t max_flows, const Options& options) {
  const size_t most_bytes =
      options.spread ? std::min(options.loops * kMostSpreadBytes, kMostBytes)
                     : kMostBytes;
  // The index and the rounding take less than the other half.
  const size_t most = most_bytes / 2 / SlotBytes(options) /
                      (size_t{options.max_units} + options.loops);
  return static_cast<uint32_t>(std::min<size_t>(max_flows, most));
}

HostStore::HostStore(const Options& options, uint32_t loop,
                     std::span<std::byte> own, std::span<const std::byte> all,
                     Time time)
    : options_(options),
      time_(time),
      loop_(loop),
      index_bytes_(IndexBytes(options)),
      slot_bytes_(SlotBytes(options)),
      own_(own),
      all_(all),
      copied_(options.record_bytes / sizeof(uint64_t)) {
  SNF_CHECK(options.record_bytes % sizeof(uint64_t) == 0);
  SNF_CHECK(loop < options.loops && own.size() >= PartBytes(options) &&
            all.size() >= BytesFor(options));
}

bool HostStore::has(UnitId unit) const {
  if (value(unit) >= options_.max_units) return false;
  return !options_.spread ||
         Load<uint8_t>(all_,
                       PresenceAt(options_, value(unit) % options_.loops)) != 0;
}

size_t HostStore::BucketOf(FlowId flow) const {
  const size_t buckets = index_bytes_ / (kWays * sizeof(uint32_t));
  const uint64_t hash = static_cast<uint64_t>(flow) * 0x9e37'79b9'7f4a'7c15;
  return ((hash >> 32) & (buckets - 1)) * kWays * sizeof(uint32_t);
}

// --- Showing. ---

bool HostStore::Show(UnitId unit, uint32_t slot, const State& state,
                     std::span<const std::byte> bytes) {
  SNF_CHECK(value(unit) % options_.loops == loop_ &&
            bytes.size() <= options_.record_bytes);
  if (slot >= options_.slots) return false;
  const auto of_unit = own_.subspan(PlaceOf(unit), UnitBytes(options_));
  const auto place =
      of_unit.subspan(index_bytes_ + slot * slot_bytes_, slot_bytes_);
  // An earlier process of this unit may have died in the middle of a write.
  const uint64_t version = Load<uint64_t>(place, At(kVersion)) | 1;
  Store(place, At(kVersion), version);
  Store(place, At(kFlow), static_cast<uint64_t>(state.flow));
  Store(place, At(kClock), value(state.applied));
  Store(place, At(kTimer), static_cast<uint64_t>(state.timer.ns));
  Store(place, At(kSchema), state.schema);
  Store(place, At(kSize), SizeWord(state));
  Store(place, At(kShown), static_cast<uint64_t>(time_().ns));
  Store(place, At(kEpoch), uint64_t{epoch_});
  for (size_t i = 0; i < bytes.size(); i += sizeof(uint64_t)) {
    uint64_t word = 0;
    std::memcpy(&word, &bytes[i], sizeof(word));
    Store(place, kHeadBytes + i, word);
  }
  Store(place, At(kVersion), version + 1);
  List(of_unit, slot, state.flow);
  return true;
}

// Enters the slot in the bucket of its flow: where it is, else in place of an
// entry whose slot has another bucket's flow, else in place of any.
void HostStore::List(std::span<std::byte> unit, uint32_t slot, FlowId flow) {
  const size_t bucket = BucketOf(flow);
  size_t chosen = bucket + slot % kWays * sizeof(uint32_t);
  for (uint32_t way = 0; way < kWays; ++way) {
    const size_t at = bucket + way * sizeof(uint32_t);
    const auto entry = Load<uint32_t>(unit, at);
    if (entry == slot + 1) return;
    if (entry == 0 || entry > options_.slots) {
      chosen = at;
      continue;
    }
    const FlowId listed{Load<uint64_t>(
        unit, index_bytes_ + (entry - 1) * slot_bytes_ + At(kFlow))};
    if (BucketOf(listed) != bucket) chosen = at;
  }
  Store(unit, chosen, slot + 1);
}

// --- Reading. ---

std::optional<HostRecord> HostStore::Read(UnitId unit, FlowId flow,
                                          Clock clock) {
  miss_ = HostMiss::kUnknown;
  if (value(unit) >= options_.max_units || options_.slots == 0) {
    return std::nullopt;
  }
  if (!has(unit)) miss_ = HostMiss::kAway;
  const size_t part = value(unit) % options_.loops * PartBytes(options_);
  const auto of_unit = all_.subspan(part + PlaceOf(unit), UnitBytes(options_));
  const size_t bucket = BucketOf(flow);
  for (uint32_t way = 0; way < kWays; ++way) {
    const auto entry = Load<uint32_t>(of_unit, bucket + way * sizeof(uint32_t));
    if (entry == 0) continue;
    if (entry > options_.slots) {
      miss_ = HostMiss::kMalformed;
      continue;
    }
    const auto why = ReadSlot(of_unit, entry - 1, flow, clock);
    if (!why.has_value()) {
      return HostRecord{state_,
                        std::as_bytes(std::span(copied_)).first(state_.bytes)};
    }
    // The reason of this flow says more than that of others in the bucket.
    if (*why != HostMiss::kUnknown) miss_ = *why;
  }
  return std::nullopt;
}

std::optional<HostMiss> HostStore::ReadSlot(std::span<const std::byte> unit,
                                            uint32_t slot, FlowId flow,
                                            Clock clock) {
  const auto place =
      unit.subspan(index_bytes_ + slot * slot_bytes_, slot_bytes_);
  for (int i = 0; i < kTries; ++i) {
    const auto version = Load<uint64_t>(place, At(kVersion));
    if (version % 2 != 0) continue;
    const auto why = CopySlot(place, flow, clock);
    // All loads before this one acquire: if any saw a later write, this one
    // sees the version that the writer set before.
    if (Load<uint64_t>(place, At(kVersion)) == version) return why;
  }
  return HostMiss::kTorn;
}

std::optional<HostMiss> HostStore::CopySlot(std::span<const std::byte> place,
                                            FlowId flow, Clock clock) {
  if (Load<uint64_t>(place, At(kFlow)) != static_cast<uint64_t>(flow)) {
    return HostMiss::kUnknown;
  }
  if (Load<uint64_t>(place, At(kClock)) != value(clock)) {
    return HostMiss::kStale;
  }
  // A hostile unit may write any number as the age.
  const uint64_t age =
      static_cast<uint64_t>(time_().ns) - Load<uint64_t>(place, At(kShown));
  if (age > static_cast<uint64_t>(kLifetime.ns)) return HostMiss::kStale;
  if (Load<uint64_t>(place, At(kEpoch)) > epoch_) return HostMiss::kAhead;
  const auto size = Load<uint64_t>(place, At(kSize));
  const auto bytes = static_cast<uint32_t>(size);
  const auto link = static_cast<LinkType>(static_cast<uint8_t>(size >> 32));
  if (bytes > options_.record_bytes || bytes % sizeof(uint64_t) != 0 ||
      size >> 40 != 0 || !IsLinkType(link)) {
    return HostMiss::kMalformed;
  }
  state_ = {
      .flow = flow,
      .applied = clock,
      .timer = Instant{static_cast<int64_t>(Load<uint64_t>(place, At(kTimer)))},
      .schema = Load<uint64_t>(place, At(kSchema)),
      .bytes = bytes,
      .link = link};
  for (size_t i = 0; i < bytes / sizeof(uint64_t); ++i) {
    copied_[i] =
        Load<uint64_t>(place, kHeadBytes + At(static_cast<uint32_t>(i)));
  }
  return std::nullopt;
}

}  // namespace snf
