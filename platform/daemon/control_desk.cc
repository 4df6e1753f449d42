// SPDX-License-Identifier: Apache-2.0
#include "platform/daemon/control_desk.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "absl/functional/function_ref.h"
#include "base/packet/flow_key_text.h"
#include "base/text/wording.h"
#include "platform/control/control_figures.h"
#include "platform/drivers/real_time/real_driver.h"
#include "platform/outcome/flow_filter.h"
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

// A flow as the dispatcher copies it: its text is made elsewhere.
struct SeenFlow {
  uint32_t chain;
  FlowId id;
  FlowHot hot;
  FlowKey alias;  // of no form: it has none
  uint32_t flowlet;
  UnitId owner;
  int64_t demand_bps;
  Nanos idle;
};

bool HadPacketLater(const SeenFlow& a, const SeenFlow& b) {
  return a.idle < b.idle;
}

// The part of the chains' tables that one letter looks at.
struct Piece {
  uint32_t slots;  // at most
  uint32_t chain = 0;
  uint32_t begin = 0;
  bool is_last = false;
  std::vector<SeenFlow> flows{};
};

// Reads the flows of the piece that `selects` wants, and goes to the next.
void Read(ChainSet& chains, absl::FunctionRef<bool(const SeenFlow&)> selects,
          Piece& piece) {
  piece.flows.clear();
  const std::optional<uint32_t> number = chains.FirstFrom(piece.chain);
  piece.is_last = !number.has_value();
  if (piece.is_last) return;
  if (*number != piece.chain) piece.begin = 0;
  piece.chain = *number;
  const RealDriver& driver = *chains.FindDriver(*number);
  const Controller& controller = driver.controller();
  const FlowTable& table = controller.flows();
  const Instant now = driver.clock().Now();
  const uint32_t end = std::min(piece.begin + piece.slots, table.used());
  for (uint32_t slot = piece.begin; slot < end; ++slot) {
    const FlowCold& cold = table.cold(slot);
    if (cold.owner == kNoUnit) continue;
    const FlowHot& hot = table.hot(slot);
    Alias alias;
    const SeenFlow flow = {
        .chain = *number,
        .id = controller.IdOfSlot(slot),
        .hot = hot,
        .alias = controller.aliases().Read(slot, alias) ? alias.key : FlowKey(),
        .flowlet = table.numbers(slot).flowlet,
        .owner = cold.owner,
        .demand_bps = cold.demand_bps,
        .idle = std::max(now - hot.last_packet, Nanos{})};
    if (selects(flow)) piece.flows.push_back(flow);
  }
  piece.begin = end;
  if (end < table.used()) return;
  ++piece.chain;
  piece.begin = 0;
}

// Deletes the flows that have not ended. Leaves in `flows` each that cannot be
// deleted yet. Returns the number of deleted flows.
uint64_t Delete(ChainSet& chains, std::vector<SeenFlow>& flows) {
  uint64_t deleted = 0;
  std::erase_if(flows, [&](const SeenFlow& flow) {
    RealDriver* const driver = chains.FindDriver(flow.chain);
    if (driver == nullptr) return true;
    const Controller& controller = driver->controller();
    const FlowTable& table = controller.flows();
    const uint32_t slot = slot_of(flow.id);
    const bool is_there = slot < table.used() &&
                          table.cold(slot).owner != kNoUnit &&
                          table.hot(slot).key == flow.hot.key &&
                          controller.IdOfSlot(slot) == flow.id &&
                          (table.hot(slot).flags & FlowHot::kEnding) == 0;
    if (!is_there) return true;
    const bool is_deleted = driver->DeleteFlow(flow.id);
    deleted += is_deleted ? 1 : 0;
    return is_deleted;
  });
  return deleted;
}

// The flows that a request names.
class Selection {
 public:
  // Errors: as FlowFilter::Compile.
  static absl::StatusOr<Selection> Of(const proto::FlowsRequest& request) {
    auto filter = FlowFilter::Compile(request.filter());
    if (!filter.ok()) return filter.status();
    return Selection(request, *std::move(filter));
  }

  bool operator()(const SeenFlow& flow) {
    if (unit_.has_value() && value(flow.owner) != *unit_) return false;
    if (filter_.SelectsFlow(flow.hot.key)) return true;
    return flow.alias.form != FlowKeyForm::kNone &&
           filter_.SelectsFlow(flow.alias);
  }

 private:
  Selection(const proto::FlowsRequest& request, FlowFilter filter)
      : filter_(std::move(filter)) {
    if (request.has_unit()) unit_ = request.unit();
  }

  FlowFilter filter_;
  std::optional<uint32_t> unit_;
};

