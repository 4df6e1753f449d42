// SPDX-License-Identifier: Apache-2.0
#include "platform/daemon/control_desk.h"

#include <fmt/format.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/text/wording.h"
#include "platform/control/control_figures.h"
#include "platform/daemon/flow_desk.h"
#include "platform/drivers/real_time/real_driver.h"
#include "platform/run/figures/table_totals.h"
#include "platform/service/daemon_log.h"
#include "runtime/sdk/nf.h"
#include "runtime/sdk/nf_report.h"
#include "runtime/sdk/nf_spec.h"
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

// An NF with a table of this name reports the table as "Rules", with a column
// for each field of proto::CountedRule but the first.
constexpr std::string_view kRuleTable = "rule_hits";

void AddRules(const NetworkFunction::Part& part, proto::RulesReply& reply) {
  for (const NfReport::Table& table : part.nf->report().tables) {
    if (table.title != "Rules" || table.columns.size() != 6) continue;
    for (const std::vector<NfReport::Cell>& row : table.rows) {
      proto::CountedRule& rule = *reply.add_rule();
      rule.set_nf(std::string(part.name));
      rule.set_place(std::get<std::string>(row[0]));
      rule.set_text(std::get<std::string>(row[1]));
      rule.set_times(std::get<uint64_t>(row[2]));
      rule.set_packets(std::get<uint64_t>(row[3]));
      rule.set_bytes(std::get<uint64_t>(row[4]));
      rule.set_last(std::get<std::string>(row[5]));
    }
  }
}

// Adds the units of the newest generation of a chain.
void AddUnits(const ChainSet::Member& chain, proto::UnitsReply& reply) {
  const RealDriver& driver = chain.chains->newest();
  const UnitPool& units = driver.controller().units();
  reply.set_usable_units(reply.usable_units() + units.usable_units());
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
    unit.set_chain(chain.name);
  }
}

// The request names no chain that there is.
absl::Status NoSuch(const absl::Status& status) {
  return absl::InvalidArgumentError(status.message());
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
  if (const uint64_t flows = flows_before(); flows > 0) {
    (*reply.mutable_count())["predecessor_flows"] = flows;
  }
  if (reply.chain_size() > 0 && !chains_->has_rules()) {
    reply.set_nf(reply.chain(reply.chain_size() - 1).nf());
  }
  return absl::OkStatus();
}

absl::Status ControlDesk::Units(Deadline deadline,
                                const proto::UnitsRequest& request,
                                proto::UnitsReply& reply) {
  ChainSet& all = chains_->all();
  if (!request.chain().empty()) {
    const auto one = all.Find(request.chain());
    if (!one.ok()) return NoSuch(one.status());
    return mailbox_.Ask([&] { AddUnits(**one, reply); }, deadline);
  }
  const auto look = [&] {
    for (const ChainSet::Member& chain : all.members()) AddUnits(chain, reply);
  };
  return mailbox_.Ask(look, deadline);
}

absl::Status ControlDesk::Flows(Deadline deadline,
                                const proto::FlowsRequest& request,
                                proto::FlowsReply& reply) {
  return FlowDesk(chains_->all(), mailbox_, flows_before())
      .Answer(deadline, request, reply);
}

// An object of the NF is made here, and reports here: that takes its time.
absl::Status ControlDesk::RulesOf(Deadline deadline, ChainSet::Member& chain,
                                  proto::RulesReply& reply) {
  NfSpec spec;
  absl::Status asked =
      mailbox_.Ask([&] { spec = chain.chains->newest().nf(); }, deadline);
  if (!asked.ok()) return asked;
  const std::unique_ptr<NetworkFunction> nf = spec.create();
  std::vector<const NetworkFunction::Part*> counting;
  const std::vector<NetworkFunction::Part> parts = nf->parts();
  const auto load = [&] {
    const TableHomes& homes = chain.chains->newest().tables();
    size_t table = 0;
    for (const NetworkFunction::Part& part : parts) {
      for (const auto& copy : part.nf->tables()) {
        if (table == homes.size()) return;
        const TableHome& home = homes.home(table++);
        if (home.shape().name != kRuleTable) continue;
        LoadTotals(home, *copy);
        counting.push_back(&part);
      }
    }
  };
  asked = mailbox_.Ask(load, deadline);
  if (!asked.ok()) return asked;
  const int first = reply.rule_size();
  for (const NetworkFunction::Part* const part : counting) {
    AddRules(*part, reply);
  }
  for (int i = first; i < reply.rule_size(); ++i) {
    reply.mutable_rule(i)->set_chain(chain.name);
  }
  if (!counting.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      fmt::format("no NF of \"{}\" counts rules; firewall(counts=1000) does",
                  Printable(spec.text())));
}

absl::Status ControlDesk::Rules(Deadline deadline,
                                const proto::RulesRequest& /*request*/,
                                proto::RulesReply& reply) {
  // The newest chain stays the newest meanwhile.
  const std::unique_lock lock(mutex_, deadline);
  if (!lock.owns_lock()) return ChangeUnderWay();
  absl::Status none;
  for (ChainSet::Member& chain : chains_->all().members()) {
    const absl::Status status = RulesOf(deadline, chain, reply);
    if (absl::IsFailedPrecondition(status)) {
      none.Update(status);
    } else if (!status.ok()) {
      return status;
    }
  }
  return reply.rule().empty() ? none : absl::OkStatus();
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
  const auto before = settings_.Check({});
  if (!before.ok()) return before.status();
  const auto after = settings_.Check(values);
  if (!after.ok()) return after.status();
  bool are_tuned = true;
  const auto tune = [&] {
    const auto driver = [this](const std::string& name) -> RealDriver& {
      return (*chains_->all().Find(name))->chains->newest();
    };
    auto next = after->begin();
    while (next != after->end() && driver(next->first).Tune(next->second)) {
      ++next;
    }
    are_tuned = next == after->end();
    if (are_tuned) return;
    for (auto done = after->begin(); done != next; ++done) {
      driver(done->first).Tune(before->at(done->first));
    }
  };
  const absl::Status asked = mailbox_.Ask(tune, deadline);
  if (!asked.ok()) return asked;
  if (!are_tuned) {
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
  const auto chain = chains_->all().Find(request.chain());
  if (!chain.ok()) return NoSuch(chain.status());
  if (!request.has_unit()) {
    return absl::InvalidArgumentError("no unit is named");
  }
  bool is_unit = true;
  bool has_other = true;
  const auto drain = [&] {
    RealDriver& driver = (*chain)->chains->newest();
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
  const auto chain = chains_->all().Find(request.chain());
  if (!chain.ok()) return NoSuch(chain.status());
  const bool is_of_unit = request.has_unit();
  if (!is_of_unit && !request.loggers()) {
    return absl::InvalidArgumentError("neither a unit nor loggers are named");
  }
  bool is_unit = true;
  absl::StatusOr<RealFaults::Killed> killed;
  const auto kill = [&] {
    RealDriver& driver = (*chain)->chains->newest();
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
