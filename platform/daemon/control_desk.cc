// SPDX-License-Identifier: Apache-2.0
#include "platform/daemon/control_desk.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <string_view>
#include <utility>
#include <vector>

#include "base/packet/flow_key_text.h"
#include "base/text/wording.h"
#include "platform/control/control_figures.h"
#include "platform/drivers/real_time/real_driver.h"
#include "platform/outcome/flow_filter.h"
#include "platform/service/daemon_log.h"
#include "traces/capture_format.h"

namespace snf {
namespace {

std::string_view StateOf(const UnitPool& units, UnitId unit) {
  using State = UnitPool::State;
  switch (units.state(unit)) {
    case State::kStopped:
      return "stopped";
    case State::kActive:
      return units.closing(unit) ? "closing" : "active";
    case State::kWarm:
      return "warm";
    case State::kStopping:
      return "stopping";
    case State::kCrashed:
      return "crashed";
    case State::kStarting:
      return "starting";
    case State::kFailed:
      return "failed";
  }
  return "";
}

// A flow as the dispatcher copies it: its text is made elsewhere.
struct SeenFlow {
  FlowHot hot;
  uint32_t flowlet;
  UnitId owner;
  int64_t demand_bps;
  Nanos idle;
};

bool HadPacketLater(const SeenFlow& a, const SeenFlow& b) {
  return a.idle < b.idle;
}

// The part of the table that one letter looks at.
struct Piece {
  uint32_t begin = 0;
  uint32_t used = 0;
  std::vector<SeenFlow> flows;
};

void Read(const RealDriver& driver, Piece& piece) {
  const FlowTable& table = driver.controller().flows();
  const Instant now = driver.clock().Now();
  piece.used = table.used();
  piece.flows.clear();
  const uint32_t end =
      std::min(piece.begin + ControlDesk::kSlotsAtATime, piece.used);
  for (uint32_t slot = piece.begin; slot < end; ++slot) {
    const FlowCold& cold = table.cold(slot);
    if (cold.owner == kNoUnit) continue;
    const FlowHot& hot = table.hot(slot);
    piece.flows.push_back({.hot = hot,
                           .flowlet = table.numbers(slot).flowlet,
                           .owner = cold.owner,
                           .demand_bps = cold.demand_bps,
                           .idle = std::max(now - hot.last_packet, Nanos{})});
  }
}

void SetFlow(const SeenFlow& from, proto::Flow& to) {
  to.set_key(ToString(from.hot.key));
  to.set_unit(value(from.owner));
  to.set_clock(value(from.hot.clock));
  to.set_flowlet(from.flowlet);
  to.set_is_open((from.hot.flags & FlowHot::kOpen) != 0);
  to.set_flowlet_bytes(from.hot.flowlet_bytes);
  to.set_rate_bps(from.demand_bps);
  to.set_idle_ns(from.idle.ns);
}

absl::Status ChangeUnderWay() {
  return absl::DeadlineExceededError("another change is still under way");
}

}  // namespace

ControlDesk::ControlDesk(proto::StatusReply about, LiveSettings& settings,
                         std::atomic<bool>& down)
    : about_(std::move(about)), down_(down), settings_(settings) {}

void ControlDesk::Begin(LiveChainSetter& chains, const LiveBoard& board,
                        std::optional<uint64_t> inherited_flows) {
  if (inherited_flows.has_value()) {
    about_.set_inherited_flows(*inherited_flows);
  }
  chains_ = &chains;
  board_ = &board;
}

absl::Status ControlDesk::Status(Deadline /*deadline*/,
                                 const proto::StatusRequest& /*request*/,
                                 proto::StatusReply& reply) {
  reply = about_;
  AddFigures(*board_->Latest(), reply);
  if (reply.chain_size() > 0) {
    reply.set_nf(reply.chain(reply.chain_size() - 1).nf());
  }
  return absl::OkStatus();
}

absl::Status ControlDesk::Units(Deadline deadline,
                                const proto::UnitsRequest& /*request*/,
                                proto::UnitsReply& reply) {
  const auto look = [&] {
    const RealDriver& driver = chains_->newest();
    const UnitPool& units = driver.controller().units();
    reply.set_usable_units(units.usable_units());
    for (uint32_t i = 0; i < units.max_units(); ++i) {
      const UnitId id{static_cast<uint16_t>(i)};
      const Provisioning::Total total = driver.provisioning().total(id);
      if (!total.was_up && !units.drained(id)) continue;
      proto::Unit& unit = *reply.add_unit();
      unit.set_id(i);
      unit.set_state(std::string(StateOf(units, id)));
      unit.set_is_drained(units.drained(id));
      unit.set_flows(units.owned_flows(id));
      unit.set_open_flowlets(units.open_flowlets(id));
      unit.set_packets(total.packets);
      unit.set_bytes(total.bytes);
      unit.set_host(std::string(driver.HostOf(id)));
    }
  };
  return mailbox_.Ask(look, deadline);
}

absl::Status ControlDesk::Flows(Deadline deadline,
                                const proto::FlowsRequest& request,
                                proto::FlowsReply& reply) {
  if (request.limit() > kMostFlows) {
    return absl::InvalidArgumentError(
        fmt::format("limit={}: want at most {}", request.limit(), kMostFlows));
  }
  auto filter = FlowFilter::Compile(request.filter());
  if (!filter.ok()) return filter.status();
  const size_t limit = request.limit() == 0 ? kFlows : request.limit();
  std::vector<SeenFlow>
      latest;  // a heap: the one that is idle longest is first
  uint64_t count = 0;
  Piece piece;
  piece.flows.reserve(kSlotsAtATime);
  do {
    const absl::Status status =
        mailbox_.Ask([&] { Read(chains_->newest(), piece); }, deadline);
    if (!status.ok()) return status;
    for (const SeenFlow& flow : piece.flows) {
      if (request.has_unit() && value(flow.owner) != request.unit()) continue;
      if (!filter->SelectsFlow(flow.hot.key)) continue;
      ++count;
      latest.push_back(flow);
      std::ranges::push_heap(latest, HadPacketLater);
      if (latest.size() <= limit) continue;
      std::ranges::pop_heap(latest, HadPacketLater);
      latest.pop_back();
    }
    piece.begin += kSlotsAtATime;
  } while (piece.begin < piece.used);
  std::ranges::sort_heap(latest, HadPacketLater);
  for (const SeenFlow& flow : latest) SetFlow(flow, *reply.add_flow());
  reply.set_flows(count);
  return absl::OkStatus();
}

absl::Status ControlDesk::Capture(Deadline /*deadline*/,
                                  const proto::CaptureRequest& request,
                                  proto::CaptureReply& reply) {
  uint32_t number = request.capture();
  if (number == 0) {
    const auto begun = captures_.Begin(request.filter(), request.snap_bytes(),
                                       request.drops_alone());
    if (!begun.ok()) return begun.status();
    number = *begun;
    LogLine(LogLevel::kInfo, fmt::format("capture {} begins: \"{}\"", number,
                                         Printable(request.filter())));
  }
  auto batch = captures_.Take(number);
  if (!batch.ok()) return batch.status();
  if (request.ends()) {
    captures_.End(number);
    LogLine(LogLevel::kInfo,
            fmt::format("capture {} has ended, with {}", number,
                        Plural(batch->selected, "packet")));
  }
  reply.set_capture(number);
  reply.set_selected(batch->selected);
  reply.set_lost(batch->lost);
  for (PacketCaptures::Packet& packet : batch->packets) {
    proto::CapturedFrame& frame = *reply.add_frame();
    frame.set_time_ns(packet.time.ns);
    frame.set_data(std::move(packet.bytes));
    frame.set_original_bytes(packet.original_bytes);
    frame.set_link(LinkTypeNumber(packet.link));
    frame.set_is_dropped(packet.is_dropped);
    frame.set_comment(std::move(packet.comment));
  }
  return absl::OkStatus();
}

absl::Status ControlDesk::Change(Deadline deadline,
                                 const LiveSettings::Values& values) {
  const absl::StatusOr<ControllerOptions> options = settings_.Check(values);
  if (!options.ok()) return options.status();
  bool is_tuned = false;
  const absl::Status asked = mailbox_.Ask(
      [&] { is_tuned = chains_->newest().Tune(*options); }, deadline);
  if (!asked.ok()) return asked;
  if (!is_tuned) {
    return absl::FailedPreconditionError(
        "all units below max_units are drained: none could be used");
  }
  settings_.Accept(values);
  for (const auto& [name, value] : values) {
    LogLine(LogLevel::kInfo, fmt::format("set {}={}", name, value));
  }
  return absl::OkStatus();
}

absl::Status ControlDesk::Reload(Deadline deadline) {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock()) {
    return absl::FailedPreconditionError("another change is under way");
  }
  proto::SetRequest request;
  request.set_config_file(settings_.config_file());
  proto::SetReply reply;
  return TakeConfig(deadline, request, reply);
}

