// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_DRIVERS_REAL_CLUSTER_SHARED_WORKERS_H_
#define SNF_PLATFORM_DRIVERS_REAL_CLUSTER_SHARED_WORKERS_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "base/messages/lease_messages.h"
#include "platform/drivers/loops/unit_threads.h"
#include "platform/drivers/real_cluster/lease_mail.h"
#include "platform/drivers/real_cluster/shared_units.h"
#include "platform/run/run.h"

namespace snf {

// Theory of operation. The threads that run the units which controllers of a
// run in real time share. On each thread the loops of all controllers take
// turns (SharedUnits); between turns the thread reads the mail for its units,
// and sends their answers.
//
// Thread-safe, but for Start and Stop.
class SharedWorkers final : public LoopHost {
 public:
  // Makes the turns of all controllers and threads (TurnsOf).
  SharedWorkers(uint32_t threads, uint32_t controllers);
  ~SharedWorkers() override { Stop(); }
  SharedWorkers(const SharedWorkers&) = delete;
  SharedWorkers& operator=(const SharedWorkers&) = delete;

  std::vector<UnitMail*> mail();
  // Starts the threads, whose answers go to the manager.
  void Start(ManagerMail& manager);
  void Stop();
  // Adds the counts of all threads, after Stop.
  void AddFigures(ClusterFigures& figures) const;

  uint32_t threads() const override {
    return static_cast<uint32_t>(workers_.size());
  }
  Doorbell* const* bells() const override { return bells_.data(); }
  UnitTurns& TurnsOf(uint8_t controller, uint32_t thread) override {
    return workers_[thread].units.TurnsOf(ControllerId{controller});
  }
  void Add(uint8_t controller, uint32_t thread, UnitLoop& loop,
           const NfCallNames& names) override;
  void Remove(uint8_t controller, uint32_t thread) override;

 private:
  struct Entry {
    uint8_t controller;
    UnitLoop* loop;
    const NfCallNames* names;
  };
  struct Worker {
    Doorbell bell{};
    UnitMail mail{&bell};
    SharedUnits units{};
    std::mutex mutex{};
    std::condition_variable taken{};
    // The loops that the thread is to run, and whether it has seen them.
    std::vector<Entry> loops ABSL_GUARDED_BY(mutex){};
    bool is_seen ABSL_GUARDED_BY(mutex) = true;
    std::atomic<bool> has_changed{false};
    std::atomic<bool> stops{false};
    std::thread thread{};
  };

  static void Run(Worker& worker, ManagerMail& manager);
  static void TakeChange(Worker& worker, std::vector<Entry>& loops);
  static bool Turn(Worker& worker, const std::vector<Entry>& loops,
                   ManagerMail& manager);
  static void Wait(Worker& worker, const std::vector<Entry>& loops);

  std::deque<Worker> workers_;
  std::vector<Doorbell*> bells_;
};

}  // namespace snf

#endif  // SNF_PLATFORM_DRIVERS_REAL_CLUSTER_SHARED_WORKERS_H_
