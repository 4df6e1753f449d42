// SPDX-License-Identifier: Apache-2.0
//
// What snf replay does in real time.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <memory>
#include <optional>
#include <string_view>

#include "controller/core/placement.h"
#include "platform/process/console.h"
#include "platform/replay/replay.h"
#include "platform/run/capture_sink.h"
#include "platform/run/pace.h"
#include "platform/text/page.h"
#include "platform/text/progress.h"
#include "platform/watch/live_outputs.h"
#include "traces/loaded_capture.h"
#include "traces/merged_reader.h"

namespace snf {
namespace {

uint64_t HalfOfMemory() {
  const auto pages = static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES));
  return pages * static_cast<uint64_t>(sysconf(_SC_PAGESIZE)) / 2;
}

absl::Status OfFlag(std::string_view flag, const absl::Status& status) {
  return {status.code(),
          fmt::format("--{}: {}", flag, std::string(status.message()))};
}

// In 1/1000.
std::optional<uint32_t> DoneOf(uint64_t done, uint64_t all) {
  if (all == 0) return std::nullopt;
  const double share = static_cast<double>(done) / static_cast<double>(all);
  return static_cast<uint32_t>(1000 * std::min(share, 1.0));
}

}  // namespace

void ReplayCommand::AddRealFlags() {
  flags_.Heading("Real time");
  flags_.Choice("clock", clock_,
                {{"virtual",
                  "the capture's: units, hops and starts take the "
                  "times that flags give"},
                 {"real",
                  "the machine's: threads and rings take the time that they "
                  "take, units what flags give"}},
                "whose time it is:");
  flags_.Custom(
      "speed", "SPEED",
      "how fast packets come: 1x (at the capture's own gaps), 0.5x, 2Gbps, "
      "100kpps, or max",
      [this](const std::string& text) {
        const absl::StatusOr<Speed> speed = ParseSpeed(text);
        if (speed.ok()) real_.speed = *speed;
        return speed.status();
      },
      [this] { return FormatSpeed(real_.speed); });
  flags_.Choice("overload", overload_,
                {{"auto", "wait at speed max, else drop"},
                 {"wait", "it waits, and those behind it"},
                 {"drop", "it is dropped, and counted"}},
                "what becomes of a packet for which there is no room:");
  flags_.Custom(
      "threads", "auto|COUNT",
      fmt::format("threads, the controller's among them, 1 to {}; auto: as "
                  "many as CPUs",
                  RealOptions::kMaxThreads),
      [this](const std::string& text) {
        real_.threads = 0;
        if (text == "auto") return absl::OkStatus();
        uint32_t threads = 0;
        const char* const end = text.data() + text.size();
        const auto parsed = std::from_chars(text.data(), end, threads);
        if (parsed.ec != std::errc() || parsed.ptr != end || threads == 0 ||
            threads > RealOptions::kMaxThreads) {
          return absl::InvalidArgumentError(
              fmt::format("\"{}\" is neither auto nor from 1 to {}", text,
                          RealOptions::kMaxThreads));
        }
        real_.threads = threads;
        return absl::OkStatus();
      },
      [this] {
        return real_.threads == 0 ? "auto" : std::to_string(real_.threads);
      });
  flags_.Switch("pin", real_.pin, "each thread keeps to a CPU of its own");
  flags_.Switch("preload", preload_, "read all of the capture before it runs");
  flags_.Count("loop", loop_, 1, std::numeric_limits<uint32_t>::max(),
               "replay it so often, as one long capture; it is preloaded");
  flags_.Switch("watch", watch_,
                "show how the run stands: as a screen where stderr is a "
                "terminal, else in a line every 2 s");
  flags_.Count("metrics_port", metrics_port_, 0, 65'535,
               "tell Prometheus how it stands, on "
               "http://127.0.0.1:COUNT/metrics; 0: nowhere");
}

