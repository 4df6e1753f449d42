// SPDX-License-Identifier: Apache-2.0
#include "platform/commands/nf/nf_run.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <time.h>

#include <deque>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/text/stderr_line.h"
#include "platform/commands/nf/proxied_chain.h"
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

constexpr size_t kByCalls = 0;
constexpr size_t kByGlobalProxy = 2;

// Counts this process, and its children that have ended.
Nanos CpuTime() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  rusage ended{};
  getrusage(RUSAGE_CHILDREN, &ended);
  const auto of = [](const timeval& time) {
    return time.tv_sec * 1'000'000'000 + time.tv_usec * 1'000;
  };
  return Nanos{now.tv_sec * 1'000'000'000 + now.tv_nsec + of(ended.ru_utime) +
               of(ended.ru_stime)};
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

Json DropsOf(const PlainTotals& totals, const NfSpec& nf, uint64_t queue_full) {
  Json json = Json::object();
  for (size_t i = 0; i < kDropReasons; ++i) {
    const uint64_t more =
        static_cast<DropReason>(i) == DropReason::kUnitQueueFull ? queue_full
                                                                 : 0;
    const uint64_t count = totals.dropped[i] + more;
    if (count > 0) json[ToString(static_cast<DropReason>(i))] = count;
  }
  const auto example = nf.create();
  const auto names = example->drop_reasons();
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
      "packets processed as one batch, whose state is requested together; with "
      "--chain=local or global, packets that go to the proxy together");
  flags().Choice(
      "chain", chain_,
      {{"calls", "all in this thread, one call after the other"},
       {"local",
        "each NF is a process of its own, and a proxy carries batches from "
        "each to the next one by unix sockets; all share one CPU"},
       {"global", "the same, by TCP"}},
      "how the NFs of a chain follow each other:");
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
    PrintOnStderr("{}: {}\n", name(), warning);
  }
  return absl::OkStatus();
}

