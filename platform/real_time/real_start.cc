// SPDX-License-Identifier: Apache-2.0
//
// How a run in real time comes to be: memory, links, threads.
#include <fmt/format.h>
#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <new>
#include <utility>

#include "platform/real_time/real_driver.h"

namespace snf {
namespace {

constexpr uint32_t kFrontCells = 1'024;  // of a link to or from the front
constexpr uint32_t kLeastCells = 512;    // of one between workers
constexpr size_t kReserve = 8'192;       // cells that may wait at the front
// For packets that NFs make.
constexpr BufferPool::Options kWorkerBuffers = {
    .small = 512, .medium = 16, .large = 2};

std::vector<int> OwnCpus() {
  cpu_set_t set;
  std::vector<int> cpus;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
  }
  return cpus;
}

absl::Status PinTo(pthread_t thread, int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  const int error = pthread_setaffinity_np(thread, sizeof set, &set);
  if (error == 0) return absl::OkStatus();
  return absl::UnavailableError(fmt::format("cannot pin a thread to CPU {}: {}",
                                            cpu, std::strerror(error)));
}

// Cells of a link between workers: some messages with the largest record.
uint32_t WorkerCells(uint32_t record_bytes) {
  const size_t message = 1 + Cell::CountFor(record_bytes);
  return std::max(kLeastCells,
                  static_cast<uint32_t>(std::bit_ceil(4 * message)));
}

// Where everything lies; the same order in SizeOf and in Staff.
size_t SizeOf(std::span<const BufferPool::Options> shares, uint32_t workers,
              uint32_t record_bytes) {
  const auto round = RegionCarver::RoundUp;
  size_t bytes = round(BufferPool::BytesFor(shares));
  bytes += (1 + workers) * round(sizeof(Doorbell));
  bytes += 2 * size_t{workers} * round(CellRing::BytesFor(kFrontCells));
  return bytes + size_t{workers} * workers *
                     round(CellRing::BytesFor(WorkerCells(record_bytes)));
}

struct Ends {
  CellRing::Producer producer;
  CellRing::Consumer consumer;
};

// A new ring; `bell` is rung for what is pushed.
Ends NewRing(RegionCarver& carver, uint32_t cells, Doorbell* bell) {
  const std::span<std::byte> memory = carver.Take(CellRing::BytesFor(cells));
  SNF_CHECK(CellRing::Format(memory, cells).ok());
  auto producer = CellRing::Producer::Attach(memory, bell);
  auto consumer = CellRing::Consumer::Attach(memory);
  SNF_CHECK(producer.ok() && consumer.ok());
  return {*producer, *consumer};
}

}  // namespace

absl::StatusOr<std::unique_ptr<RealDriver>> RealDriver::Start(
    const RunOptions& options, const RealOptions& real,
    const PlacementPolicy& policy, const NfSpec& nf, RunObserver* sink) {
  const std::vector<int> cpus = OwnCpus();
  const auto own = static_cast<uint32_t>(std::max<size_t>(cpus.size(), 1));
  const uint32_t threads = real.threads == 0
                               ? std::min(own, RealOptions::kMaxThreads)
                               : real.threads;
  if (threads > RealOptions::kMaxThreads) {
    return absl::InvalidArgumentError(fmt::format(
        "{} threads are more than {}", threads, RealOptions::kMaxThreads));
  }
  if (real.pin && threads > own) {
    return absl::InvalidArgumentError(
        fmt::format("{} threads cannot be pinned to {} CPUs", threads, own));
  }
  const uint32_t workers = std::max(threads - 1, uint32_t{1});
  std::vector<BufferPool::Options> shares(1 + workers, kWorkerBuffers);
  shares[0] = real.buffers;
  const uint32_t record_bytes = nf.create()->schema().record_bytes();
  auto region = SharedRegion::Create(
      {.name = "snf", .bytes = SizeOf(shares, workers, record_bytes)});
  if (!region.ok()) return region.status();
  RegionCarver carver(region->bytes());
  const std::span<std::byte> memory = carver.Take(BufferPool::BytesFor(shares));
  absl::Status status = BufferPool::Format(memory, shares);
  if (!status.ok()) return status;
  auto buffers = BufferPool::Attach(memory, BufferPool::Party{0});
  if (!buffers.ok()) return buffers.status();
  std::unique_ptr<RealDriver> driver(new RealDriver(options, real, policy, nf,
                                                    sink, *std::move(region),
                                                    *std::move(buffers)));
  status = driver->Staff(workers, carver, memory);
  if (!status.ok()) return status;
  if (threads > 1) {
    status = driver->StartThreads(cpus);
    if (!status.ok()) return status;
  } else {
    Crew& crew = driver->crews_.front();
    crew.worker->Join(crew.out, crew.in);
  }
  return driver;
}