absl::Status ControlDesk::TakeConfig(Deadline deadline,
                                     const proto::SetRequest& request,
                                     proto::SetReply& reply) {
  LiveConfig config(settings_, *chains_);
  if (!request.config_file().empty()) {
    const auto set = [&](const LiveSettings::Values& values) {
      return Change(deadline, values);
    };
    absl::Status status = config.Take(request, mailbox_, deadline, set, reply);
    if (!status.ok()) return status;
  }
  if (!request.tell_config()) return absl::OkStatus();
  auto text = config.Text();
  if (text.ok()) reply.set_config(*std::move(text));
  return text.status();
}

absl::Status ControlDesk::Set(Deadline deadline,
                              const proto::SetRequest& request,
                              proto::SetReply& reply) {
  const bool has_file = !request.config_file().empty();
  if (has_file && !request.value().empty()) {
    return absl::InvalidArgumentError("want either values or a file");
  }
  // One file does not wait for another one.
  const std::unique_lock lock(
      mutex_, has_file ? std::chrono::steady_clock::now() : deadline);
  if (!lock.owns_lock() && has_file) {
    return absl::FailedPreconditionError(fmt::format(
        "{}: another change is under way", Printable(request.config_file())));
  }
  if (!lock.owns_lock()) return ChangeUnderWay();
  if (has_file || request.tell_config()) {
    absl::Status status = TakeConfig(deadline, request, reply);
    if (!status.ok()) return status;
  }
  if (!request.value().empty()) {
    const LiveSettings::Values values(request.value().begin(),
                                      request.value().end());
    absl::Status status = Change(deadline, values);
    if (!status.ok()) return status;
  }
  reply.set_config_file(settings_.config_file());
  for (const auto& [name, value] : settings_.List()) {
    proto::Setting& setting = *reply.add_setting();
    setting.set_name(name);
    setting.set_value(value);
  }
  return absl::OkStatus();
}