absl::Status ReplayCommand::CheckReal() const {
  if (clock_ == 1) {
    for (const char* flag : {"config", "compare", "explain", "chaos",
                             "hop_delay", "state_delay", "state_bandwidth"}) {
      if (!flags_.given(flag)) continue;
      return AtOdds(flag, "clock", "only virtual time has that");
    }
    for (const char* flag : {"unit_start_delay", "warm_start_delay"}) {
      if (!real_.unpaced || !flags_.given(flag)) continue;
      return AtOdds(flag, "unit_capacity", "then units are ready at once");
    }
    if (watch_ && quiet_) {
      return AtOdds("watch", "quiet", "it is shown on stderr");
    }
    return absl::OkStatus();
  }
  for (const char* flag : {"speed", "overload", "threads", "pin", "preload",
                           "loop", "watch", "metrics_port"}) {
    if (!flags_.given(flag)) continue;
    return AtOdds(flag, "clock", "only real time has that");
  }
  if (real_.unpaced) {
    return AtOdds("unit_capacity", "clock",
                  "in virtual time a packet would take no time");
  }
  return absl::OkStatus();
}

uint64_t ReplayCommand::packets_per_progress() const {
  // Slow packets take their time.
  return clock_ == 1 && real_.speed.kind != Speed::Kind::kMax ? 64 : 8'192;
}

absl::Status ReplayCommand::FeedLoaded(const LoadedCapture& capture,
                                       const Watchers& watchers,
                                       const std::string& label,
                                       const Offer& offer) const {
  constexpr size_t kAhead = 8;
  const uint64_t total = capture.size() * uint64_t{loop_};
  const auto progress = ShowProgress(label, total, quiet_ || watchers.has_view);
  uint64_t packets = 0;
  for (uint32_t round = 0; round < loop_; ++round) {
    for (size_t i = 0; i < capture.size(); ++i) {
      capture.Prefetch(i + kAhead);
      if (!offer(capture.Packet(i, round))) return absl::OkStatus();
      if (++packets % packets_per_progress() != 0) continue;
      progress->Update(packets, packets);
      if (watchers.sink != nullptr && !watchers.sink->status().ok()) {
        return watchers.sink->status();
      }
    }
  }
  return absl::OkStatus();
}

absl::Status ReplayCommand::RunReal(MergedReader& reader, const NfSpec& nf,
                                    const Watchers& watchers,
                                    const std::string& label,
                                    ComparedRun& run) const {
  interrupt_.is_awaited = true;
  std::optional<LoadedCapture> loaded;
  auto live_outputs = LiveOutputs::Gather(
      {.watch = watch_,
       .metrics_port = static_cast<uint16_t>(metrics_port_),
       .title = fmt::format("{}: {} under policy {}", FileList(files_),
                            Printable(nf_), run.policy)},
      [&](uint64_t packets) {
        return loaded.has_value()
                   ? DoneOf(packets, loaded->size() * uint64_t{loop_})
                   : DoneOf(reader.bytes_read(), reader.total_bytes());
      });
  if (!live_outputs.ok()) return OfFlag("metrics_port", live_outputs.status());
  if (preload_ || loop_ > 1) {
    loaded.emplace(HalfOfMemory());
    absl::Status added;
    absl::Status status =
        Feed(reader, watchers, "loading", [&](const CapturedPacket& packet) {
          if (added.ok()) added = loaded->Add(packet);
          return added.ok() && !interrupt_.came;
        });
    if (!added.ok()) status = added;
    if (!status.ok()) return status;
    if (interrupt_.came)
      return absl::CancelledError("interrupted while loading");
  }
  RealOptions real = real_;
  real.wait_for_room = overload_ == 1 ||
                       (overload_ == 0 && real.speed.kind == Speed::Kind::kMax);
  real.interrupted = &interrupt_.came;
  real.live = (*live_outputs)->board();
  auto driver = RealDriver::Start(
      options_, real, *FindPlacementPolicy(run.policy), nf, watchers.sink);
  if (!driver.ok()) return driver.status();
  const auto offer = [&driver](const CapturedPacket& packet) {
    (*driver)->Offer(packet);
    return !interrupt_.came.load(std::memory_order_relaxed);
  };
  (*live_outputs)->Show();
  Watchers beside = watchers;
  beside.has_view = watch_;
  absl::Status status;
  if (loaded.has_value()) {
    status = FeedLoaded(*loaded, beside, label, offer);
  } else {
    status = Feed(reader, beside, label, offer);
  }
  interrupt_.is_awaited = false;
  if (!status.ok()) return status;
  if (interrupt_.came && !quiet_) {
    (*live_outputs)->Hide();
    fmt::print(stderr, "Interrupted: what was taken comes to its end.\n");
  }
  run.result = (*driver)->Finish();
  run.elapsed_s = static_cast<double>(run.result.real.wall.ns) / 1e9;
  return absl::OkStatus();
}

}  // namespace snf
