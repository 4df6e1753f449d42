// SPDX-License-Identifier: Apache-2.0
#include "runtime/live/unit_reporter.h"

#include <optional>
#include <vector>

#include "absl/container/flat_hash_set.h"

namespace snf {
namespace {

// Sends the report of a unit, and keeps its open requests.
class Sender final : public Unit::Report {
 public:
  explicit Sender(LinkOut& out) : out_(out) {}
  void on_flow(const FlowReport& flow) override {
    out_.Send(UnitCommand::Of(flow));
  }
  void on_packet(const PacketReport& packet) override {
    out_.Send(UnitCommand::Of(UnitCommand::Kind::kReportPacket, packet));
  }
  void on_parked(const PacketReport& packet) override {
    out_.Send(UnitCommand::Of(UnitCommand::Kind::kReportParked, packet));
  }
  void on_open_alias(const Alias& alias) override { aliases_.push_back(alias); }
  void on_open_request(const PieceRequest& request) override {
    requests_.push_back(request);
  }

  // Asks the new controller.
  void AskAgain() {
    for (const Alias& alias : aliases_) {
      UnitCommand ask =
          UnitCommand::OfPacket(UnitCommand::Kind::kSendAlias, kNoPacket, {});
      ask.unit = alias.unit;
      ask.meta.flow = alias.flow;
      ask.meta.clock = alias.clock;
      out_.Send(ask, std::as_bytes(std::span(&alias, 1)));
    }
    for (const PieceRequest& request : requests_) {
      UnitCommand ask = UnitCommand::Send(request);
      ask.unit = request.unit;
      out_.Send(ask);
    }
  }

 private:
  LinkOut& out_;
  std::vector<Alias> aliases_;
  std::vector<PieceRequest> requests_;
};

// Finds the flows of which packets are in a unit.
class Flows final : public Unit::Report {
 public:
  void on_flow(const FlowReport& /*flow*/) override {}
  void on_packet(const PacketReport& packet) override {
    flows_.insert(packet.meta.flow);
  }
  void on_open_alias(const Alias& /*alias*/) override {}
  void on_open_request(const PieceRequest& /*request*/) override {}
  bool Has(FlowId flow) const { return flows_.contains(flow); }

 private:
  absl::flat_hash_set<FlowId> flows_;
};

// The unit does not know whether it is starting, nor its channel; its logger
// reports the grants.
UnitReport StandingOf(const LoopUnit& shell) {
  UnitReport standing = {.unit = shell.unit.id(),
                         .incarnation = shell.incarnation};
  if (shell.has_left) return standing;  // its lease is over
  if (shell.ready) {
    standing.state = UnitReport::State::kActive;
  } else if (shell.incarnation > 0) {
    standing.state = UnitReport::State::kWarm;
  }
  return standing;
}

}  // namespace

void UnitReporter::Answer(const LoopUnit& unit, uint32_t round, LinkOut& out) {
  const DoneAnswer last = {.round = round, .unit = unit.unit.id()};
  for (uint32_t at = 0;;) {
    auto done = unit.unit.NextDone(at);
    if (!done.has_value()) break;
    done->round = round;
    out.Send(UnitCommand::Done(*done));
  }
  out.Send(UnitCommand::Done(last));
}

void UnitReporter::Keep(LoopUnit& unit, const FlowName& name) {
  std::optional<Flows> flows;
  unit.kept.on_name(name, [&](FlowId flow) {
    if (unit.unit.Keeps(flow)) return true;
    if (!flows.has_value()) {
      flows.emplace();
      unit.unit.MakeReport(*flows);
    }
    return flows->Has(flow);
  });
}

void UnitReporter::Report(uint32_t epoch, std::span<LoopUnit> units,
                          LinkOut& out, UnitLogs& logs) {
  epoch_ = epoch;
  if (units.empty()) return;
  Sender sender(out);
  for (LoopUnit& shell : units) {
    const UnitId unit = shell.unit.id();
    shell.kept.ForEachName([&](const FlowName& name) {
      out.Send(UnitCommand::OfName(unit), std::as_bytes(std::span(&name, 1)));
    });
    // A unit that is starting has packets as well.
    shell.unit.MakeReport(sender);
    out.Send(UnitCommand::Of(StandingOf(shell)));
  }
  // The marks of ends that the loggers may not have.
  logs.ForEachUnreleased([&](const UnitLogs::Sent& sent) {
    if (!sent.is_end()) return;
    out.Send(
        UnitCommand::Of(FlowReport{.flow = sent.meta.flow,
                                   .clock = Clock{value(sent.meta.clock) - 1},
                                   .unit = sent.unit,
                                   .kind = FlowReport::Kind::kEnd}));
  });
  out.Send(UnitCommand::Reported(units[0].unit.id(), epoch));
  logs.SendReport(epoch);
  sender.AskAgain();
}

}  // namespace snf
