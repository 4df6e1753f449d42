// SPDX-License-Identifier: Apache-2.0
#include "platform/commands/nf/nf_run.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <time.h>

#include <deque>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "platform/process/clean_interrupt.h"
#include "platform/process/nf_guard.h"
#include "runtime/ring/real_clock.h"
#include "traces/merged_reader.h"

namespace snf {
namespace {

using Json = nlohmann::ordered_json;

constexpr uint32_t kMostLoops = 1'000'000;
constexpr uint32_t kLongestQueue = 1 << 20;
constexpr uint32_t kMostInBatch = 1024;
constexpr size_t kLocal = 0;
constexpr size_t kAllRemote = 2;

Nanos CpuTime() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return Nanos{now.tv_sec * 1'000'000'000 + now.tv_nsec};
}

double SecondsOf(Nanos time) { return static_cast<double>(time.ns) / 1e9; }

Json QuantilesOf(const Histogram& histogram) {
  Json json = {{"count", histogram.count()}, {"mean", histogram.mean()}};
  for (const auto& [name, share] :
       {std::pair("p50", 50'000U), std::pair("p75", 75'000U),
        std::pair("p90", 90'000U), std::pair("p99", 99'000U),
        std::pair("p999", 99'900U), std::pair("max", 100'000U)}) {
    json[name] = histogram.Quantile(share);
  }
  return json;
}

Json DropsOf(const PlainProgram& program, uint64_t queue_full) {
  const PlainTotals& totals = program.totals();
  Json json = Json::object();
  for (size_t i = 0; i < kDropReasons; ++i) {
    const uint64_t more =
        static_cast<DropReason>(i) == DropReason::kUnitQueueFull ? queue_full
                                                                 : 0;
    const uint64_t count = totals.dropped[i] + more;
    if (count > 0) json[ToString(static_cast<DropReason>(i))] = count;
  }
  const auto names = program.nf().drop_reasons();
  for (size_t i = 0; i < names.size(); ++i) {
    if (totals.nf_dropped[i] == 0) continue;
    json[fmt::format("nf:{}", names[i])] = totals.nf_dropped[i];
  }
  return json;
}

}  // namespace

NfRun::NfRun()
    : FlagCommand(
          {.summary = "run one NF as a plain program, without the platform",
           .usage = "snf nf run NAME FILE… [--FLAG=VALUE…]",
           .about =
               "Runs captures through an NF as a plain program would, without "
               "units, flowlets and a controller: one thread takes each "
               "packet, finds its flow in a table and calls the NF. Comparing "
               "the figures with snf replay --clock=real shows the cost of the "
               "platform. NAME is written as for --nf of snf replay. Captures "
               "are loaded into memory first. The report is JSON, and its "
               "times are real times."}) {
  AddFlags();
}

void NfRun::AddFlags() {
  flags().Argument("NAME", nf_);
  flags().Arguments("FILE", files_, 1);
  flags().Custom(
      "inside", "PREFIX[,PREFIX…]",
      "addresses on the inside of an NF with two sides. Without this flag, the "
      "sender of a flow's first packet is inside",
      [this](const std::string& text) {
        const auto inside = ParsePrefixes(text);
        if (inside.ok()) inside_ = *inside;
        return inside.status();
      },
      [this] { return FormatPrefixes(inside_); });
  flags().Custom(
      "speed", "SPEED",
      "rate at which packets arrive: max, 1x (with the gaps of the capture), "
      "or such as 2Gbps or 100kpps",
      [this](const std::string& text) {
        const auto speed = ParseSpeed(text);
        if (speed.ok()) speed_ = *speed;
        return speed.status();
      },
      [this] { return FormatSpeed(speed_); });
  flags().Count("loop", loop_, 1, kMostLoops,
                "times that the captures are run, as one long capture");
  flags().Count("queue", queue_, 1, kLongestQueue,
                "most packets that wait in the queue, unless the speed is max; "
                "further packets are dropped");
  flags().Choice("state", state_,
                 {{"local", "all state is in the program"},
                  {"tables",
                   "tables and pools are in a Redis that the run starts; the "
                   "state of flows is in the program"},
                  {"remote", "all state is in such a Redis"}},
                 "where state is kept between packets:");
  flags().Count(
      "batch", batch_, 1, kMostInBatch,
      "packets processed as one batch, whose state is requested together");
}

absl::Status NfRun::Load(LoadedCapture& capture) const {
  auto reader = MergedReader::Open(files_);
  if (!reader.ok()) return reader.status();
  CapturedPacket packet;
  while (true) {
    const ReadResult result = (*reader)->Next(packet);
    if (result == ReadResult::kError) return (*reader)->status();
    if (result != ReadResult::kPacket) break;
    if (absl::Status s = capture.Add(packet); !s.ok()) return s;
  }
  for (const std::string& warning : (*reader)->warnings()) {
    fmt::print(stderr, "{}: {}\n", name(), warning);
  }
  return absl::OkStatus();
}

absl::Status NfRun::Feed(const LoadedCapture& capture, PlainProgram& program,
                         Timing& timing) const {
  constexpr size_t kAhead = 8;
  if (speed_.kind != Speed::Kind::kMax) {
    return FeedPaced(capture, program, timing);
  }
  for (uint32_t round = 0; round < loop_; ++round) {
    for (size_t i = 0; i < capture.size(); ++i) {
      capture.Prefetch(i + kAhead);
      absl::Status status = program.Take(capture.Packet(i, round));
      if (!status.ok()) return status;
    }
  }
  return program.Flush();
}

// Feeds packets at their times; while one is processed, the next ones queue, as
// in the ring of a NIC.
absl::Status NfRun::FeedPaced(const LoadedCapture& capture,
                              PlainProgram& program, Timing& timing) const {
  struct Arrived {
    uint64_t number;
    Instant due;
  };
  const auto packet_of = [&](uint64_t number) {
    return capture.Packet(number % capture.size(),
                          static_cast<uint32_t>(number / capture.size()));
  };
  const uint64_t total = capture.size() * uint64_t{loop_};
  if (total == 0) return absl::OkStatus();
  Pace pace(speed_);
  RealClock clock;
  clock.Start(capture.Packet(0, 0).time);
  std::deque<Arrived> queue;
  std::vector<Instant> batch;
  uint64_t next = 0;
  Instant next_due = pace.Due(packet_of(0).time, packet_of(0).original_bytes);
  while (next < total || !queue.empty()) {
    for (; next < total && next_due <= clock.Now();) {
      if (queue.size() < queue_) {
        queue.push_back({next, next_due});
      } else {
        ++timing.queue_full;
      }
      if (++next == total) break;
      const CapturedPacket packet = packet_of(next);
      next_due = pace.Due(packet.time, packet.original_bytes);
    }
    if (queue.empty()) continue;
    // Takes the queued packets, up to a batch; a batch does not wait to be
    // full.
    for (uint32_t i = 0; i < batch_ && !queue.empty(); ++i) {
      batch.push_back(queue.front().due);
      absl::Status status = program.Take(packet_of(queue.front().number));
      if (!status.ok()) return status;
      queue.pop_front();
    }
    if (absl::Status s = program.Flush(); !s.ok()) return s;
    const Instant now = clock.Now();
    for (const Instant due : batch) timing.latency_ns.Record((now - due).ns);
    batch.clear();
  }
  return absl::OkStatus();
}

std::string NfRun::ReportOf(const PlainProgram& program, const Timing& timing,
                            const RemoteState* remote) const {
  const PlainTotals& totals = program.totals();
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const uint64_t packets = totals.packets_in + timing.queue_full;
  const double wall_s = SecondsOf(timing.wall);
  Json json = {
      {"nf", nf_},
      {"flags", Json::object()},
      {"packets_in", packets},
      {"packets_released", totals.packets_released},
      {"packets_consumed", totals.packets_consumed},
      {"packets_passed_through", totals.packets_passed_through},
      {"packets_emitted", totals.packets_emitted},
      {"packets_dropped", DropsOf(program, timing.queue_full)},
      {"flows", totals.flows},
      {"digest", fmt::format("{:016x}", program.digest())},
      {"wall_s", wall_s},
      {"packets_per_s",
       wall_s > 0 ? static_cast<double>(packets) / wall_s : 0.0},
      {"memory_bytes", uint64_t{1024} * static_cast<uint64_t>(usage.ru_maxrss)},
      {"store_requests", remote == nullptr ? 0 : remote->requests()}};
  for (const auto& [flag, value] : flags().values()) {
    json["flags"][flag] = value;
  }
  if (speed_.kind == Speed::Kind::kMax) {
    json["cpu_s"] = SecondsOf(timing.cpu);
    json["cpu_ns_a_packet"] =
        static_cast<double>(timing.cpu.ns) / static_cast<double>(packets);
  } else {  // it waits busily: all of the time is CPU time
    json["latency_ns"] = QuantilesOf(timing.latency_ns);
  }
  return json.dump(2, ' ', false, Json::error_handler_t::replace);
}

absl::Status NfRun::Run() {
  EndCleanlyWhenInterrupted(name());
  const auto nf = NfSpec::Parse(nf_);
  if (!nf.ok()) return nf.status();
  if (absl::Status s = nf->check(); !s.ok()) return s;
  LoadedCapture capture(HalfOfMemory());
  if (absl::Status s = Load(capture); !s.ok()) return s;
  std::unique_ptr<RemoteState> remote;
  if (state_ != kLocal) {
    auto started = RemoteState::Start(state_ == kAllRemote);
    if (!started.ok()) return started.status();
    remote = *std::move(started);
  }
  GuardNfCalls(name());
  PlainProgram program(*nf, {.inside = inside_, .batch = batch_}, remote.get());
  Timing timing;
  const Instant begin = RealClock::Monotonic();
  const Nanos cpu = CpuTime();
  if (absl::Status s = Feed(capture, program, timing); !s.ok()) return s;
  timing.cpu = Nanos{CpuTime().ns - cpu.ns};
  timing.wall = RealClock::Monotonic() - begin;
  if (absl::Status s = program.Finish(); !s.ok()) return s;
  fmt::print("{}\n", ReportOf(program, timing, remote.get()));
  return absl::OkStatus();
}

}  // namespace snf