absl::Status ControlDesk::Drain(Deadline deadline,
                                const proto::DrainRequest& request,
                                proto::DrainReply& reply) {
  if (!request.has_unit()) {
    return absl::InvalidArgumentError("no unit is named");
  }
  bool is_unit = true;
  bool has_other = true;
  const auto drain = [&] {
    RealDriver& driver = chains_->newest();
    const UnitPool& units = driver.controller().units();
    is_unit = request.unit() < units.max_units();
    if (!is_unit) return;
    const UnitId unit{static_cast<uint16_t>(request.unit())};
    if (request.undo()) {
      driver.Undrain(unit);
      return;
    }
    has_other = driver.Drain(unit);
    reply.set_flows(units.owned_flows(unit));
  };
  const absl::Status asked = mailbox_.Ask(drain, deadline);
  if (!asked.ok()) return asked;
  if (!is_unit) {
    return absl::InvalidArgumentError(
        fmt::format("there is no unit {}", request.unit()));
  }
  if (!has_other) {
    return absl::FailedPreconditionError(
        fmt::format("without unit {} there would be none that could be used",
                    request.unit()));
  }
  LogLine(LogLevel::kInfo,
          fmt::format("{} unit {}", request.undo() ? "undrain" : "drain",
                      request.unit()));
  return absl::OkStatus();
}

absl::Status ControlDesk::Kill(Deadline deadline,
                               const proto::KillRequest& request,
                               proto::KillReply& reply) {
  const bool is_of_unit = request.has_unit();
  if (!is_of_unit && !request.loggers()) {
    return absl::InvalidArgumentError("neither a unit nor loggers are named");
  }
  bool is_unit = true;
  absl::StatusOr<RealFaults::Killed> killed;
  const auto kill = [&] {
    RealDriver& driver = chains_->newest();
    is_unit = request.unit() < driver.controller().units().max_units();
    if (!is_unit) return;
    killed =
        is_of_unit
            ? driver.KillUnit(UnitId{static_cast<uint16_t>(request.unit())})
            : driver.KillLoggers();
  };
  const absl::Status asked = mailbox_.Ask(kill, deadline);
  if (!asked.ok()) return asked;
  if (!is_unit) {
    return absl::InvalidArgumentError(
        fmt::format("there is no unit {}", request.unit()));
  }
  if (!killed.ok()) return killed.status();
  reply.set_pid(killed->process);
  for (const UnitId unit : killed->units) reply.add_unit(value(unit));
  LogLine(LogLevel::kInfo, fmt::format("kill process {}", killed->process));
  return absl::OkStatus();
}

absl::Status ControlDesk::Chain(Deadline deadline,
                                const proto::ChainRequest& request,
                                proto::ChainReply& reply) {
  if (request.text().empty() == request.module().empty()) {
    return absl::InvalidArgumentError("want either a chain or a module");
  }
  if (request.has_within_ns() && request.within_ns() < 0) {
    return absl::InvalidArgumentError("within: want no negative time");
  }
  const std::unique_lock lock(mutex_, deadline);
  if (!lock.owns_lock()) return ChangeUnderWay();
  return chains_->Set(mailbox_, deadline, request, reply);
}

absl::Status ControlDesk::Upgrade(Deadline deadline,
                                  const proto::UpgradeRequest& request,
                                  proto::UpgradeReply& reply) {
  if (request.has_within_ns() && request.within_ns() < 0) {
    return absl::InvalidArgumentError("within: want no negative time");
  }
  const std::unique_lock lock(mutex_, deadline);
  if (!lock.owns_lock()) return ChangeUnderWay();
  absl::Status status = chains_->Upgrade(mailbox_, deadline, request, reply);
  if (status.ok()) LogLine(LogLevel::kInfo, "another daemon takes its place");
  return status;
}

absl::Status ControlDesk::Down(Deadline /*deadline*/,
                               const proto::DownRequest& /*request*/,
                               proto::DownReply& /*reply*/) {
  LogLine(LogLevel::kInfo, "asked to end");
  down_ = true;
  return absl::OkStatus();
}

}  // namespace snf
