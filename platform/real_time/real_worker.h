// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_REAL_TIME_REAL_WORKER_H_
#define SNF_PLATFORM_REAL_TIME_REAL_WORKER_H_

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/histogram.h"
#include "base/ids.h"
#include "base/time.h"
#include "controller/core/commands.h"
#include "platform/process/real_clock.h"
#include "platform/real_time/paced_service.h"
#include "platform/real_time/thread_link.h"
#include "platform/run/run.h"
#include "platform/run/service_model.h"
#include "platform/run/table_ends.h"
#include "runtime/core/unit.h"
#include "runtime/ring/buffer_pool.h"
#include "runtime/ring/doorbell.h"
#include "runtime/sdk/nf.h"
#include "runtime/sdk/nf_spec.h"
#include "runtime/sdk/state_schema.h"

namespace snf {

// Theory of operation. A part of the units of a real-time run, and what serves
// them: the worker of index i among n has the units i, n + i, 2n + i … It gets
// the controller's commands from the front (real_driver.h) and messages about
// state from the other workers, and sends what its units command.
//
//   front ─ControllerCommand─►  ┌────────┐ ─UnitCommand─► front
//   worker … ─UnitCommand────►  │ units  │ ─UnitCommand─► worker …
//                               └────────┘
//
// It works in turns. In a turn it takes a burst from each link, reads the
// clock once, lets timers that are due run, and serves each unit that has
// packets, kServedInATurn at the most. Unless units are to be as fast as they
// can, one is as fast as the service model says: what a packet causes happens
// when its service ends.
//
// A message for which another worker's link has no room is lost, and counted:
// units repeat what matters. What goes to the front stays until there is room,
// and no turn begins before it is gone.
//
// Owner-thread only, but for what says otherwise.
class RealWorker {
 public:
  struct Parts {
    uint32_t index = 0;
    uint32_t workers = 1;
    const RunOptions* options = nullptr;  // outlives the worker, as all here
    const NfSpec* nf = nullptr;
    const NetworkFunction* example = nullptr;
    const StateSchema* schema = nullptr;
    const RealClock* clock = nullptr;
    uint32_t replicas = 0;  // Controller::replicas
    bool is_paced = true;   // as the service model says
    BufferPool buffers;     // of this party
    Doorbell* bell;         // this worker's own
    LinkIn from_front;
    LinkOut to_front;
    std::vector<LinkIn> from_workers;  // by index, the own among them
    std::vector<LinkOut> to_workers;
  };
  explicit RealWorker(Parts parts);

  // How long the payload is of a message to the front that begins like this.
  static size_t PayloadBytesToFront(const Cell& cell);

  // Takes turns until Stop; sleeps where there is nothing to do.
  void Run();
  // Any thread; Run then returns soon.
  void Stop();
  // Any thread: the clock has skipped.
  void Wake() { parts_.bell->Ring(); }

  // Where the front's thread takes this worker's turns: its ends of the links,
  // which stay where they are. Before anything is sent.
  void Join(LinkOut& from_front, LinkIn& to_front) {
    parts_.from_front.Join(from_front);
    to_front.Join(parts_.to_front);
  }
  // One turn: whether anything was done.
  bool Turn();

  // What the front wants to know to see that nothing is under way. Any thread:
  // messages received are handled, and all that this caused is in the number of
  // those sent. Read received of all workers first.
  struct Progress {
    std::atomic<uint64_t> received{0};
    std::atomic<uint64_t> sent{0};
    std::atomic<int64_t> next_due{Instant::max().ns};
    // For the eye only: as in StateFigures.
    std::atomic<uint64_t> seamless{0};
    std::atomic<uint64_t> pulled{0};
  };
  const Progress& progress() const { return progress_; }

  // What came of it; when Run has returned.
  void AddTo(RunResult& result) const;
  // Null for a unit that is not this worker's.
  const UnitTables* tables(UnitId unit) const {
    const bool own = value(unit) % parts_.workers == parts_.index;
    return own ? &shells_[value(unit) / parts_.workers].tables : nullptr;
  }
  uint32_t buffers_in_use() const { return parts_.buffers.in_use(); }

 private:
  static constexpr uint32_t kServedInATurn = 32;

  struct UnitShell {
    Unit unit;
    std::unique_ptr<NetworkFunction> nf;
    UnitTables tables;
    bool ready = false;
    bool is_listed = false;  // in runnable_
    PacedService service{};  // where units are paced
  };

  UnitShell& Shell(UnitId unit) { return *shell_of_[value(unit)]; }
  static Instant NextTimer(const UnitShell& shell) {
    return std::min(shell.unit.next_wakeup(), shell.tables.next_wakeup());
  }
  // After all that may have armed or disarmed one.
  void NoteTimer(const UnitShell& shell) {
    Instant& timer = timers_[static_cast<size_t>(&shell - shells_.data())];
    timer = NextTimer(shell);
    next_timer_ = std::min(next_timer_, timer);
  }
  bool Receive();
  void Handle(const ControllerCommand& command);
  [[gnu::noinline]] void HandleOther(const ControllerCommand& command);
  void Handle(const UnitCommand& message, std::span<const std::byte> record);
  void Handle(const TableMessage& message);
  void SendToHome(const TableMessage& message);
  void SendStopped(UnitId unit);
  void AfterCall(UnitShell& shell);
  void List(UnitShell& shell);
  bool ServeAll();
  bool Serve(UnitShell& shell);
  bool Begin(UnitShell& shell);
  void Finish(UnitShell& shell);
  void RunTimers();
  void RunTimers(UnitShell& shell);
  void ExecuteAll(UnitShell& shell);
  void Execute(UnitShell& shell, const UnitCommand& command);
  void SendToUnit(const UnitCommand& command,
                  std::span<const std::byte> record);
  bool Flush();
  void Publish();

  Parts parts_;
  std::optional<ServiceModel> service_;  // absent: as fast as can be
  std::vector<UnitShell> shells_;        // by unit / workers
  std::vector<UnitShell*> shell_of_;     // by unit; null: not this worker's
  std::vector<Instant> timers_;          // of shells_: the earliest
  std::vector<UnitShell*> runnable_;
  Instant now_ = Instant::min();
  Instant next_timer_ = Instant::max();  // the earliest of all units
  Instant next_service_end_ = Instant::max();
  UnitOut out_;
  StateFigures state_;
  uint32_t held_packets_max_ = 0;
  uint64_t sleeps_ = 0;
  Progress progress_;
  std::atomic<bool> stop_{false};
};

}  // namespace snf

#endif  // SNF_PLATFORM_REAL_TIME_REAL_WORKER_H_
