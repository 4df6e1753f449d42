// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RUNTIME_SDK_CHAIN_CONNECTIONS_H_
#define SNF_RUNTIME_SDK_CHAIN_CONNECTIONS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <type_traits>

#include "base/packet/ip_address.h"
#include "base/time.h"
#include "runtime/sdk/state.h"
#include "runtime/sdk/state_schema.h"

namespace snf {

// A slot of a record in which a chain keeps the timer of one of its NFs.
class TimerSlot {
 public:
  TimerSlot() = default;
  TimerSlot(uint32_t index, uint32_t offset) : index_(index), offset_(offset) {}

  bool exists() const { return index_ != kNone; }
  // Returns Instant::max() if no timer is set.
  Instant Get(const StateView& state) const {
    if (!state.Has(index_)) return Instant::max();
    Instant timer;
    state.Get(offset_, &timer.ns, sizeof timer.ns);
    return timer;
  }
  void Put(StateView& state, Instant timer) const {
    if (timer == Instant::max()) {
      state.Erase(index_, offset_, sizeof timer.ns);
    } else {
      state.Put(index_, offset_, &timer.ns, sizeof timer.ns);
    }
  }

 private:
  static constexpr uint32_t kNone = 0xffff'ffff;
  uint32_t index_ = kNone;
  uint32_t offset_ = 0;
};

// The table in an inside endpoint's record in which a chain keeps a record for
// each of the endpoint's connections (chain.h). Entries are numbered from 0 on;
// Remove gives the last entry the number of the removed one. Each call costs at
// most a look at `max` keys.
class ConnectionTable {
 public:
  // The key before each record. In state from other units it may be anything:
  // keys may occur twice, and `used` may have any value.
  struct Key {
    IpAddress address;  // of the end outside
    uint64_t port;
    uint64_t used;  // larger means used later
  };
  static_assert(sizeof(Key) == 32 &&
                std::has_unique_object_representations_v<Key>);

  ConnectionTable(const StateSchema& schema, uint32_t slot)
      : slot_(slot),
        offset_(schema.offset(slot)),
        entry_bytes_(schema.grain(slot)),
        max_(schema.bytes(slot) / schema.grain(slot)) {}

  uint32_t max() const { return max_; }
  uint32_t size(const StateView& state) const {
    return state.BlobLength(offset_) / entry_bytes_;
  }
  static constexpr uint32_t kNone = 0xffff'ffff;
  // Returns the entry of the connection with this end outside, or kNone.
  uint32_t Find(const StateView& state, const IpAddress& address,
                be16 port) const;
  // Returns the entry unused for longest. The table must not be empty.
  uint32_t Oldest(const StateView& state) const;

  // Adds an entry, which becomes the one used last, with a record of zeros. The
  // table must have room.
  uint32_t Add(StateView& state, const IpAddress& address, be16 port) const;
  // Makes the entry the one used last.
  void Use(StateView& state, uint32_t entry) const;
  void Remove(StateView& state, uint32_t entry) const;

  // Returns the record of an entry. The caller calls Mark after changing it.
  std::span<std::byte> RecordOf(const StateView& state, uint32_t entry) const {
    return state.BlobInPlace(offset_, entry * entry_bytes_, entry_bytes_)
        .subspan(sizeof(Key));
  }
  void Mark(StateView& state, uint32_t entry) const {
    state.MarkBlob(slot_, entry * entry_bytes_, (entry + 1) * entry_bytes_);
  }

 private:
  Key KeyOf(const StateView& state, uint32_t entry) const;
  void PutKey(StateView& state, uint32_t entry, const Key& key) const;
  uint64_t UseOf(const StateView& state, uint32_t entry) const {
    return LoadAs<uint64_t>(KeyAt(state, entry) + offsetof(Key, used));
  }
  const std::byte* KeyAt(const StateView& state, uint32_t entry) const {
    return state.record().data() + offset_ + StateSchema::kBlobHeaderBytes +
           entry * entry_bytes_;
  }
  uint64_t LastUse(const StateView& state) const;

  uint32_t slot_;
  uint32_t offset_;
  uint32_t entry_bytes_;
  uint32_t max_;
};

// The services for an NF that keeps state per connection in a flow that is an
// endpoint: requests that concern the endpoint do nothing.
class ConnectionServices final : public FlowServices {
 public:
  explicit ConnectionServices(FlowServices& services) : services_(services) {}

  bool Emit(std::span<const std::byte> frame) override {
    return services_.Emit(frame);
  }
  std::optional<uint32_t> TakePiece(PoolId pool,
                                    const PiecePreference& wish) override {
    return services_.TakePiece(pool, wish);
  }
  void GivePiece(PoolId pool, uint32_t piece) override {
    services_.GivePiece(pool, piece);
  }
  bool IsExhausted(PoolId pool) const override {
    return services_.IsExhausted(pool);
  }
  void SetAlias(const FlowKey&, uint64_t, uint32_t) override {}
  void Note(Nanos, bool over) override { is_over_ |= over; }
  LogBatch* Records() override { return services_.Records(); }

  bool is_over() const { return is_over_; }

 private:
  FlowServices& services_;
  bool is_over_ = false;
};

}  // namespace snf

#endif  // SNF_RUNTIME_SDK_CHAIN_CONNECTIONS_H_
