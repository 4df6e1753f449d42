// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RUNTIME_CORE_HOST_RECORDS_H_
#define SNF_RUNTIME_CORE_HOST_RECORDS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/ids.h"
#include "base/messages/messages.h"
#include "runtime/core/unit_options.h"

namespace snf {

// A record that a unit shows.
struct HostRecord {
  State state;
  std::span<const std::byte> bytes;  // the first state.bytes of the record
};

// Theory of operation. The records of flows that the units of a host show each
// other (proto/protocol.md U16, Serpens §III): a flow that moves within the
// host finds its state where its last unit shows it, and no bytes are sent.
//
//   unit A ─Show(flow 7, clock 4)─► [A's part] ◄─Read(A, flow 7, clock 4)─ B
//
// Each unit writes its own part only, and reads the parts of all. A record
// stays until its unit shows another one in that place, also when the unit has
// died. The record of a clock never changes, since clocks are given once, so
// nothing is withdrawn: a reader that needs clock 4 finds that, or nothing.
//
// If the controller may fail, a record has the epoch to which its unit had
// reported. A unit that has not reported to that epoch yet takes no such
// record, as it handles no message of that unit (U14).
//
// Worked example: A has released clock 4 of flow 7, whose record is in slot 0
// of A, and shows it. Clock 5 comes to B, with A as its source: B reads clock
// 4, and runs clock 5. Had A shown clock 3 only, B's miss() would be kStale,
// and B would send a Pull.
//
// If units are on several hosts, each host has records of its own. A unit of
// another host shows nothing here, so its states are pulled (kAway).
//
// Owner-thread only, of a loop of units.
class HostRecords {
 public:
  virtual ~HostRecords() = default;

  // The units of this loop have reported to the controller of this epoch (F9),
  // or begin under it.
  virtual void on_report(uint32_t epoch) = 0;
  // Returns true if that unit is on this host, as far as is known: its records
  // may be read in any case.
  virtual bool has(UnitId unit) const = 0;
  // Shows the record of a flow of this loop's unit, in the place of that slot.
  // Its clock must be released. Returns false if there is no such place.
  virtual bool Show(UnitId unit, uint32_t slot, const State& state,
                    std::span<const std::byte> bytes) = 0;
  // Returns the record of that clock that the unit shows, copied: valid until
  // the next call. The unit is not trusted: only lengths were checked. If there
  // is no such record, miss() says why.
  virtual std::optional<HostRecord> Read(UnitId unit, FlowId flow,
                                         Clock clock) = 0;
  virtual HostMiss miss() const = 0;
};

}  // namespace snf

#endif  // SNF_RUNTIME_CORE_HOST_RECORDS_H_
