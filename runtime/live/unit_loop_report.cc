// SPDX-License-Identifier: Apache-2.0
//
// What a loop of units reports to a controller that takes the place of one that
// has failed.
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "runtime/live/unit_loop.h"

namespace snf {
namespace {

// Sends what a unit reports, and keeps what it waits for.
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
      UnitCommand ask = UnitCommand::OfPacket(UnitCommand::Kind::kSendAlias,
                                              kNoPacket, {});
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

}  // namespace

void UnitLoop::on_name(UnitShell& shell, const FlowName& name) {
  std::optional<Flows> flows;
  shell.kept.on_name(name, [&](FlowId flow) {
    if (shell.unit.Keeps(flow)) return true;
    if (!flows.has_value()) {
      flows.emplace();
      shell.unit.MakeReport(*flows);
    }
    return flows->Has(flow);
  });
}

// Whether it is starting, and what it has of its channel, is not for the unit
// to say; its logger says what it was granted.
UnitReport UnitLoop::StandingOf(const UnitShell& shell) const {
  UnitReport standing = {.unit = shell.unit.id(),
                         .incarnation = shell.incarnation};
  if (shell.ready) {
    standing.state = UnitReport::State::kActive;
  } else if (shell.incarnation > 0) {
    standing.state = UnitReport::State::kWarm;
  }
  return standing;
}

// The controller before has failed, so its ring gets no more.
void UnitLoop::MakeReport() {
  const uint32_t epoch =
      links_.controllers->newest.load(std::memory_order_acquire);
  while (HandleController() > 0 || links_.from_controller.has_items()) {
    if (links_.from_controller.is_closed()) return;
    links_.from_controller.Receive();
  }
  epoch_ = epoch;
  if (shells_.empty()) return;
  LinkOut& out = links_.to_controller;
  Sender sender(out);
  for (UnitShell& shell : shells_) {
    shell.unit.on_start();  // a Stop is void from now on
    const UnitId unit = shell.unit.id();
    shell.kept.ForEachName([&](const FlowName& name) {
      out.Send(UnitCommand::OfName(unit), std::as_bytes(std::span(&name, 1)));
    });
    // One that is starting has packets as well.
    shell.unit.MakeReport(sender);
    out.Send(UnitCommand::Of(StandingOf(shell)));
  }
  // The marks of ends that the loggers may not have.
  logs_->ForEachUnreleased([&](const UnitLogs::Sent& sent) {
    if (!sent.is_end()) return;
    out.Send(UnitCommand::Of(
        FlowReport{.flow = sent.meta.flow,
                   .clock = Clock{value(sent.meta.clock) - 1},
                   .unit = sent.unit,
                   .kind = FlowReport::Kind::kEnd}));
  });
  out.Send(UnitCommand::Reported(shells_[0].unit.id(), epoch));
  logs_->SendReport(epoch);
  sender.AskAgain();
}

}  // namespace snf
