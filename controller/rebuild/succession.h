// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_CONTROLLER_REBUILD_SUCCESSION_H_
#define SNF_CONTROLLER_REBUILD_SUCCESSION_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/messages/controller_commands.h"
#include "base/time.h"
#include "controller/core/controller.h"
#include "controller/core/controller_counters.h"
#include "controller/rebuild/rebuild.h"

namespace snf {

// Theory of operation. The phases between the failure of a controller and the
// first packet of its successor (proto/protocol.md F9):
//
//   kUp ─Fail─► kDead ─Gather─► kGathering ─Begin─► kMending ─Finish─► kUp
//                 ▲                 │                   │
//                 ├─────Restart─────┘                   │
//                 └────────────────Fail─────────────────┘
//
//   phase       the controller                   a packet that arrives
//   kUp         is there                         goes to the controller
//   kDead       has failed, which is not seen    is lost
//   kGathering  is made of reports               waits
//   kMending    is there, and has still to send  waits
//               what its predecessor owed
//
// The driver reports what happens, and hands over in this order: what was
// reported goes to rebuild(); once has_all(), Begin makes the controller; then
// the driver says what units said behind their reports, and calls Mend until
// nothing is left; the packets that waited, which Finish returns, come last.
//
// A source is whoever reports: the driver numbers units, or their loops, and
// loggers. A source may be awaited several times, and then reports as often.
//
// Worked example: two sources are awaited. The controller fails, a packet comes
// and is lost, Gather returns epoch 1, and a packet comes and waits. Each
// source reports; Begin makes a controller with a flow that lacks a clock. Mend
// commands a tombstone and returns true; Finish returns the packet.
//
// A call in a phase that has no such arrow is a programmer's error.
// Owner-thread only. Grows with what is reported.
class Succession {
 public:
  enum class Phase : uint8_t { kUp, kDead, kGathering, kMending };
  // Limit of packets that wait; more are lost.
  static constexpr size_t kMaxWaiting = 65'536;

  // Controllers have units below `max_units` and flows below `max_flows`.
  // `counters` must outlive the object.
  Succession(uint32_t max_units, uint32_t max_flows, size_t sources,
             SuccessionCounters& counters)
      : counters_(counters),
        max_units_(max_units),
        max_flows_(max_flows),
        awaited_(sources) {}

  Phase phase() const { return phase_; }
  bool is_up() const { return phase_ == Phase::kUp; }
  // Returns true if a controller exists, which may have something to mend.
  bool has_controller() const {
    return phase_ == Phase::kUp || phase_ == Phase::kMending;
  }
  // Returns the epoch for which reports were asked last; 0 before any.
  uint32_t epoch() const { return epoch_; }
  // Returns the epoch of the controller that is there, or is to be made.
  uint32_t newest_epoch() const {
    return epoch_ + (phase_ == Phase::kDead ? 1 : 0);
  }
  // Returns true if a controller has failed, ever.
  bool begun() const { return epoch_ > 0 || phase_ != Phase::kUp; }

  // The controller fails. Nothing is awaited then.
  void Fail(Controller failed);
  // Reports are void: more has failed since, or the successor.
  void Restart();
  // As Fail, of a controller with this epoch that another process had; `blank`
  // has had no packet.
  void Inherit(uint32_t epoch, Controller blank);
  // The failure was seen. Returns the epoch that reports have to name.
  uint32_t Gather();

  void Await(size_t source);
  // A source has reported.
  void on_reported(size_t source);
  bool awaits(size_t source) const { return awaited_[source] > 0; }
  bool has_all() const { return awaits_ == 0; }
  // Takes reports, from Fail to Begin.
  Rebuild& rebuild() { return *rebuild_; }

  // Makes `controller`, which has had no packet, of the reports.
  void Begin(Controller& controller, Instant now);
  // Commands what is left to do, as far as there is room; returns true if that
  // was all.
  bool Mend(Controller& controller, Instant now, ControllerOut& out);
  // Packets go to the controller again. Returns those that waited, in order.
  std::vector<Arrival> Finish();

  // A packet arrives while the controller is not up. Returns false if it is
  // lost.
  bool Hold(const Arrival& arrival);
  size_t waiting() const { return waiting_.size(); }
  // Whoever holds the packets that wait has failed. Returns these, as lost.
  std::vector<Arrival> LoseWaiting();

  // From Fail to Begin: the controller that failed.
  const Controller& former() const { return *former_; }
  // Returns the controller that knows most: until Begin the one that failed.
  const Controller& known(const Controller& present) const {
    return former_.has_value() ? *former_ : present;
  }

  // Returns the counters, to which the driver adds its own losses.
  SuccessionCounters& counters() { return counters_; }
  const SuccessionCounters& counters() const { return counters_; }

 private:
  SuccessionCounters& counters_;
  uint32_t max_units_;
  uint32_t max_flows_;
  Phase phase_ = Phase::kUp;
  uint32_t epoch_ = 0;
  std::optional<Controller> former_;
  std::optional<Rebuild> rebuild_;
  std::vector<uint8_t> awaited_;  // reports, by source
  size_t awaits_ = 0;             // their sum
  std::vector<Arrival> waiting_;
};

}  // namespace snf

#endif  // SNF_CONTROLLER_REBUILD_SUCCESSION_H_
