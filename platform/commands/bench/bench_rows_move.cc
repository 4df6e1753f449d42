// SPDX-License-Identifier: Apache-2.0
//
// Row 12: the cost of moving a flow to another unit of the host.
#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/rng.h"
#include "platform/commands/bench/bench_rows.h"
#include "runtime/core/unit.h"
#include "runtime/live/host_store.h"
#include "runtime/ring/buffer_pool.h"
#include "runtime/ring/shared_region.h"
#include "runtime/sdk/nf.h"

namespace snf {
namespace {

using BenchCase = BenchSuite::BenchCase;

// Keeps as much of a flow as a firewall, a monitor and a NAT do together.
class KeepingNf final : public NetworkFunction {
 public:
  static constexpr uint32_t kBytes = 72;

 private:
  Verdict process_packet(Packet&, FlowState& flow) override {
    static constexpr std::array<std::byte, kBytes> kState{};
    flow.put(state_, kState);
    return Verdict::forward();
  }
  Blob state_ = declare_blob("state", kBytes);
};

// How a state comes to the unit that its flow moves to.
enum class Way : uint8_t {
  kPulled,  // as a message with its bytes
  kNamed,   // pulled, and read where its unit shows it
  kShown,   // read there at once
};

// Two units with some flows, each of which goes from one to the other with each
// of its packets.
class MovingFlows {
 public:
  MovingFlows(uint32_t flows, Way way)
      : way_(way),
        units_{MakeUnit(0, flows), MakeUnit(1, flows)},
        packet_(pool_.Allocate(60)),
        clocks_(flows, 0) {
    pool_.info(packet_).length = 60;
    if (way_ != Way::kPulled) UseHost(flows);
    for (uint32_t flow = 0; flow < flows; ++flow) Begin(flow);
  }

  // Moves a flow: held packet, Pull, State, service, Takeover and its
  // acknowledgement, without the rings in between. Or, of a state that is
  // shown: service, Takeover, acknowledgement, and showing the new state.
  void MoveOne() {
    const auto flow = static_cast<uint32_t>(rng_.Below(clocks_.size()));
    const uint64_t clock = ++clocks_[flow];
    Unit& to = units_[clock % 2];
    Unit& from = units_[1 - clock % 2];
    PacketMeta meta = Meta(flow);
    meta.source_kind = StateSource::kUnit;
    meta.source = from.id();
    meta.flags = PacketMeta::kFirstOfFlowlet | PacketMeta::kMoved;
    to.on_packet(packet_, meta);
    // A few shown records are not in the index of the store; then a name is
    // followed by the bytes.
    while (!to.begin(now_, out_)) {
      from.on_pull(now_, Take(UnitCommand::Kind::kSendPull).pull, out_);
      const State state = Take(UnitCommand::Kind::kSendState).state;
      to.on_state(now_, state, from.state_bytes(meta.flow).first(state.bytes),
                  out_);
    }
    to.finish(now_, {nf_, pool_}, out_);
    from.on_takeover(now_, Take(UnitCommand::Kind::kSendTakeover).takeover,
                     out_);
    to.on_takeover_ack(
        now_, Take(UnitCommand::Kind::kSendTakeoverAck).takeover_ack, out_);
    out_.clear();
    if (way_ == Way::kShown) ShowAll(to);
  }
  bool has_all() const {
    return units_[0].flows() + units_[1].flows() == clocks_.size();
  }

 private:
  void UseHost(uint32_t flows) {
    HostStore::Options of = {.max_units = 2,
                             .loops = 2,
                             .record_bytes = nf_.schema().record_bytes()};
    of.slots = HostStore::SlotsFor(2 * flows, of);
    const size_t part = HostStore::PartBytes(of);
    auto memory = SharedRegion::Create({.name = "snf host",
                                        .bytes = HostStore::BytesFor(of),
                                        .in_advance = 0});
    SNF_CHECK(memory.ok());
    memory_.emplace(*std::move(memory));
    const auto all = memory_->bytes();
    for (uint32_t i = 0; i < 2; ++i) {
      hosts_.at(i).emplace(of, i, all.subspan(i * part, part), all);
      units_.at(i).UseHost(*hosts_.at(i));
    }
  }
  // Lets the flows of that unit have been idle for T/2.
  void ShowAll(Unit& unit) {
    while (unit.next_wakeup() != Instant::max()) {
      now_ = std::max(now_, unit.next_wakeup());
      unit.on_timers(now_, out_);
      out_.clear();
    }
  }

