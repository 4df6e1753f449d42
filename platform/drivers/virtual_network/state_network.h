// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_DRIVERS_VIRTUAL_NETWORK_STATE_NETWORK_H_
#define SNF_PLATFORM_DRIVERS_VIRTUAL_NETWORK_STATE_NETWORK_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/rng.h"
#include "base/time.h"
#include "platform/run/run.h"

namespace snf {

// Theory of operation. The network between units, as far as messages about
// state go: when each arrives, if it does, and the records that are on the way.
// A Pull, Takeover or TakeoverAck takes a hop; a State (a push, or an answer to
// a Pull) takes state_delay and the time of its record at state_bandwidth, or
// local_handover if both units are on the same host.
// Chaos comes on top, for all of them alike: it loses a message, delivers it a
// second time, and delays each copy on its own.
//
// Worked example: with 20 µs, 10 Gbit/s and a record of 1,250 bytes, a push
// arrives after 21 µs; with chaos of 0 to 5 µs and a duplicate perhaps after
// 22 and 24 µs, and then the unit refuses the second as stale.
//
// A seed always gives the same fates. Without chaos no random number is drawn.
// Owner-thread only.
class StateNetwork {
 public:
  static constexpr uint32_t kNoRecord = 0xffff'ffff;
  // The limit of all records on the way; a State beyond it is lost.
  static constexpr uint64_t kMaxRecordBytes = 64 << 20;

  // `record_bytes`: of the longest record, StateSchema::record_bytes().
  // Networks whose streams (Rng::Fork) differ have fates of their own.
  StateNetwork(const RunOptions& options, uint32_t record_bytes,
               uint64_t stream = 2);

  // The delays after which what is sent now arrives: one, and with chaos also
  // none or two. Valid until the next call.
  std::span<const Nanos> Send() { return Fates(hop_delay_); }
  std::span<const Nanos> SendState(uint32_t bytes);
  // Returns such delays for a State that stays on its host.
  std::span<const Nanos> HandOver() { return Fates(local_handover_); }
  // Returns true if what Send was asked for arrives in the order of sending.
  bool in_order() const { return !chaos_.any(); }

  // A copy of a record, for one arrival of a State; kNoRecord where there is no
  // room, which counts as a loss. To be freed when it has arrived.
  uint32_t Keep(std::span<const std::byte> record);
  std::span<const std::byte> record(uint32_t kept) const;
  void Free(uint32_t kept);

  uint64_t lost() const { return lost_; }
  uint64_t duplicated() const { return duplicated_; }
  uint32_t records_on_the_way() const {
    return static_cast<uint32_t>(records_.size() - free_.size());
  }

 private:
  std::span<const Nanos> Fates(Nanos delay);
  Nanos WithChaos(Nanos delay);

  ChaosOptions chaos_;
  Nanos hop_delay_;
  Nanos state_delay_;  // of a State, without its record
  int64_t state_bandwidth_bps_;
  Nanos local_handover_;
  Rng rng_;
  std::array<Nanos, 2> delays_{};
  uint64_t lost_ = 0;
  uint64_t duplicated_ = 0;

  uint32_t record_bytes_;
  struct Record {
    std::unique_ptr<std::byte[]> bytes;  // record_bytes_
    size_t used = 0;
  };
  std::vector<Record> records_;
  std::vector<uint32_t> free_;
};

}  // namespace snf

#endif  // SNF_PLATFORM_DRIVERS_VIRTUAL_NETWORK_STATE_NETWORK_H_
