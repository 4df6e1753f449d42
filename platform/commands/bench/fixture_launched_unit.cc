// SPDX-License-Identifier: Apache-2.0
#include "platform/commands/bench/fixture_launched_unit.h"

#include <chrono>
#include <cstring>
#include <new>
#include <thread>
#include <utility>

#include "base/byte_order.h"
#include "base/packet/fixture_flows.h"
#include "base/packet/packet_info.h"
#include "base/packet/packet_parser.h"
#include "runtime/ring/real_clock.h"
#include "runtime/wire/link_payload.h"

namespace snf {
namespace {

constexpr UnitId kUnit{0};
constexpr uint32_t kFlows = 1'024;

UnitLoopOptions LoopOptions() {
  UnitLoopOptions options;
  options.max_units = 1;
  options.unit.max_flows = kFlows;
  options.unit.queue_packets = 64;
  options.unit.packets_elsewhere = 0;
  return options;
}

}  // namespace

absl::StatusOr<std::unique_ptr<LaunchedUnit>> LaunchedUnit::Start(
    Isolation isolation) {
  const auto nf = NfSpec::Parse("nat(ip=203.0.113.1)");
  if (!nf.ok()) return nf.status();
  const LoopRegion::Options options = {
      .controller = {.small = 64, .medium = 1, .large = 1},
      .loop = {.small = 16, .medium = 1, .large = 1},
      .loops = 1,
      .apart = true,
      .record_bytes = nf->create()->schema().record_bytes()};
  auto region = LoopRegion::Create(options);
  if (!region.ok()) return region.status();
  std::unique_ptr<LaunchedUnit> unit(
      new LaunchedUnit(options, *std::move(region), *nf));
  if (absl::Status s = unit->Launch(isolation, *nf); !s.ok()) return s;
  return unit;
}

LaunchedUnit::LaunchedUnit(const LoopRegion::Options& options,
                           LoopRegion region, const NfSpec& nf)
    : options_(options), region_(std::move(region)), nf_(nf.create()) {
  region_.clock->Start(RealClock::Monotonic());
  region_.loops[0].clock->Follow(*region_.clock);
}

absl::Status LaunchedUnit::Launch(Isolation isolation, const NfSpec& nf) {
  UnitProcesses::Options options = {.program = "/proc/self/exe",
                                    .setup = {.region = options_,
                                              .loop = LoopOptions(),
                                              .loggers = {},
                                              .nf_patience = Seconds(10),
                                              .isolation = isolation,
                                              .at_once = 1,
                                              .rehearses = true},
                                    .nf = nf.text(),
                                    .regions = {region_.memory_of(0).fd()},
                                    .host = {},
                                    .like = {},
                                    .told = [] {},
                                    .killed = [] {}};
  for (const NetworkFunction::Part& part : nf_->parts()) {
    options.like.figures.nf_counts.resize(
        options.like.figures.nf_counts.size() + part.nf->counts().size());
  }
  options.like.tables.emplace_back();
  auto processes = UnitProcesses::Start(std::move(options));
  if (!processes.ok()) return processes.status();
  processes_ = *std::move(processes);
  processes_->LetEnd(0, true);
  // Its flow gets what a NAT wants of a controller.
  StartAndEnqueue(/*warm=*/false);
  if (!WaitUntil([this] { return is_back_; })) {
    return absl::InternalError("the unit's first packet did not come back");
  }
  return absl::OkStatus();
}

bool LaunchedUnit::WaitUntil(auto&& is_so) {
  const Instant begin = RealClock::Monotonic();
  while (!is_so()) {
    Answer();
    if (RealClock::Monotonic() - begin > Seconds(10)) return false;
  }
  return true;
}

Nanos LaunchedUnit::Wake() {
  Send(ControllerCommand::OfUnit(ControllerCommand::Kind::kParkUnit, kUnit,
                                 /*warm=*/true));
  std::this_thread::sleep_for(std::chrono::milliseconds(1));
  const Instant begin = RealClock::Monotonic();
  StartAndEnqueue(/*warm=*/true);
  if (!WaitUntil([this] { return is_back_; })) return Nanos::max();
  return RealClock::Monotonic() - begin;
}

Nanos LaunchedUnit::Make() {
  const LoopRegion::Loop& loop = region_.loops[0];
  loop.control->stops = true;
  loop.bell->Ring();
  if (!WaitUntil([this] { return processes_->TakeEnd().has_value(); })) {
    return Nanos::max();
  }
  loop.control->stops = false;
  ++flow_;
  clock_ = 0;
  const Instant begin = RealClock::Monotonic();
  processes_->StartAgain(0);
  StartAndEnqueue(/*warm=*/false);
  if (!WaitUntil([this] { return is_back_; })) return Nanos::max();
  const Nanos took = RealClock::Monotonic() - begin;
  const bool is_ready = WaitUntil([this] { return processes_->is_ready(0); });
  return is_ready ? took : Nanos::max();
}

void LaunchedUnit::Send(const ControllerCommand& command) {
  LinkOut& out = region_.controller.loops[0].out;
  out.Send(command);
  out.Flush();
}

void LaunchedUnit::StartAndEnqueue(bool warm) {
  is_back_ = false;
  const MadeConnection of = MadeConnection::Number(0);
  const MadeFrame made = MakeFrame(of.protocol, of.inside, of.far);
  const auto frame = std::span(made).first<kMadeBytes>();
  const PacketHandle packet = region_.buffers.Allocate(frame.size());
  const auto [info, room] = region_.buffers.whole(packet);
  std::memcpy(room.data(), frame.data(), frame.size());
  const Instant now = region_.clock->Now();
  new (&info) PacketInfo{
      .arrival = now,
      .length = frame.size(),
      .original_length = frame.size(),
      .headers = Parse(LinkType::kEthernet, room.first(frame.size())),
      .link = LinkType::kEthernet,
      .side = Side::kInside,
      .far_port = of.far.port,
      .far_address = IpAddress::FromIpv4(of.far.address)};
  region_.buffers.CopyTo(region_.controller.copies[0], packet);
  const bool is_new = ++clock_ == 1;
  LinkOut& out = region_.controller.loops[0].out;
  out.Send(ControllerCommand::Start(kUnit, warm, ++incarnation_));
  Send(ControllerCommand::Enqueue(
      kUnit, packet,
      {.flow = FlowId{1 + uint64_t{flow_}},
       .clock = Clock{clock_},
       .arrival = now,
       .channel_number = ++number_,
       .flowlet = static_cast<uint32_t>(clock_),
       .original_length = frame.size(),
       .flags = static_cast<uint8_t>(
           PacketMeta::kFirstOfFlowlet |
           (is_new ? PacketMeta::kNewFlow : uint8_t{0}))}));
}

void LaunchedUnit::Answer() {
  using Kind = UnitCommand::Kind;
  LinkIn& in = region_.controller.loops[0].in;
  in.Receive();
  in.Handle(PayloadToController, [this](const Cell& cell,
                                        std::span<const std::byte> payload) {
    if (cell.is_table()) return;
    const auto& command = cell.As<UnitCommand>();
    if (command.kind == Kind::kRequestPieces) {
      const uint16_t pool = command.request.pool;
      const PieceBlock block = {
          .word = static_cast<uint32_t>(nf_->pools()[pool].first / 64),
          .pool = pool,
          .unit = kUnit,
          .mask = ~uint64_t{0}};
      Send(ControllerCommand::Pieces(ControllerCommand::Kind::kPieces, block));
    } else if (command.kind == Kind::kSendAlias) {
      const auto alias = LoadAs<Alias>(payload.data());
      Send(ControllerCommand::Ack(kUnit,
                                  {.flow = alias.flow, .clock = alias.clock}));
    } else if (command.kind <= Kind::kConsume) {
      is_back_ = true;
      region_.buffers.Return(command.packet);
    }
  });
}

}  // namespace snf