void SetFlow(const SeenFlow& from, proto::Flow& to) {
  to.set_chain(from.chain);
  to.set_key(ToString(from.hot.key));
  if (from.alias.form != FlowKeyForm::kNone) {
    to.set_alias(ToString(from.alias));
  }
  to.set_unit(value(from.owner));
  to.set_clock(value(from.hot.clock));
  to.set_flowlet(from.flowlet);
  to.set_is_open((from.hot.flags & FlowHot::kOpen) != 0);
  to.set_flowlet_bytes(from.hot.flowlet_bytes);
  to.set_rate_bps(from.demand_bps);
  to.set_idle_ns(from.idle.ns);
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
  if (request.limit() > kMostFlows) {
    return absl::InvalidArgumentError(
        fmt::format("limit={}: want at most {}", request.limit(), kMostFlows));
  }
  auto selection = Selection::Of(request);
  if (!selection.ok()) return selection.status();
  if (request.deletes()) return DeleteFlows(deadline, request, reply);
  const size_t limit = request.limit() == 0 ? kFlows : request.limit();
  std::vector<SeenFlow>
      latest;  // a heap: the one that is idle longest is first
  uint64_t count = 0;
  Piece piece = {.slots = kSlotsAtATime};
  piece.flows.reserve(kSlotsAtATime);
  const auto all = [](const SeenFlow&) { return true; };
  do {
    const absl::Status status =
        mailbox_.Ask([&] { Read(chains_->all(), all, piece); }, deadline);
    if (!status.ok()) return status;
    for (const SeenFlow& flow : piece.flows) {
      if (!(*selection)(flow)) continue;
      ++count;
      latest.push_back(flow);
      std::ranges::push_heap(latest, HadPacketLater);
      if (latest.size() <= limit) continue;
      std::ranges::pop_heap(latest, HadPacketLater);
      latest.pop_back();
    }
  } while (!piece.is_last);
  std::ranges::sort_heap(latest, HadPacketLater);
  for (const SeenFlow& flow : latest) SetFlow(flow, *reply.add_flow());
  reply.set_flows(count);
  return absl::OkStatus();
}

// One letter finds a flow and deletes it: between letters another flow could
// get the slot.
absl::Status ControlDesk::DeleteFlows(Deadline deadline,
                                      const proto::FlowsRequest& request,
                                      proto::FlowsReply& reply) {
  if (request.filter().empty() && !request.has_unit()) {
    return absl::InvalidArgumentError(
        "to delete flows wants a filter or a unit; \"ip or ip6\" is all");
  }
  auto selection = Selection::Of(request);
  if (!selection.ok()) return selection.status();
  const size_t limit = request.limit() == 0 ? kFlows : request.limit();
  uint64_t selected = 0;
  uint64_t deleted = 0;
  std::vector<SeenFlow> left;  // they could not be deleted yet
  Piece piece = {.slots = kDeletedAtATime};
  const auto selects = [&](const SeenFlow& flow) { return (*selection)(flow); };
  const auto letter = [&] {
    Read(chains_->all(), selects, piece);
    selected += piece.flows.size();
    for (const SeenFlow& flow : piece.flows) {
      if (static_cast<size_t>(reply.flow_size()) == limit) break;
      SetFlow(flow, *reply.add_flow());
    }
    deleted += Delete(chains_->all(), piece.flows);
    left.insert(left.end(), piece.flows.begin(), piece.flows.end());
  };
  do {
    const absl::Status status = mailbox_.Ask(letter, deadline);
    if (!status.ok()) return status;
  } while (!piece.is_last);
  const Deadline end =
      std::min(deadline, std::chrono::steady_clock::now() + kDeletesWithin);
  while (!left.empty() && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    const absl::Status status = mailbox_.Ask(
        [&] { deleted += Delete(chains_->all(), left); }, deadline);
    if (!status.ok()) return status;
  }
  reply.set_flows(deleted);
  const std::string selecting = request.filter().empty()
                                    ? fmt::format("unit {}", request.unit())
                                    : Printable(request.filter());
  LogLine(LogLevel::kInfo, fmt::format("deleted {} of \"{}\"",
                                       Plural(deleted, "flow"), selecting));
  if (selected == 0) {
    return absl::FailedPreconditionError(
        fmt::format("no flow is selected by \"{}\"", selecting));
  }
  if (left.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(fmt::format(
      "{} deleted, but not {}{}: part of its state is still at another unit",
      Plural(deleted, "flow"), ToString(left.front().hot.key),
      left.size() == 1 ? "" : fmt::format(" and {} more", left.size() - 1)));
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