  Unit MakeUnit(uint16_t number, uint32_t flows) {
    return Unit(UnitId{number},
                {.max_flows = flows,
                 .queue_packets = 64,
                 .packets_elsewhere = 0,
                 .retry_after = Nanos::max()},
                nf_.schema());
  }
  PacketMeta Meta(uint32_t flow) const {
    PacketMeta meta;
    meta.flow = MakeFlowId(0, flow, 1);
    meta.clock = Clock{clocks_[flow]};
    return meta;
  }
  void Begin(uint32_t flow) {
    Unit& unit = units_[++clocks_[flow] % 2];
    unit.on_packet(packet_, Meta(flow));
    SNF_CHECK(unit.begin(now_, out_));
    unit.finish(now_, {nf_, pool_}, out_);
    out_.clear();
    if (way_ == Way::kShown) ShowAll(unit);
  }
  // Returns the command of that kind, which has to be there, and clears all.
  UnitCommand Take(UnitCommand::Kind kind) {
    for (const UnitCommand& command : out_.commands()) {
      if (command.kind != kind) continue;
      const UnitCommand taken = command;
      out_.clear();
      return taken;
    }
    SNF_CHECK(false);
  }

  BufferPool pool_{{.small = 8, .medium = 0, .large = 0}};
  KeepingNf nf_;
  const Way way_;
  Instant now_{};
  std::optional<SharedRegion> memory_;
  std::array<std::optional<HostStore>, 2> hosts_;
  std::array<Unit, 2> units_;
  PacketHandle packet_;
  std::vector<uint64_t> clocks_;  // by flow
  UnitOut out_;
  Rng rng_{1};
};

BenchSuite::Make Moves(uint32_t flows, Way way) {
  return [flows, way]() -> absl::StatusOr<BenchCase> {
    auto moving = std::make_shared<MovingFlows>(flows, way);
    return BenchCase{
        .sample =
            [moving](uint64_t operations) {
              return CpuNsOf(operations, [&](uint64_t n) {
                for (uint64_t i = 0; i < n; ++i) moving->MoveOne();
                return n;
              });
            },
        .check =
            [moving] {
              return moving->has_all()
                         ? absl::OkStatus()
                         : absl::InternalError("a flow that moves is lost");
            }};
  };
}

}  // namespace

void AddMoveRows(int number, const BenchSizes& sizes, BenchSuite& suite,
                 std::vector<BenchRow>& rows) {
  SNF_CHECK(number == 12);
  const auto side = [&suite](uint32_t flows) {
    const std::string what = InThousands(flows) + " flows";
    return BenchRow::Side{
        what, suite.Add("move " + what, Moves(flows, Way::kPulled))};
  };
  const auto side_by = [&](Way way, const std::string& what) {
    return BenchRow::Side{what,
                          suite.Add("move " + what, Moves(sizes.flows, way))};
  };
  rows.push_back(
      {.number = 12,
       .what = "moving a flow inside a host, by how many there are",
       .must = {{.limit = 1.5}},
       .aim = {{.limit = 1.5}},
       .aim_ours = 10'000,
       .ours = side(10 * sizes.flows),
       .base = side(sizes.flows),
       .notes = {
           "The state of a chain, pulled; the time of both units, without "
           "the rings between them. Serpens moves a flow in 60 to 63 µs, "
           "state by reference."}});
  rows.push_back(
      {.number = 12,
       .what = "the same, of a state that its unit shows, against pulling it",
       .variant = InThousands(sizes.flows) + " flows",
       .ours = side_by(Way::kShown, "read where it is shown"),
       .base = side_by(Way::kPulled, "pulled with its bytes"),
       .beside = {side_by(Way::kNamed, "pulled by its name")},
       .notes = {"By --host_state; ours with showing the state for the next "
                 "move. In processes each message saved is two hops less, by "
                 "the controller's process."}});
}

}  // namespace snf
