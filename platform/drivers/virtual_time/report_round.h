// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_DRIVERS_VIRTUAL_TIME_REPORT_ROUND_H_
#define SNF_PLATFORM_DRIVERS_VIRTUAL_TIME_REPORT_ROUND_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/ids.h"
#include "base/messages/messages.h"
#include "base/messages/report_messages.h"
#include "base/rng.h"
#include "base/time.h"
#include "controller/core/controller.h"
#include "controller/rebuild/succession.h"
#include "platform/drivers/virtual_time/kept_by_units.h"
#include "platform/drivers/virtual_time/virtual_event.h"
#include "platform/drivers/virtual_time/virtual_network.h"
#include "platform/drivers/virtual_time/virtual_units.h"
#include "platform/run/observers.h"
#include "platform/run/run.h"

namespace snf {

// Theory of operation. How a successor of a controller in virtual time hears
// what units and their loggers have (proto/protocol.md F9): asks each of them,
// makes their reports, and gives these to Succession.
//
// Messages between units name the epoch of the controller to which their sender
// has reported last. A unit that gets the present epoch before it has reported
// does so first (U14), and so does a unit that hears what its logger has taken,
// and the logger of a dead unit that gets the unit's messages. Otherwise two
// reports could contradict each other. Unit 0 has a copy and unit 1 waits for
// it: if unit 1 reported, then ran the clock, and unit 0 forgot its copy and
// reported, no report would have the copy.
//
// If a unit's death is known, its logger is sealed and reports in the unit's
// place. A logger that was sealed earlier reports beside its unit. The
// successor waits for a dead unit until the death is noticed.
//
// Owner-thread only.
class ReportRound {
 public:
  using Event = VirtualEvent;

  // An event that waits for the successor; the alias is that of a kSendAlias.
  struct Held {
    Event event;
    Alias alias;
  };
  // Reaches the loggers of units.
  class Loggers {
   public:
    // The unit's logger is to seal the unit, or to repeat its report.
    virtual void SealLogger(const Seal& seal) = 0;

   protected:
    ~Loggers() = default;
  };

  // All references must outlive the object. `controller` is the blank
  // successor. Open requests go behind the reports into `held`.
  ReportRound(const RunOptions& options, Loggers& loggers,
              Controller& controller, VirtualUnits& units,
              VirtualNetwork& network, Observers& observers, KeptByUnits& kept,
              Succession& succession, std::vector<Held>& held, Rng& rng);

  // Asks all sources of reports; later ones belong to Succession's newest
  // epoch.
  void Begin();
  // The successor has died: all reports are void.
  void Forget();

  // Takes queries and reports on their way. Returns true if a report is
  // complete.
  void on_unit_query(UnitId unit);
  void on_logger_query(UnitId unit);
  bool on_report(uint64_t number);
  bool on_logger_report(const DoneAnswer& answer);
  // The death of a unit that has not reported is noticed.
  bool on_failure(UnitId unit);
  // Makes the reports that have to come before the event (U14).
  void MakeReportsBefore(const Event& event);

  // Returns true if the unit's next words are for the successor.
  bool has_reported(UnitId unit) const {
    return of_units_[value(unit)].has_reported;
  }
  // Returns true if the unit's report has come.
  bool is_heard(UnitId unit) const { return of_units_[value(unit)].is_heard; }

 private:
  struct OfLogger {
    bool is_awaited = false;    // its report
    bool has_reported = false;  // its words are for the successor
  };
  struct OfUnit {
    bool is_asked = false;      // to report
    bool has_reported = false;  // its words are for the successor
    bool is_heard = false;      // its report has come
    OfLogger logger;
  };
  // The report of a unit, on its way.
  struct UnitReports {
    UnitReport unit;
    std::vector<FlowName> names;
    std::vector<FlowReport> flows;
    std::vector<PacketReport> packets;
    std::vector<GrantReport> grants;
  };
  class Collector;

  // The longest time that a query takes on top of a hop; with chaos, at least
  // that of a message between units.
  static constexpr int64_t kQueryJitterNs = 20'000;

  OfUnit& Of(UnitId unit) { return of_units_[value(unit)]; }
  // Sources of reports.
  static size_t SourceOf(UnitId unit) { return 2 * size_t{value(unit)}; }
  static size_t LoggerSourceOf(UnitId unit) { return SourceOf(unit) + 1; }
  uint16_t epoch() const {
    return static_cast<uint16_t>(succession_.newest_epoch());
  }
  bool is_gathering() const {
    return succession_.phase() == Succession::Phase::kGathering;
  }
  void Await(size_t source, Event query);
  void AskUnit(UnitId unit);
  void AskLogger(UnitId unit);
  bool MustReportFirst(const Event& event) const;
  bool MustLoggerReportFirst(const Event& event) const;
  void MakeReport(UnitId unit);
  void MakeLoggerReport(UnitId unit);
  UnitReport StandingOf(VirtualUnit& shell);

  const RunOptions& options_;
  Loggers& loggers_;
  Controller& controller_;
  VirtualUnits& units_;
  VirtualNetwork& network_;
  Observers& observers_;
  KeptByUnits& kept_;
  Succession& succession_;
  std::vector<Held>& held_;
  Rng& rng_;
  std::vector<OfUnit> of_units_;  // by number
  std::vector<UnitReports> reports_;
};

}  // namespace snf

#endif  // SNF_PLATFORM_DRIVERS_VIRTUAL_TIME_REPORT_ROUND_H_
