// SPDX-License-Identifier: Apache-2.0
#include "platform/replay.h"

#include <fmt/format.h>
#include <langinfo.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <clocale>
#include <cstring>
#include <filesystem>
#include <optional>

#include "base/flow_key_text.h"
#include "base/quantity.h"
#include "platform/exit_code.h"
#include "platform/explain.h"
#include "platform/explain_top.h"
#include "platform/progress.h"
#include "platform/report.h"
#include "platform/version.h"
#include "platform/virtual_driver.h"
#include "traces/capture_writer.h"
#include "traces/merged_reader.h"

namespace snf {
namespace {

constexpr uint64_t kPacketsPerProgress = 8'192;

absl::Status Usage(const std::string& message) {
  return absl::InvalidArgumentError(message);
}

Instant MonotonicNow() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return {std::chrono::duration_cast<std::chrono::nanoseconds>(now).count()};
}

int TerminalColumns(int descriptor) {
  winsize size{};
  if (ioctl(descriptor, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return 80;
  return std::clamp<int>(size.ws_col, 60, 100);
}

TextStyle StyleOf(int descriptor) {
  std::setlocale(LC_CTYPE, "");
  const bool terminal = isatty(descriptor) != 0;
  return {.columns = terminal ? TerminalColumns(descriptor) : 80,
          .utf8 = !terminal || std::strcmp(nl_langinfo(CODESET), "UTF-8") == 0,
          .colour = terminal && std::getenv("NO_COLOR") == nullptr};
}

absl::Status UnknownNf(const std::string& name) {
  std::string known;
  for (const NfRegistration* nf : ListNfs()) {
    known += fmt::format("{}{}", known.empty() ? "" : ", ", nf->name);
  }
  return Usage(fmt::format("--nf: \"{}\" is no NF; there is: {}", name, known));
}

// Writes released packets to a capture.
class CaptureSink final : public ReleaseSink {
 public:
  explicit CaptureSink(CaptureWriter& writer) : writer_(writer) {}
  void OnRelease(const ReleasedPacket& packet) override {
    // A failure stays in the writer and comes out of its Close().
    writer_.Write({.time = packet.time,
                   .bytes = packet.bytes,
                   .original_bytes = packet.original_length,
                   .link = packet.link});
  }

 private:
  CaptureWriter& writer_;
};

absl::Status WriteText(const std::string& path, const std::string& text) {
  std::FILE* file = path == "-" ? stdout : std::fopen(path.c_str(), "wb");
  if (file == nullptr) {
    const std::string message =
        fmt::format("{}: cannot write: {}", path, std::strerror(errno));
    return errno == EACCES ? absl::PermissionDeniedError(message)
                           : absl::UnavailableError(message);
  }
  bool good = std::fwrite(text.data(), 1, text.size(), file) == text.size();
  good = (file == stdout ? std::fflush(file) : std::fclose(file)) == 0 && good;
  if (good) return absl::OkStatus();
  return absl::UnavailableError(
      fmt::format("{}: cannot write: {}", path, std::strerror(errno)));
}

bool SameFile(const std::string& a, const std::string& b) {
  std::error_code ignored;
  return a == b || std::filesystem::equivalent(a, b, ignored);
}

}  // namespace

ReplayCommand::ReplayCommand(CLI::App& app)
    : command_(*app.add_subcommand(
          "replay", "run captures through flowlets and compute units")),
      flags_(command_) {
  command_.add_option("FILE", files_);
  AddFlags();
  AddTuningFlags();
  AddUnitFlags();
  command_.formatter_fn([this](const CLI::App*, std::string,
                               CLI::AppFormatMode) {
    return flags_.Help(
        "snf replay [FILE…] [--FLAG=VALUE…]",
        "Runs the packets of captures through a controller, which cuts their "
        "flows into flowlets and packs these onto compute units, and through "
        "an NF on the units, in virtual time: on the captures' own clock, as "
        "fast as this machine can, with the same result on every machine. FILE "
        "is pcap or pcapng, also in gzip or zstd; - is stdin; several files "
        "are merged by time. Without FILE, the small capture that comes with "
        "SNF is replayed on small units.");
  });
}

void ReplayCommand::AddFlags() {
  flags_.Heading("What to run, what to write");
  flags_.Text("nf", nf_, "NAME", "network function to run on the units");
  flags_.Text("out", out_, "FILE",
              "write released packets, at the time of their release, to FILE "
              "(.pcap or .pcapng, also with .gz or .zst; - is stdout)");
  flags_.Text(
      "json", json_, "FILE",
      "write the report as JSON to FILE (- is stdout, instead of text)");
  flags_.Text("csv", csv_, "DIR",
              "write time series per 100 ms and latency quantiles to DIR");
  flags_.Text("explain", explain_, "FLOW",
              "tell the story of one flow: top (the most bytes), or as in "
              "'tcp 10.0.0.1:5000 > 192.0.2.9:80'");
  flags_.Switch(
      "check", options_.check,
      "hold the run to the protocol's invariants (a few per cent slower "
      "than --no_check; the result is the same)");
  flags_.Switch("quiet", quiet_, "no progress on stderr");
  flags_.Number(
      "seed", seed_,
      "seed of random choices; so far only the flow table's hash, which "
      "changes no result");
}

void ReplayCommand::AddTuningFlags() {
  ControllerOptions& c = options_.controller;
  flags_.Heading("Flows, flowlets and where they go");
  flags_.Choice("flow_key", flow_key_,
                {"connection", "5tuple", "3tuple", "connection,vlan",
                 "5tuple,vlan", "3tuple,vlan"},
                "what packets are one flow: both directions of a connection; "
                "addresses, ports and protocol, one direction; addresses and "
                "protocol; with \",vlan\" only within one VLAN");
  flags_.Duration("flowlet_timeout", c.flowlet_timeout, Nanos{1}, Seconds(10),
                  "T: a longer gap begins a new flowlet");
  flags_.Bytes("flowlet_bytes", c.flowlet_bytes, 1, 1'000'000'000,
               "B: a flowlet that would exceed it is cut");
  flags_.DurationOrInfinity("flow_timeout", c.flow_timeout, Microseconds(1),
                            "a flow without packets for so long is forgotten");
  flags_.Count("max_flows", c.max_flows, 1, 1u << 28,
               "flows at one time; packets of more are dropped");
  flags_.Choice("policy", policy_, {"snf"},
                "how flowlets are placed, by weighted greedy bin-packing");
  flags_.Fraction("alpha", c.alpha_1024, 1024,
                  "weight of a unit's having the flow's state against its "
                  "utilisation");
  flags_.Count("replicas", replicas_, 0, kMaxReplicas,
               "K: units that a flow's state is pushed to ahead of its next "
               "flowlet; takes effect with NFs that keep state, of which there "
               "is none yet");
  flags_.Fraction("ewma_delta", c.ewma_delta_65536, 65'536,
                  "weight of the last flowlet's measured rate in the estimate "
                  "of the next");
  flags_.Choice("demand", demand_, {"floor", "burst"},
                "a flowlet's rate: bytes over its duration but at least T, or "
                "over its bare duration");
  flags_.BitRate("first_demand", c.first_demand_bps, 1'000, 1'000'000'000'000,
                 "demand of a flow's first flowlet before any was measured",
                 "1% of unit_capacity");
  flags_.Choice("load_signal", load_signal_, {"demand", "drained"},
                "a unit's load: the larger of what it drained over the window "
                "and what its open flowlets ask for, plus what still waits "
                "there; or only what it drained");
  flags_.Duration("load_bucket", c.load_bucket, Microseconds(1), Seconds(1),
                  "width of a bucket of the load window");
  flags_.Count("load_buckets", c.load_buckets, 1, 10'000,
               "buckets in the load window");
}

void ReplayCommand::AddUnitFlags() {
  ControllerOptions& c = options_.controller;
  flags_.Heading("Compute units (a stated model in virtual time)");
  flags_.BitRate("unit_capacity", c.unit_capacity_bps, 1'000, 1'000'000'000'000,
                 "what one unit can process");
  flags_.Count("max_units", c.max_units, 1, kMaxUnits, "most units");
  flags_.Count("warm_units", c.warm_units, 0, kMaxUnits,
               "units warm at the start");
  flags_.Count("unit_queue", c.unit_queue_packets, 1, 1u << 20,
               "packets that may wait at a unit; more are dropped");
  flags_.Count("start_buffer", c.start_buffer_packets, 1, 1u << 20,
               "of them while the unit is still starting");
  flags_.Duration("unit_idle_timeout", c.unit_idle_timeout, Microseconds(1),
                  Seconds(86'400),
                  "a unit without packets for so long is parked, warm");
  flags_.Duration("keep_warm", c.keep_warm, Nanos{0}, Seconds(86'400),
                  "a warm unit stops after so long");
  flags_.Duration("unit_start_delay", options_.unit_start_delay, Nanos{0},
                  Seconds(600), "from a cold start to the first packet");
  flags_.Duration("warm_start_delay", options_.warm_start_delay, Nanos{0},
                  Seconds(600), "from a warm start to the first packet");
  flags_.Duration("hop_delay", options_.hop_delay, Nanos{0}, Seconds(10),
                  "controller to unit, unit to unit, unit to the way out");
}

bool ReplayCommand::chosen() const { return command_.parsed(); }

absl::Status ReplayCommand::CheckTogether() const {
  const ControllerOptions& c = options_.controller;
  const auto at_odds = [this](const char* a, const char* b,
                              const char* because) {
    return Usage(fmt::format("{} with {}: {}", flags_.Printed(a),
                             flags_.Printed(b), because));
  };
  if (c.flow_timeout <= c.flowlet_timeout) {
    return at_odds("flow_timeout", "flowlet_timeout",
                   "a flow must outlive its flowlets");
  }
  if (c.unit_idle_timeout <= c.flowlet_timeout) {
    return at_odds("unit_idle_timeout", "flowlet_timeout",
                   "a unit would be parked within a flowlet");
  }
  if (flags_.given("warm_units") && c.warm_units > c.max_units) {
    return at_odds("warm_units", "max_units", "more than there may be");
  }
  if (flags_.given("start_buffer") &&
      c.start_buffer_packets > c.unit_queue_packets) {
    return at_odds("start_buffer", "unit_queue",
                   "the start buffer is a part of the queue");
  }
  if (flags_.given("replicas") && replicas_ >= c.max_units) {
    return at_odds("replicas", "max_units",
                   "a flow's state cannot go to more other units than there "
                   "are");
  }
  if (json_ == "-" && out_ == "-") {
    return at_odds("json", "out", "both cannot be stdout");
  }
  const bool from_stdin =
      std::find(files_.begin(), files_.end(), "-") != files_.end();
  if (explain_ == "top" && from_stdin) {
    return Usage(
        "--explain=top with -: it reads the capture twice, which "
        "stdin cannot; name the flow, or a file");
  }
  for (const std::string& file : files_) {
    if (!out_.empty() && out_ != "-" && SameFile(file, out_)) {
      return Usage(fmt::format("--out={}: is also an input", out_));
    }
  }
  return absl::OkStatus();
}

void ReplayCommand::UseBundledCapture() {
  std::error_code error;
  const std::filesystem::path near =
      std::filesystem::proximate(kBundledCapture, error);
  files_ = {error ? kBundledCapture : near.string()};
  std::string command = fmt::format("./snf replay {}", files_.front());
  if (!flags_.given("unit_capacity")) {
    options_.controller.unit_capacity_bps = kBundledCaptureUnitBps;
    command += " " + flags_.Printed("unit_capacity");
  }
  if (!quiet_)
    fmt::print(stderr, "No FILE given, so this is:\n  {}\n", command);
}

int ReplayCommand::Run() {
  int exit_code = kExitOk;
  absl::Status status = CheckTogether();
  if (status.ok()) status = Replay(exit_code);
  if (status.ok()) return exit_code;
  fmt::print(stderr, "snf replay: {}\n", std::string(status.message()));
  return ExitCodeFor(status);
}

absl::Status ReplayCommand::FindFlow(const std::string& text,
                                     FlowKey& key) const {
  if (text != "top") {
    absl::StatusOr<FlowKey> parsed = ParseFlowKey(text);
    if (!parsed.ok()) {
      return Usage(
          fmt::format("--explain: {}", std::string(parsed.status().message())));
    }
    key = *parsed;
    if (options_.flow.kind != FlowKeyKind::k5Tuple) Canonicalize(key);
    return absl::OkStatus();
  }
  auto reader = MergedReader::Open(files_);
  if (!reader.ok()) return reader.status();
  FlowClassifier classifier(options_.flow);
  TopFlowFinder finder;
  CapturedPacket packet;
  ParsedPacket headers;
  while ((*reader)->Next(packet) == ReadResult::kPacket) {
    if (classifier.Classify(packet.time, packet.link, packet.bytes, headers,
                            key) != Direction::kNone) {
      finder.Add(key, packet.original_bytes);
    }
  }
  if (!(*reader)->status().ok()) return (*reader)->status();
  const std::optional<FlowKey> top = finder.top();
  if (!top.has_value()) {
    return absl::DataLossError(fmt::format(
        "{}: no IP packets, so no flow to explain", files_.front()));
  }
  key = *top;
  return absl::OkStatus();
}

void ReplayCommand::SettleOptions() {
  options_.flow.kind =
      std::array{FlowKeyKind::kConnection, FlowKeyKind::k5Tuple,
                 FlowKeyKind::k3Tuple}[flow_key_ % 3];
  options_.flow.vlan = flow_key_ >= 3;
  ControllerOptions& c = options_.controller;
  c.load_signal = LoadSignal{static_cast<uint8_t>(load_signal_)};
  c.demand_rule = DemandRule{static_cast<uint8_t>(demand_)};
  c.hash_seed = seed_;
  // A buffer for every place in the queues, up to 2 GiB of them; pages that no
  // packet touches cost nothing.
  constexpr uint64_t kMaxBuffers = 1 << 20;
  options_.buffers.small = static_cast<uint32_t>(
      std::clamp<uint64_t>(uint64_t{c.max_units} * c.unit_queue_packets,
                           options_.buffers.small, kMaxBuffers));
  // Defaults give way to what was given.
  c.warm_units = std::min(c.warm_units, c.max_units);
  c.start_buffer_packets =
      std::min(c.start_buffer_packets, c.unit_queue_packets);
}

absl::Status ReplayCommand::Replay(int& exit_code) {
  if (files_.empty()) UseBundledCapture();
  SettleOptions();
  const NfRegistration* nf = FindNf(nf_);
  if (nf == nullptr) return UnknownNf(nf_);
  std::optional<Explainer> explainer;
  if (!explain_.empty()) {
    FlowKey key;
    if (absl::Status s = FindFlow(explain_, key); !s.ok()) return s;
    explainer.emplace(key, options_);
  }
  auto reader = MergedReader::Open(files_);
  if (!reader.ok()) return reader.status();
  std::unique_ptr<CaptureWriter> writer;
  std::optional<CaptureSink> sink;
  if (!out_.empty()) {
    auto opened = CaptureWriter::Open(out_, {});
    if (!opened.ok()) return opened.status();
    writer = std::move(*opened);
    sink.emplace(*writer);
  }

  const Instant start = MonotonicNow();
  VirtualDriver driver(options_, *FindPlacementPolicy("snf"), *nf,
                       sink ? &*sink : nullptr,
                       explainer ? &*explainer : nullptr);
  if (absl::Status s = OfferAll(**reader, driver, writer.get()); !s.ok()) {
    return s;
  }
  const RunResult result = driver.Finish();
  const Nanos elapsed = MonotonicNow() - start;
  if (writer != nullptr) {
    if (absl::Status s = writer->Close(); !s.ok()) return s;
  }
  exit_code = RunIsSound(result) ? kExitOk : kExitCheckFailed;
  if (absl::Status s = Report(result, static_cast<double>(elapsed.ns) / 1e9,
                              (*reader)->warnings());
      !s.ok()) {
    return s;
  }
  if (explainer.has_value()) {
    std::FILE* to = json_ == "-" || out_ == "-" ? stderr : stdout;
    fmt::print(to, "\n{}", explainer->Story());
  }
  return absl::OkStatus();
}

absl::Status ReplayCommand::OfferAll(MergedReader& reader,
                                     VirtualDriver& driver,
                                     const CaptureWriter* writer) const {
  Progress progress({.label = "replaying",
                     .quiet = quiet_,
                     .terminal = isatty(STDERR_FILENO) != 0,
                     .columns = TerminalColumns(STDERR_FILENO),
                     .total_bytes = reader.total_bytes(),
                     .clock = MonotonicNow,
                     .write = [](std::string_view text) {
                       std::fwrite(text.data(), 1, text.size(), stderr);
                     }});
  CapturedPacket packet;
  while (reader.Next(packet) == ReadResult::kPacket) {
    driver.Offer(packet);
    if (driver.packets_in() % kPacketsPerProgress == 0) {
      progress.Update(driver.packets_in(), reader.bytes_read());
      // A full disk ends the run, rather than being told at its end.
      if (writer != nullptr && !writer->status().ok()) return writer->status();
    }
  }
  return reader.status();
}

absl::Status ReplayCommand::Report(
    const RunResult& result, double elapsed_s,
    const std::vector<std::string>& warnings) const {
  // Flags that say where output goes, and so are not repeated in proposals.
  constexpr std::array kOutput = {"out", "json", "csv", "explain", "quiet"};
  RunInfo info = {.version = kVersion,
                  .seed = seed_,
                  .nf = nf_,
                  .policy = "snf",
                  .files = files_,
                  .flags = {},
                  .warnings = warnings,
                  .elapsed_s = elapsed_s};
  for (const auto& [name, value] : flags_.values()) {
    const bool output =
        std::find(kOutput.begin(), kOutput.end(), name) != kOutput.end();
    info.flags.push_back({.name = name,
                          .value = value,
                          .repeat = !output && flags_.given(name)});
  }
  if (!csv_.empty()) {
    if (absl::Status s = WriteCsv(csv_, options_, result); !s.ok()) return s;
  }
  if (!json_.empty()) {
    absl::Status s = WriteText(json_, JsonReport(options_, result, info));
    if (!s.ok()) return s;
  }
  if (json_ == "-") return absl::OkStatus();
  const bool to_stderr = out_ == "-";
  const TextStyle style = StyleOf(to_stderr ? STDERR_FILENO : STDOUT_FILENO);
  fmt::print(to_stderr ? stderr : stdout, "{}",
             TextReport(options_, result, info, style));
  return absl::OkStatus();
}

}  // namespace snf
