// SPDX-License-Identifier: Apache-2.0
#include "platform/drivers/real_cluster/shared_workers.h"

#include <algorithm>
#include <utility>

#include "platform/process/nf_guard.h"
#include "runtime/sdk/nf_call.h"

namespace snf {

SharedWorkers::SharedWorkers(uint32_t threads, uint32_t controllers) {
  for (uint32_t i = 0; i < threads; ++i) {
    Worker& worker = workers_.emplace_back();
    bells_.push_back(&worker.bell);
    for (uint32_t c = 0; c < controllers; ++c) {
      worker.units.TurnsOf(ControllerId{static_cast<uint8_t>(c)});
    }
  }
}

std::vector<UnitMail*> SharedWorkers::mail() {
  std::vector<UnitMail*> all;
  for (Worker& worker : workers_) all.push_back(&worker.mail);
  return all;
}

void SharedWorkers::Start(ManagerMail& manager) {
  for (Worker& worker : workers_) {
    worker.thread = std::thread([&worker, &manager] { Run(worker, manager); });
  }
}

void SharedWorkers::Stop() {
  for (Worker& worker : workers_) {
    worker.stops.store(true, std::memory_order_seq_cst);
    worker.bell.Ring();
    if (worker.thread.joinable()) worker.thread.join();
  }
}

void SharedWorkers::AddFigures(ClusterFigures& figures) const {
  for (const Worker& worker : workers_) {
    figures.refused += worker.units.refused();
    figures.overpromised += worker.units.overpromised();
  }
}

void SharedWorkers::Add(uint8_t controller, uint32_t thread, UnitLoop& loop,
                        const NfCallNames& names) {
  Worker& worker = workers_[thread];
  {
    const std::lock_guard lock(worker.mutex);
    worker.loops.push_back({controller, &loop, &names});
    worker.is_seen = false;
    worker.has_changed.store(true, std::memory_order_seq_cst);
  }
  worker.bell.Ring();
}

void SharedWorkers::Remove(uint8_t controller, uint32_t thread) {
  Worker& worker = workers_[thread];
  std::unique_lock lock(worker.mutex);
  const auto removed = std::erase_if(worker.loops, [&](const Entry& entry) {
    return entry.controller == controller;
  });
  if (removed == 0 || !worker.thread.joinable()) return;
  worker.is_seen = false;
  worker.has_changed.store(true, std::memory_order_seq_cst);
  worker.bell.Ring();
  worker.taken.wait(lock, [&] { return worker.is_seen; });
}

// --- The thread. -------------------------------------------------------------

void SharedWorkers::Run(Worker& worker, ManagerMail& manager) {
  GuardThread();
  std::vector<Entry> loops;
  while (!worker.stops.load(std::memory_order_relaxed)) {
    if (worker.has_changed.load(std::memory_order_acquire)) [[unlikely]]
      TakeChange(worker, loops);
    if (!Turn(worker, loops, manager)) Wait(worker, loops);
  }
}

void SharedWorkers::TakeChange(Worker& worker, std::vector<Entry>& loops) {
  nf_call.names = nullptr;
  const std::lock_guard lock(worker.mutex);
  for (const Entry& entry : loops) {
    const bool stays = std::ranges::any_of(
        worker.loops,
        [&](const Entry& each) { return each.loop == entry.loop; });
    if (!stays) worker.units.Leave(ControllerId{entry.controller});
  }
  loops = worker.loops;
  worker.has_changed.store(false, std::memory_order_relaxed);
  worker.is_seen = true;
  worker.taken.notify_all();
}

bool SharedWorkers::Turn(Worker& worker, const std::vector<Entry>& loops,
                         ManagerMail& manager) {
  bool did = false;
  for (const ToUnit& message : worker.mail.Take()) {
    worker.units.Handle(message);
    did = true;
  }
  for (const Entry& entry : loops) {
    nf_call.names = entry.names;
    did |= entry.loop->Turn();
  }
  for (ToManager& answer : worker.units.TakeAnswers()) {
    manager.Put(std::move(answer));
  }
  return did;
}

void SharedWorkers::Wait(Worker& worker, const std::vector<Entry>& loops) {
  Nanos timeout = Seconds(1);
  for (const Entry& entry : loops) {
    timeout = std::min(timeout, entry.loop->MayWait());
  }
  constexpr Nanos kShort = Microseconds(50);
  if (timeout < kShort) return;
  const auto has_work = [&] {
    return worker.mail.has_any() ||
           worker.stops.load(std::memory_order_seq_cst) ||
           worker.has_changed.load(std::memory_order_seq_cst) ||
           std::ranges::any_of(
               loops, [](const Entry& e) { return e.loop->has_mail(); });
  };
  worker.bell.Wait(has_work, timeout);
}

}  // namespace snf
