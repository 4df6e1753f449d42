// SPDX-License-Identifier: Apache-2.0
#include "platform/drivers/loops/unit_threads.h"

#include <fmt/format.h>
#include <sched.h>

#include <cstring>
#include <utility>

#include "platform/process/nf_guard.h"

namespace snf {

absl::Status PinThread(pthread_t thread, int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  const int error = pthread_setaffinity_np(thread, sizeof set, &set);
  if (error == 0) return absl::OkStatus();
  return absl::UnavailableError(fmt::format("cannot pin a thread to CPU {}: {}",
                                            cpu, std::strerror(error)));
}

UnitLoopOptions UnitThreads::OptionsOf(size_t loop) const {
  UnitLoopOptions options = options_.loop;
  options.index = static_cast<uint32_t>(loop);
  return options;
}

std::unique_ptr<HostStore> UnitThreads::HostOf(uint32_t loop) const {
  if (host_memory_.empty()) return nullptr;
  const size_t part = HostStore::PartBytes(host_of_);
  return std::make_unique<HostStore>(
      host_of_, loop, host_memory_.subspan(loop * part, part), host_memory_);
}

absl::Status UnitThreads::CreateLoops(
    const NfSpec& nf, std::span<std::byte> memory,
    const LoopRegion::Options& of, RealClock& clock, WireFaults& faults,
    std::span<const std::unique_ptr<StateStore>> stores,
    std::function<std::string(PacketHandle)> describe) {
  std::vector<const CallMark*> marks;
  for (uint32_t i = 0; i < of.loops; ++i) {
    auto side = LoopRegion::Attach(memory, of, i, faults);
    if (!side.ok()) return side.status();
    if (!stores.empty()) side->links.store = stores[i].get();
    if (options_.host != nullptr) {
      side->links.turns = &options_.host->TurnsOf(options_.controller, i);
    }
    std::unique_ptr<HostStore> host = HostOf(i);
    side->links.host = host.get();
    workers_.push_back({.host = std::move(host),
                        .loop = std::make_unique<UnitLoop>(
                            OptionsOf(i), nf, clock, std::move(side->links)),
                        .thread = {}});
    marks.push_back(&workers_.back().loop->call_mark());
  }
  watchdog_.emplace(NfWatchdog::Options{.nf = options_.nf,
                                        .patience = options_.nf_patience,
                                        .marks = std::move(marks),
                                        .describe = std::move(describe)});
  return absl::OkStatus();
}

absl::Status UnitThreads::CreateLoggers(const NfSpec& nf,
                                        std::span<std::byte> memory,
                                        std::span<std::byte> own,
                                        const LoopRegion::Options& of,
                                        const LoggerLoopOptions& loggers,
                                        WireFaults& faults) {
  auto side = LoopRegion::AttachLoggers(std::span(&memory, 1), own, of, faults);
  if (!side.ok()) return side.status();
  loggers_.emplace(loggers, nf, *std::move(side));
  return absl::OkStatus();
}

absl::Status UnitThreads::Start(const std::vector<int>& cpus,
                                ControllerLinks::UnitLoopEnds& ends) {
  if (options_.threads == 1) {
    workers_.front().loop->Join(ends.out, ends.in);
    nf_call.names = &names_;
    return absl::OkStatus();
  }
  if (options_.host != nullptr) {
    for (uint32_t i = 0; i < workers_.size(); ++i) {
      options_.host->Add(options_.controller, i, *workers_[i].loop, names_);
    }
    return absl::OkStatus();
  }
  for (size_t i = 0; i < workers_.size(); ++i) {
    Worker& worker = workers_[i];
    worker.thread = std::thread([this, loop = worker.loop.get()] {
      GuardThread();
      nf_call.names = &names_;
      loop->Run([this] { return shares_loggers() && loggers_->Turn(); });
    });
    if (!options_.pin) continue;
    absl::Status status = PinThread(worker.thread.native_handle(), cpus[i + 1]);
    if (!status.ok()) return status;
  }
  if (absl::Status s = StartLoggers(cpus); !s.ok()) return s;
  if (!options_.pin || !options_.pins_caller) return absl::OkStatus();
  return PinThread(pthread_self(), cpus[0]);
}

absl::Status UnitThreads::StartLoggers(const std::vector<int>& cpus) {
  if (!loggers_.has_value() || shares_loggers()) return absl::OkStatus();
  std::thread& thread = loggers_->StartThread();
  if (!options_.pin) return absl::OkStatus();
  return PinThread(thread.native_handle(), cpus[options_.threads - 1]);
}

void UnitThreads::StopLoops() {
  if (options_.host != nullptr) {
    for (uint32_t i = 0; i < workers_.size(); ++i) {
      options_.host->Remove(options_.controller, i);
    }
    return;
  }
  for (Worker& worker : workers_) {
    if (worker.thread.joinable()) worker.thread.join();
  }
}

void UnitThreads::StopLoggers() {
  if (loggers_.has_value()) loggers_->Stop();
}

void UnitThreads::AddResults(std::vector<LoopResults>& results) const {
  for (size_t i = 0; i < workers_.size(); ++i) {
    results.push_back(LoopResults::Of(*workers_[i].loop, OptionsOf(i)));
  }
}

void UnitThreads::CheckLoggers(
    size_t pools,
    absl::FunctionRef<void(uint32_t unit, const std::string&)> differs) {
  if (!loggers_.has_value()) return;
  for (uint32_t i = 0; i < options_.loop.max_units; ++i) {
    const Unit& unit = workers_[i % workers_.size()].loop->unit(
        UnitId{static_cast<uint16_t>(i)});
    const auto difference = loggers_->DifferenceFrom(unit, pools);
    if (difference.has_value()) differs(i, *difference);
  }
}

uint32_t UnitThreads::buffers_in_use() const {
  uint32_t sum = 0;
  for (const Worker& worker : workers_) sum += worker.loop->buffers_in_use();
  return sum;
}

}  // namespace snf
