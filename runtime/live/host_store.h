// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RUNTIME_LIVE_HOST_STORE_H_
#define SNF_RUNTIME_LIVE_HOST_STORE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/ids.h"
#include "base/messages/messages.h"
#include "base/time.h"
#include "runtime/core/host_records.h"
#include "runtime/core/unit_options.h"
#include "runtime/ring/real_clock.h"

namespace snf {

// Theory of operation. The records that units of a host show each other, in
// memory that the loops of units share. The memory has a part for each loop,
// which only that loop writes: a process maps its own part for writing and all
// of it for reading, so that no unit can change another one's records.
//
//   part of loop 0: │ index of unit 0 │ records of unit 0 │ index of unit 2 │ …
//   part of loop 1: │ index of unit 1 │ records of unit 1 │ …
//   │ presence of each loop │
//
// Loops may be on several hosts, each with a memory of its own. Then a byte for
// each loop says whether its process is on this host; no unit can write that.
//
// A record is in the place of its slot in the unit's FlowStore, behind a head:
//
//   version │ flow │ clock │ timer │ schema │ bytes, link │ shown at │ epoch │
//
// The head has 64 bytes.
//
// The version is odd while the unit writes. A reader copies head and record,
// and takes the copy if the version was even and is the same afterwards. If the
// unit died in the middle of a write, the version stays odd, and the state
// comes from the unit's logger. The index has buckets of some slots, by a hash
// of the flow; an entry may be replaced by that of another flow, whose record
// is then unknown, and pulled.
//
// Worked example: unit 2 of 2 loops shows clock 4 of flow 7 in slot 0. It is
// the second unit of loop 0. Version 0 becomes 1, head and record are written,
// and version 2 is set; the bucket of flow 7 gets slot 0. Unit 1 looks into the
// same bucket, finds flow 7 in slot 0, and copies.
//
// The memory of another loop may have any content at any time: numbers are
// copied, then checked, then used.
//
// Memory: 64 bytes a record, and the record in whole cache lines, and 8 to 16
// bytes of index; pages are filled on first use. Budget: ≤ 60 ns for Show and
// for Read of 72 bytes, in the cache; no allocation.
class HostStore final : public HostRecords {
 public:
  struct Options {
    uint32_t max_units = 1;
    uint32_t loops = 1;  // unit u belongs to loop u % loops
    // Places of each unit; slots above that are not shown. 0: no store.
    uint32_t slots = 0;
    uint32_t record_bytes = 0;  // of the NF's state, a multiple of 8
    // Loops may be on other hosts: only those are here that PresenceAt says.
    bool spread = false;
    friend bool operator==(const Options&, const Options&) = default;
  };
  // Address space that all parts may take; the places become fewer else.
  static constexpr size_t kMostBytes = size_t{1} << 40;
  // Most bytes of a loop's part if loops may be on other hosts, whose memory
  // is not this host's to give.
  static constexpr size_t kMostSpreadBytes = size_t{8} << 30;
  // Lookups of a flow that its unit is writing.
  static constexpr int kTries = 4;
  // Flows in a bucket of the index.
  static constexpr uint32_t kWays = 4;
  // After this time a record is stale. A slot may have had 2^24 more flows by
  // then, and flow ids repeat.
  static constexpr Nanos kLifetime = Seconds(10);
  // Returns the time, which is the same for all loops of the host.
  using Time = Instant (*)();

  // Returns the places of a unit with `max_flows`, within kMostBytes and, if
  // spread, kMostSpreadBytes.
  static uint32_t SlotsFor(uint32_t max_flows, const Options& options);
  // Returns the bytes of each loop's part, in whole pages, and of all memory.
  static size_t PartBytes(const Options& options);
  static size_t BytesFor(const Options& options);
  // Returns where the byte of the loop is: not 0 if its process is on this
  // host.
  static size_t PresenceAt(const Options& options, uint32_t loop) {
    return options.loops * PartBytes(options) + loop;
  }

  // `own` is the loop's part; `all` may be another mapping of the same memory,
  // which was zero at first. Both must outlive the store, and have these sizes.
  HostStore(const Options& options, uint32_t loop, std::span<std::byte> own,
            std::span<const std::byte> all, Time time = &RealClock::Monotonic);

  void on_report(uint32_t epoch) override { epoch_ = epoch; }
  bool has(UnitId unit) const override;
  bool Show(UnitId unit, uint32_t slot, const State& state,
            std::span<const std::byte> bytes) override;
  std::optional<HostRecord> Read(UnitId unit, FlowId flow,
                                 Clock clock) override;
  HostMiss miss() const override { return miss_; }

 private:
  // Words of a head, by their places.
  enum Head : uint32_t {
    kVersion,
    kFlow,
    kClock,
    kTimer,
    kSchema,
    kSize,
    kShown,
    kEpoch
  };
  static constexpr size_t kHeadBytes = 64;

  static size_t IndexBytes(const Options& options);
  static size_t SlotBytes(const Options& options);
  static size_t UnitBytes(const Options& options);

  size_t BucketOf(FlowId flow) const;
  // The place of the unit in its loop's part.
  size_t PlaceOf(UnitId unit) const {
    return value(unit) / options_.loops * UnitBytes(options_);
  }
  void List(std::span<std::byte> unit, uint32_t slot, FlowId flow);
  // Returns the reason, or nothing if copied_ and state_ have the record.
  std::optional<HostMiss> ReadSlot(std::span<const std::byte> unit,
                                   uint32_t slot, FlowId flow, Clock clock);
  std::optional<HostMiss> CopySlot(std::span<const std::byte> head, FlowId flow,
                                   Clock clock);

  const Options options_;
  const Time time_;
  const uint32_t loop_;
  const size_t index_bytes_;
  const size_t slot_bytes_;
  const std::span<std::byte> own_;
  const std::span<const std::byte> all_;
  uint32_t epoch_ = 0;  // of the controller to which this loop has reported
  HostMiss miss_ = HostMiss::kUnknown;
  State state_;
  std::vector<uint64_t> copied_;
};

}  // namespace snf

#endif  // SNF_RUNTIME_LIVE_HOST_STORE_H_