absl::Status RealDriver::Staff(uint32_t workers, RegionCarver carver,
                               std::span<std::byte> pool_memory) {
  const auto new_bell = [&carver] {
    return new (carver.Take(sizeof(Doorbell)).data()) Doorbell;
  };
  bell_ = new_bell();
  std::vector<Doorbell*> bells;
  for (uint32_t i = 0; i < workers; ++i) bells.push_back(new_bell());
  const uint32_t record_bytes = schema_.record_bytes();
  std::vector<std::vector<LinkOut>> to_workers(workers);
  std::vector<std::vector<LinkIn>> from_workers(workers);
  for (uint32_t from = 0; from < workers; ++from) {
    for (uint32_t to = 0; to < workers; ++to) {
      const Ends ends = NewRing(carver, WorkerCells(record_bytes), bells[to]);
      to_workers[from].emplace_back(ends.producer, kLeastCells);
      from_workers[to].emplace_back(ends.consumer, record_bytes);
    }
  }
  for (uint32_t i = 0; i < workers; ++i) {
    const Ends down = NewRing(carver, kFrontCells, bells[i]);
    const Ends up = NewRing(carver, kFrontCells, bell_);
    auto buffers = BufferPool::Attach(
        pool_memory, BufferPool::Party{static_cast<uint8_t>(i + 1)});
    if (!buffers.ok()) return buffers.status();
    crews_.push_back(
        {.worker = std::make_unique<RealWorker>(RealWorker::Parts{
             .index = i,
             .workers = workers,
             .options = &options_,
             .nf = &nf_,
             .example = example_.get(),
             .schema = &schema_,
             .clock = &clock_,
             .replicas = controller_.replicas(),
             .is_paced = !real_.unpaced,
             .buffers = *std::move(buffers),
             .bell = bells[i],
             .from_front = LinkIn(down.consumer, sizeof(TableMessage)),
             .to_front = LinkOut(up.producer, kReserve),
             .from_workers = std::move(from_workers[i]),
             .to_workers = std::move(to_workers[i])}),
         .out = LinkOut(down.producer, kReserve),
         .in =
             LinkIn(up.consumer, std::max(sizeof(Alias), sizeof(TableMessage))),
         .thread = {}});
  }
  for (uint32_t unit = 0; unit < options_.controller.max_units; ++unit) {
    link_to_.push_back(&crews_[unit % workers].out);
  }
  return absl::OkStatus();
}

absl::Status RealDriver::StartThreads(const std::vector<int>& cpus) {
  for (size_t i = 0; i < crews_.size(); ++i) {
    Crew& crew = crews_[i];
    crew.thread = std::thread([worker = crew.worker.get()] { worker->Run(); });
    if (!real_.pin) continue;
    absl::Status status = PinTo(crew.thread.native_handle(), cpus[i + 1]);
    if (!status.ok()) return status;
  }
  return real_.pin ? PinTo(pthread_self(), cpus[0]) : absl::OkStatus();
}

}  // namespace snf