absl::Status NfRun::FeedAll(
    const LoadedCapture& capture,
    const std::function<absl::Status(const CapturedPacket&)>& take) const {
  constexpr size_t kAhead = 8;
  for (uint32_t round = 0; round < loop_; ++round) {
    for (size_t i = 0; i < capture.size(); ++i) {
      capture.Prefetch(i + kAhead);
      absl::Status status = take(capture.Packet(i, round));
      if (!status.ok()) return status;
    }
  }
  return absl::OkStatus();
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

std::string NfRun::ReportOf(const Outcome& outcome, const NfSpec& nf,
                            const Timing& timing) const {
  const PlainTotals& totals = outcome.totals;
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
      {"packets_dropped", DropsOf(totals, nf, timing.queue_full)},
      {"flows", totals.flows},
      {"digest", fmt::format("{:016x}", outcome.digest)},
      {"wall_s", wall_s},
      {"packets_per_s",
       wall_s > 0 ? static_cast<double>(packets) / wall_s : 0.0},
      {"memory_bytes", uint64_t{1024} * static_cast<uint64_t>(usage.ru_maxrss)},
      {"store_requests", outcome.store_requests}};
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

// A store calls no code of an NF.
absl::Status NfRun::CheckTables(const NfSpec& nf) const {
  const auto example = nf.create();
  for (const TableCopy* const table : TablesOf(*example)) {
    if (!table->shape().has_events()) continue;
    return absl::InvalidArgumentError(fmt::format(
        "--state={} has no tables with a timer, a trigger or keys that expire, "
        "as \"{}\" of {} is",
        state_ == kAllRemote ? "remote" : "tables", table->shape().name,
        nf.text()));
  }
  return absl::OkStatus();
}

absl::StatusOr<NfRun::Outcome> NfRun::RunAlone(const NfSpec& nf,
                                               const LoadedCapture& capture,
                                               Timing& timing) const {
  std::unique_ptr<RemoteState> remote;
  if (state_ != kLocal) {
    if (absl::Status s = CheckTables(nf); !s.ok()) return s;
    auto started = RemoteState::Start(state_ == kAllRemote);
    if (!started.ok()) return started.status();
    remote = *std::move(started);
  }
  GuardNfCalls(name());
  PlainProgram program(nf, {.inside = inside_, .batch = batch_}, remote.get());
  const Instant begin = RealClock::Monotonic();
  const Nanos cpu = CpuTime();
  absl::Status status;
  if (speed_.kind == Speed::Kind::kMax) {
    status = FeedAll(capture, [&program](const CapturedPacket& packet) {
      return program.Take(packet);
    });
    if (status.ok()) status = program.Flush();
  } else {
    status = FeedPaced(capture, program, timing);
  }
  if (!status.ok()) return status;
  timing.cpu = Nanos{CpuTime().ns - cpu.ns};
  timing.wall = RealClock::Monotonic() - begin;
  if (absl::Status s = program.Finish(); !s.ok()) return s;
  return Outcome{.totals = program.totals(),
                 .digest = program.digest(),
                 .store_requests = remote == nullptr ? 0 : remote->requests()};
}

// Returns the NFs of a chain without braces.
absl::StatusOr<std::vector<NfSpec>> NfRun::NfsForProxies(
    const NfSpec& nf) const {
  std::map<std::string, std::string> given;
  for (const auto& [flag, value] : flags().values()) given[flag] = value;
  const auto bad = [&given](const std::string& why) {
    return absl::InvalidArgumentError(
        fmt::format("--chain={} needs {}", given["chain"], why));
  };
  std::vector<NfSpec> nfs;
  std::string line;
  for (const NfSpec::GivenNf& one : nf.nfs()) {
    nfs.emplace_back(*one.nf);
    for (const auto& [key, value] : one.options) {
      absl::Status status = nfs.back().SetOption(one.nf->name, key, value);
      if (!status.ok()) return status;
    }
    line += (line.empty() ? "" : " | ") + nfs.back().text();
  }
  if (nfs.size() < 2) {
    return bad(fmt::format("two NFs at least, not {} alone", nf.text()));
  }
  // Braces stand between the NFs; an option may have braces of its own.
  if (!nf.text().ends_with(line)) {
    return bad(fmt::format("NFs without braces, not {}", nf.text()));
  }
  if (state_ != kLocal) {
    return bad(fmt::format("--state=local, not {}", given["state"]));
  }
  if (speed_.kind != Speed::Kind::kMax) {
    return bad(fmt::format("--speed=max, not {}", given["speed"]));
  }
  return nfs;
}

absl::StatusOr<NfRun::Outcome> NfRun::RunByProxies(const NfSpec& nf,
                                                   const LoadedCapture& capture,
                                                   Timing& timing) const {
  const auto nfs = NfsForProxies(nf);
  if (!nfs.ok()) return nfs.status();
  GuardNfCalls(name());
  auto chain = ProxiedChain::Start(
      *nfs, {.proxy = chain_ == kByGlobalProxy ? ProxiedChain::Proxy::kGlobal
                                               : ProxiedChain::Proxy::kLocal,
             .batch = batch_,
             .nf = {.inside = inside_}});
  if (!chain.ok()) return chain.status();
  // Making processes and NFs is no work of the proxies.
  const Nanos cpu{CpuTime().ns + (*chain)->cpu_before().ns};
  const Instant begin = RealClock::Monotonic();
  absl::Status status =
      FeedAll(capture, [&chain](const CapturedPacket& packet) {
        return (*chain)->Take(packet);
      });
  if (!status.ok()) return status;
  const auto result = (*chain)->Finish();
  if (!result.ok()) return result.status();
  timing.wall = RealClock::Monotonic() - begin;
  timing.cpu = Nanos{CpuTime().ns - cpu.ns};
  return Outcome{.totals = result->totals, .digest = result->digest};
}

absl::Status NfRun::Run() {
  EndCleanlyWhenInterrupted(name());
  const auto nf = NfSpec::Parse(nf_);
  if (!nf.ok()) return nf.status();
  if (absl::Status s = nf->check(); !s.ok()) return s;
  LoadedCapture capture(HalfOfMemory());
  if (absl::Status s = Load(capture); !s.ok()) return s;
  Timing timing;
  const auto outcome = chain_ == kByCalls ? RunAlone(*nf, capture, timing)
                                          : RunByProxies(*nf, capture, timing);
  if (!outcome.ok()) return outcome.status();
  fmt::print("{}\n", ReportOf(*outcome, *nf, timing));
  return absl::OkStatus();
}

}  // namespace snf
