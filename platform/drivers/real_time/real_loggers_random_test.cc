// SPDX-License-Identifier: Apache-2.0
//
// Random schedules of a controller's loop, loops of units and loops of their
// loggers, over rings that fill up. All take their turns on one thread, in an
// order that follows from the seed, some far less often than others: as if
// threads were delayed for as long as it takes. In some, others take the place
// of the loggers now and then, wherever these are; in others, the controller
// fails, at any point between two messages, and has a successor, and loops of
// units and loggers fail as well, whatever the controller is at, but not a unit
// and its logger at once. In half of all, units show each other the states of
// flows, in memory that outlives them; in half of these, the loops of units are
// on two hosts, and the next process of a loop may be on another one. Only the
// clock is the machine's. A
// failure names its seed, which SNF_TEST_SEED=n runs alone; SNF_LONG_TESTS=1
// runs 50 times as many.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/packet/ip_prefix.h"
#include "base/rng.h"
#include "base/test_seeds.h"
#include "controller/core/placement.h"
#include "controller/live/controller_loop.h"
#include "platform/drivers/loops/loop_region.h"
#include "platform/drivers/loops/real_loggers.h"
#include "platform/drivers/real_time/egress.h"
#include "platform/drivers/real_time/test_by_flow.h"
#include "platform/run/ingress.h"
#include "platform/run/run_setup.h"
#include "platform/system_test/test_run.h"
#include "platform/system_test/test_tiny_nat.h"
#include "runtime/live/loggers/logger_loop.h"
#include "runtime/live/test_host_memory.h"
#include "runtime/live/unit_loop.h"
#include "runtime/ring/real_clock.h"
#include "runtime/tables/unit_tables.h"

namespace snf {
namespace {

using Totals = std::map<std::string_view, uint64_t>;

constexpr int64_t kStart = 1'700'000'000'000'000'000;

constexpr BufferPool::Options kBuffers = {
    .small = 1'024, .medium = 2, .large = 1};

// What a seed stands for.
struct Plan {
  Plan(uint64_t seed, bool fails) : rng(seed) {
    loops = static_cast<uint32_t>(rng.Uniform(1, 3));
    options = TinyNatTables();  // with a pool of ports, and flows that end
    options.loggers = true;
    options.inside = *ParsePrefixes("10.0.0.0/8");
    ControllerOptions& c = options.controller;
    c.max_units = static_cast<uint16_t>(rng.Uniform(1, 6));
    c.unit_queue_packets = uint32_t{16} << rng.Below(6);
    c.start_buffer_packets = c.unit_queue_packets;
    options.hold_packets = c.unit_queue_packets;
    c.flow_timeout = rng.Chance(32'768) ? Nanos::max() : Milliseconds(500);
    const std::array<NfSpec, 4> nfs = {
        TimelessChronicleNf(), ChronicleNf(), TinyNat(),
        *NfSpec::Parse("firewall | monitor | nat(ip=203.0.113.1)")};
    kind = seed % nfs.size();
    // A flow that ends since a turn was late is another one when it goes on.
    if (is_chronicle() || is_chain()) c.flow_timeout = Nanos::max();
    nf = nfs[kind];
    policy = rng.Chance(32'768) ? "rotate" : "snf";
    // Of many flows more is handed over than a ring has room for.
    const bool has_many = kind < 2 && rng.Chance(16'384);
    const auto flows =
        static_cast<uint32_t>(rng.Uniform(1, has_many ? 600 : 30));
    const auto packets = static_cast<uint32_t>(rng.Uniform(100, 1'500));
    for (uint32_t i = 0; i < packets; ++i) {
      FrameFields fields = {.flow = static_cast<uint32_t>(rng.Below(flows)),
                            .sequence = i};
      if (kind == 1) {
        fields.ask = Ask{static_cast<uint8_t>(rng.Uniform(1, 8))};
      } else if (kind == 2 && rng.Chance(fails ? 6'000 : 2'000)) {
        fields.ask = kEnd;
      }
      frames.push_back({.time = Instant{kStart + i * int64_t{10'000}},
                        .bytes = UdpFrame(fields)});
    }
    // Half the runs write log records, none of them with a NAT.
    options.nf_logs = kind < 2 && seed / 8 % 2 == 0;
    if (fails) {
      fails_65536 = static_cast<uint32_t>(rng.Uniform(1, 400));
      PrepareForFailures(c);
      c.awaits_ends = c.names_flows = true;
    } else if (rng.Chance(32'768)) {
      replaced_65536 = static_cast<uint32_t>(rng.Uniform(16, 3'200));
      PrepareForFailures(c);
      c.awaits_ends = true;
    }
    if (fails && rng.Chance(32'768)) {
      kills_65536 = static_cast<uint32_t>(rng.Uniform(1, 60));
      AddSpareUnits(c);
      PrepareForFailures(c);
    }
    if (fails && rng.Chance(32'768)) {
      replaced_65536 = static_cast<uint32_t>(rng.Uniform(16, 1'000));
    }
    c.forgets_copies = fails && recovers();
    is_apart = seed / 4 % 2 == 0 || kills();
    options.table_period = Microseconds(rng.Uniform(1, 300));
    shows = seed / 16 % 2 == 0;
    if (!shows) return;
    c.flowlet_timeout = Microseconds(rng.Uniform(2, 60));
    hosts = loops > 1 && seed / 32 % 2 == 0 ? 2 : 1;
    // Else units push states to units of other hosts.
    if (hosts == 1) c.units_per_host = c.max_units;
  }
  bool fails() const { return fails_65536 > 0; }
  bool kills() const { return kills_65536 > 0; }
  bool recovers() const { return replaces() || kills(); }
  bool replaces() const { return replaced_65536 > 0; }
  bool is_chronicle() const { return kind == 0; }
  bool has_timers() const { return kind == 1; }
  bool is_chain() const { return kind == 3; }

  Rng rng;
  uint32_t loops = 1;
  bool is_apart = false;  // each loop of units has memory of its own
  bool shows = false;     // units show each other the states of flows
  uint32_t hosts = 1;     // each with such memory
  size_t kind = 0;
  RunOptions options;
  NfSpec nf = ForwardingNf();
  std::string_view policy;
  std::vector<OfferedFrame> frames;
  uint32_t replaced_65536 = 0;  // chance of the loggers, with each turn
  uint32_t fails_65536 = 0;     // of the controller, with each step
  uint32_t kills_65536 = 0;     // the same of some loop of units
};

// The host's records for units of one loop. Before some reads other loops take
// turns, so that reads come in the middle of a turn.
class InterruptedRecords final : public HostRecords {
 public:
  InterruptedRecords(HostRecords& records, std::function<void()> before_read)
      : records_(records), before_read_(std::move(before_read)) {}

  void on_report(uint32_t epoch) override { records_.on_report(epoch); }
  bool has(UnitId unit) const override { return records_.has(unit); }
  bool Show(UnitId unit, uint32_t slot, const State& state,
            std::span<const std::byte> bytes) override {
    return records_.Show(unit, slot, state, bytes);
  }
  std::optional<HostRecord> Read(UnitId unit, FlowId flow,
                                 Clock clock) override {
    before_read_();
    return records_.Read(unit, flow, clock);
  }
  HostMiss miss() const override { return records_.miss(); }

 private:
  HostRecords& records_;
  const std::function<void()> before_read_;
};

// The loops of a run, and what is around them.
class World {
 public:
  explicit World(Plan& plan)
      : plan_(plan),
        example_(plan.nf.create()),
        result_(EmptyResult(*example_)),
        of_region_{.controller = kBuffers,
                   .loop = kBuffers,
                   .loops = plan.loops,
                   .apart = plan.is_apart,
                   .record_bytes = example_->schema().record_bytes(),
                   .controller_cells = uint32_t{64} << plan.rng.Below(3),
                   .loggers = true,
                   .entry_bytes = MaxLogEntryBytes(example_->schema(),
                                                   LoggedTablesOf(*example_)),
                   .logger_cells = 1,
                   .recovers = plan.recovers(),
                   .reports = plan.fails(),
                   .piece_words = LoggerLoop::PieceWordsOf(*example_)},
        region_(*LoopRegion::Create(of_region_)),
        ingress_(plan.options, *example_, region_.buffers),
        loop_({.controller = plan.options.controller,
               .cold_start_delay = {},
               .warm_start_delay = {},
               .nf_reasons =
                   static_cast<uint32_t>(example_->drop_reasons().size()),
               .pools = static_cast<uint32_t>(example_->pools().size()),
               .counts_flows = HasSides(*example_),
               .recovers = plan.recovers(),
               .fails = plan.fails()},
              *FindPlacementPolicy(plan.policy),
              TableHomes(*example_, plan.options.controller.max_units,
                         TableOptionsOf(plan.options, plan.recovers())),
              clock_, Links()),
        egress_(plan.options, {&by_flow_, &logged_}, ingress_, region_.buffers,
                loop_, result_) {
    AddPiecePools(*example_, loop_.controller());
    units_.resize(plan.loops);
    seen_.resize(plan.loops);
    for (uint32_t i = 0; plan.shows && i < plan.hosts; ++i) {
      hosts_.push_back(std::make_unique<TestHostMemory>(
          HostStore::Options{.max_units = plan.options.controller.max_units,
                             .loops = plan.loops,
                             .slots = 1'024,
                             .record_bytes = example_->schema().record_bytes(),
                             .spread = plan.hosts > 1}));
    }
    for (uint32_t i = 0; i < plan.loops; ++i) {
      host_of_.push_back(i % plan.hosts);
    }
    for (uint32_t i = 0; i < plan.loops; ++i) MakeUnits(i);
    MakeLoggers();
    // Some have one turn where others have hundreds.
    for (uint32_t i = 0; i < plan.loops + 2; ++i) {
      weights_.push_back(uint32_t{1} << plan.rng.Below(9));
    }
  }

  RunResult Run() {
    clock_.Start(Instant{kStart});
    egress_.on_start(Instant{kStart});
    loop_.ReadClock();
    for (const OfferedFrame& frame : plan_.frames) {
      Offer(frame);
      for (uint64_t steps = plan_.rng.Below(6); steps > 0; --steps) Step();
    }
    Drain();
    for (int i = 0; i < 10'000 && loop_.NextDue() != Instant::max(); ++i) {
      if (testing::Test::HasFailure()) break;
      for (const auto& loop : units_) loop->StopTimers();
      clock_.SkipTo(loop_.NextDue() + Milliseconds(10));
      Drain();
    }
    loggers_->Stop();
    egress_.CheckNoneWaits();
    for (uint16_t i = 0; i < plan_.options.controller.max_units; ++i) {
      // One that has failed may not have what its logger has.
      if (plan_.kills()) break;
      const auto difference = loggers_->DifferenceFrom(
          units_[i % plan_.loops]->unit(UnitId{i}), example_->pools().size());
      EXPECT_EQ(difference.value_or(""), "") << "unit " << i;
    }
    egress_.Finish(loop_.now());
    EXPECT_EQ(region_.faults->count(), 0u)
        << ToString(region_.faults->first().value_or(WireFault{}));
    uint32_t in_use = region_.buffers.in_use();
    for (const auto& loop : units_) in_use += loop->buffers_in_use();
    EXPECT_EQ(in_use, 0u);
    return std::move(result_);
  }

  const ByFlow& by_flow() const { return by_flow_; }
  const LoggedFrames& logged() const { return logged_; }
  uint64_t records_refused() const {
    uint64_t refused = refused_;
    for (const auto& loop : units_) {
      refused += loop->figures().state.units.records_refused;
    }
    return refused;
  }
  // Returns the sum over all entries of tables of that name.
  uint64_t SumOfTable(std::string_view name, uint32_t word) const {
    uint64_t sum = 0;
    for (size_t i = 0; i < loop_.tables().size(); ++i) {
      const TableHome& home = loop_.tables().home(i);
      if (home.shape().name != name) continue;
      sum += home.rest()[word];
      for (uint32_t slot = 0; slot < home.slots(); ++slot) {
        if (home.IsEntry(slot)) sum += home.total(slot)[word];
      }
    }
    return sum;
  }
  uint64_t packets_lost() const {
    return plan_.fails() ? loop_.succession()->counters().packets_lost : 0;
  }
  const PieceCounters& pieces() const {
    return loop_.controller().counters().pieces;
  }
  bool have_all_failed() const {
    return kills_ > 0 && failures_ > 0 && process_ > 0;
  }
  void AddTo(Totals& totals) const {
    for (const auto& loop : units_) {
      const UnitLoopFigures figures = loop->figures();
      totals["entries"] += figures.logs.entries;
      totals["whole deltas"] += figures.logs.whole;
      totals["partial deltas"] += figures.logs.partial;
      totals["rings that were full"] += figures.logs.full;
      totals["states pulled"] += figures.state.pulled;
      totals["states pushed"] += figures.state.pushes;
      const UnitCounters& units = figures.state.units;
      totals["states shown"] += units.records_shown;
      totals["states read where they are shown"] += units.records_read;
      totals["of these, of units that failed"] += units.records_recovered;
      if (plan_.hosts > 1) {
        totals["states read on the own one of two hosts"] += units.records_read;
      }
      totals["states of units that failed, from logs"] += units.records_rebuilt;
      for (size_t i = 0; i < kHostMisses; ++i) {
        if (i == static_cast<size_t>(HostMiss::kAhead)) {
          totals["shown states of reports ahead"] += units.records_missed[i];
        } else if (i == static_cast<size_t>(HostMiss::kAway)) {
          totals["states on the other host"] += units.records_missed[i];
        } else if (i == static_cast<size_t>(HostMiss::kMalformed)) {
          EXPECT_EQ(units.records_missed[i], 0u);
        }
      }
    }
    const ControllerCounters& counters = loop_.controller().counters();
    totals["flowlets that moved"] += counters.flowlets_moved;
    totals["flows that ended"] += counters.flows_ended;
    totals["schedules"] += 1;
    if (plan_.fails()) {
      const SuccessionCounters& made = loop_.succession()->counters();
      totals["controllers that failed"] += failures_;
      totals["packets lost with them"] += made.packets_lost;
      totals["clocks lost with them"] += made.clocks_lost;
      totals["packets that waited"] += made.packets_waited;
      totals["flows found"] += made.flows;
      totals["flows found ending"] += made.flows_ending;
      totals["tombstones"] += made.tombstones;
      totals["null packets"] += made.null_packets;
      totals["redirects"] += made.redirects;
      totals["aliases withdrawn"] += made.aliases_withdrawn;
      EXPECT_EQ(made.reports_refused, 0u);
      EXPECT_EQ(made.flows_unnamed, 0u);
    }
    totals["processes of loggers replaced"] += process_;
    totals["processes of units replaced"] += kills_;
    totals["failed with both"] += kills_ > 0 && failures_ > 0 ? 1 : 0;
    totals["failed with all three"] += have_all_failed() ? 1 : 0;
    totals["loggers and controllers that failed at once"] += amid_;
    for (const LoopRegion::Loop& loop : region_.loops) {
      if (loop.log_control == nullptr) continue;
      totals["records restored"] += loop.log_control->records;
    }
  }

 private:
  ControllerLinks Links() {
    region_.controller.buffers = &region_.buffers;
    return std::move(region_.controller);
  }

  void MakeUnits(uint32_t index) {
    const LogControl* const control = region_.loops[index].log_control;
    const UnitLoopOptions options = {
        .index = index,
        .loops = plan_.loops,
        .max_units = plan_.options.controller.max_units,
        .incarnation = LogWord::kIncarnation +
                       (control != nullptr ? control->ends.load() : 0),
        .unit = UnitOptionsOf(plan_.options, loop_.controller().replicas()),
        .tables = TableOptionsOf(plan_.options),
        .service = {}};
    auto side = LoopRegion::Attach(region_.memory_of(index).bytes(), of_region_,
                                   index, *region_.faults);
    ASSERT_TRUE(side.ok()) << side.status();
    if (!hosts_.empty()) {
      TestHostMemory& host = *hosts_[host_of_[index]];
      host.SetPresence(index, true);
      seen_[index] = std::make_unique<InterruptedRecords>(
          host.Open(index), [this, index] { Interrupt(index); });
      side->links.host = seen_[index].get();
    }
    units_[index] = std::make_unique<UnitLoop>(options, plan_.nf, clock_,
                                               std::move(side->links));
  }
  // As if their process had been killed, which was seen.
  void KillUnits(uint32_t index) {
    // What recovery sends may leave no room for what was taken before.
    loop_.HandleBatch(egress_);
    refused_ += units_[index]->figures().state.units.records_refused;
    units_[index].reset();
    loop_.EndLoop(index, egress_);
    ++kills_;
    if (plan_.hosts == 1) return;
    // The host may know at once, or only when the next process is elsewhere.
    uint32_t& host = host_of_[index];
    const auto next = static_cast<uint32_t>(plan_.rng.Below(plan_.hosts));
    if (next != host || plan_.rng.Chance(32'768)) {
      hosts_[host]->SetPresence(index, false);
    }
    host = next;
  }
  void StartAgain(uint32_t index) {
    if (!loop_.MayBegin(index)) return;
    LogControl& control = *region_.loops[index].log_control;
    control.begun = control.ends.load();
    loop_.StartLoop(index);
    MakeUnits(index);
    loop_.BeginLoop(index);
  }

  void MakeLoggers() {
    auto side = LoopRegion::AttachLoggers(region_.memories(),
                                          region_.own_memory->bytes(),
                                          of_region_, *region_.faults);
    ASSERT_TRUE(side.ok()) << side.status();
    side->control->stops = false;
    loggers_ = std::make_unique<RealLoggers>(
        LoggerLoopOptions{.loops = plan_.loops,
                          .max_units = plan_.options.controller.max_units,
                          .max_copies = 65'536,
                          .reports = plan_.fails(),
                          .tables = TableOptionsOf(plan_.options),
                          .process = process_},
        plan_.nf, *std::move(side));
  }
  // As if their process had been killed, and another one were ready. Not if
  // they have what no unit has.
  void ReplaceLoggers() {
    if (loop_.NeedsLoggers()) return;
    amid_ += plan_.fails() && !loop_.is_led() ? 1 : 0;
    loggers_.reset();
    ++process_;
    MakeLoggers();
    for (const LoopRegion::Loop& loop : region_.loops) {
      loop.control->logger_process = process_;
    }
  }
  bool HaveLoggersAll() const {
    return process_ == 0 ||
           std::ranges::all_of(region_.loops, [this](const auto& loop) {
             return loop.log_control->restored == process_;
           });
  }

  void Offer(const OfferedFrame& frame) {
    const auto length = static_cast<uint32_t>(frame.bytes.size());
    // As many as wait for room in a run, unless a channel is full.
    const ControllerOptions& c = plan_.options.controller;
    while ((loop_.in_channels() + loop_.batch_size() >= c.unit_queue_packets ||
            loop_.controller().is_recovering()) &&
           region_.faults->count() == 0) {
      loop_.HandleBatch(egress_);
      Step();
    }
    ++result_.packets_in;
    const Ingress::Taken& taken = ingress_.Take(
        loop_.now(),
        {.time = frame.time, .bytes = frame.bytes, .original_bytes = length});
    ASSERT_EQ(taken.fate, Ingress::Taken::Fate::kPacket)
        << ToString(taken.reason);
    loop_.Arrive(*taken.key, loop_.now(), length, taken.packet, taken.by_alias);
    if (loop_.batch_size() == ControllerLoop::kBatch ||
        plan_.rng.Chance(16'384)) {
      loop_.HandleBatch(egress_);
    }
  }
  // The controller fails, or its end is seen.
  void FailOrSucceed() {
    if (loop_.is_led() && plan_.rng.Chance(plan_.fails_65536)) {
      amid_ += HaveLoggersAll() ? 0 : 1;
      loop_.Fail(
          plan_.rng,
          [this](Controller& next) { AddPiecePools(*example_, next); },
          egress_);
      ++failures_;
    } else if (!loop_.has_controller() &&
               loop_.succession()->phase() == Succession::Phase::kDead &&
               plan_.rng.Chance(16'384)) {
      loop_.Succeed();
    }
  }
  // Lets one of the loops take a turn.
  void Step() {
    if (plan_.fails()) FailOrSucceed();
    if (plan_.rng.Chance(plan_.kills_65536)) {
      const auto victim = static_cast<uint32_t>(plan_.rng.Below(plan_.loops));
      if (units_[victim] != nullptr && victim != interrupted_ &&
          HaveLoggersAll()) {
        KillUnits(victim);
        // Only if no unit was up there, these are not needed any more.
        if (plan_.rng.Chance(32'768)) ReplaceLoggers();
      }
    }
    uint64_t all = 0;
    for (const uint32_t weight : weights_) all += weight;
    uint64_t at = plan_.rng.Below(all);
    size_t chosen = 0;
    while (at >= weights_[chosen]) at -= weights_[chosen++];
    if (chosen == interrupted_) return;
    if (chosen < units_.size() && units_[chosen] == nullptr) {
      StartAgain(static_cast<uint32_t>(chosen));
    } else if (chosen < units_.size()) {
      units_[chosen]->Turn();
    } else if (chosen == units_.size() &&
               plan_.rng.Chance(plan_.replaced_65536)) {
      ReplaceLoggers();
    } else if (chosen == units_.size()) {
      loggers_->Turn();
    } else {
      loop_.Turn(egress_);
    }
  }
  // The loop is about to read a record. Other loops take turns before that.
  void Interrupt(size_t loop) {
    if (!plan_.fails() || interrupted_.has_value()) return;
    if (!plan_.rng.Chance(16'384)) return;
    interrupted_ = loop;
    for (uint64_t steps = plan_.rng.Below(60); steps > 0; --steps) Step();
    interrupted_.reset();
  }
  void Drain() {
    loop_.HandleBatch(egress_);
    const Instant begin = RealClock::Monotonic();
    while (loop_.in_channels() > 0 || !loop_.IsQuiet() || !HaveLoggersAll()) {
      Step();
      const bool is_late = RealClock::Monotonic() - begin > Seconds(60);
      if (!is_late && region_.faults->count() == 0) continue;
      ADD_FAILURE() << loop_.in_channels() << " packets never came out; "
                    << ToString(region_.faults->first().value_or(WireFault{}));
      return;
    }
  }

  Plan& plan_;
  std::unique_ptr<NetworkFunction> example_;
  RunResult result_;
  LoopRegion::Options of_region_;
  LoopRegion region_;
  RealClock clock_;
  Ingress ingress_;
  ByFlow by_flow_;
  LoggedFrames logged_;
  ControllerLoop loop_;
  Egress egress_;
  std::vector<std::unique_ptr<TestHostMemory>> hosts_;
  std::vector<uint32_t> host_of_;                          // by loop
  std::vector<std::unique_ptr<InterruptedRecords>> seen_;  // by loop
  std::optional<size_t> interrupted_{};  // the loop that is in a turn
  std::vector<std::unique_ptr<UnitLoop>> units_;
  std::unique_ptr<RealLoggers> loggers_;
  uint32_t process_ = 0;   // of the loggers
  uint64_t failures_ = 0;  // of controllers
  uint64_t kills_ = 0;     // of loops of units
  uint64_t refused_ = 0;   // log records of these, without a buffer
  uint64_t amid_ = 0;      // of loggers amid one of a controller, or vice versa
  std::vector<uint32_t> weights_;
};

void RunSeed(uint64_t seed, bool fails, Totals& totals) {
  Plan plan(seed, fails);
  RunOptions one = plan.options;
  World world(plan);
  const RunResult result = world.Run();
  world.AddTo(totals);
  EXPECT_TRUE(result.conserved());
  EXPECT_THAT(result.violation_messages, testing::IsEmpty());
  EXPECT_EQ(result.packets_in, plan.frames.size());
  // Timer packets take room that nobody waits for.
  auto dropped = result.dropped;
  const auto lost = static_cast<size_t>(DropReason::kControllerFailed);
  EXPECT_EQ(dropped[lost], world.packets_lost());
  dropped[lost] = 0;
  // Units of one host score alike, so flows gather at few of them, and null
  // packets of a successor may take the last slots of such a channel.
  const auto full = static_cast<size_t>(DropReason::kUnitQueueFull);
  const bool is_full = plan.shows && plan.fails() && dropped[full] > 0;
  totals["schedules with a full channel"] += is_full ? 1 : 0;
  if (is_full) std::cout << "full channel: seed " << seed << "\n";
  if (is_full) dropped[full] = 0;
  if (!plan.has_timers()) {
    EXPECT_THAT(dropped, testing::Each(0u));
  }
  EXPECT_EQ(world.pieces().pieces_faulty, 0u);
  EXPECT_EQ(world.pieces().messages_faulty, 0u);
  if (plan.options.nf_logs) {
    world.logged().Expect(world.records_refused());
    totals["log records"] += world.logged().records();
    totals["flows whose end was logged"] += world.logged().ends();
  }
  if (plan.is_chain()) {
    // The monitor's table has the packets that hosts sent: each counts once.
    EXPECT_EQ(world.SumOfTable("hosts", 0), result.packets_released);
    totals["updates of tables"] += result.packets_released;
    totals["sums of logged updates"] += plan.recovers() ? 1 : 0;
    totals["sums of logged updates, all failing"] +=
        world.have_all_failed() ? 1 : 0;
  }
  if (!plan.is_chronicle() && !plan.is_chain()) return;
  one.loggers = false;
  one.controller.max_units = one.controller.units_per_host = 1;
  one.controller.unit_queue_packets = 4'096;
  one.controller.start_buffer_packets = 4'096;
  ByFlow whole;
  const Outcome outcome = RunFrames(one, plan.nf, plan.frames, "snf", &whole);
  if (plan.is_chain()) {
    world.by_flow().ExpectOneFlowForEachPort();
    totals["ports"] += world.by_flow().ports();
  } else if (plan.fails()) {
    totals["flows compared after failures"] +=
        world.by_flow().CompareWith(whole);
  }
  if (world.packets_lost() > 0 || is_full) return;
  EXPECT_EQ(result.digest_up_to_renaming, outcome.run.digest_up_to_renaming);
  EXPECT_EQ(result.packets_released, plan.frames.size());
  ++totals["compared with one unit"];
}

// Returns the totals; empty if not all seeds were run.
Totals RunSeeds(bool fails) {
  const TestSeeds seeds(100, 5'000);
  Totals totals;
  for (const uint64_t seed : seeds.all()) {
    SCOPED_TRACE(TestSeeds::Name(seed));
    RunSeed(seed, fails, totals);
    if (testing::Test::HasFailure()) return {};
  }
  for (const auto& [name, count] : totals) {
    std::cout << fmt::format("{:>10}  {}\n", count, name);
  }
  return seeds.is_part ? Totals{} : totals;
}

TEST(RealLoggersRandom, ReleaseWhatOneUnitWouldHoweverLoopsAreDelayed) {
  Totals totals = RunSeeds(/*fails=*/false);
  if (totals.empty()) return;
  EXPECT_GE(totals["entries"], 50'000u);
  EXPECT_GE(totals["whole deltas"], 5'000u);
  EXPECT_GE(totals["partial deltas"], 5'000u);
  EXPECT_GE(totals["rings that were full"], 1'000u);
  EXPECT_GE(totals["states pulled"], 1'000u);
  EXPECT_GE(totals["flowlets that moved"], 5'000u);
  EXPECT_GE(totals["compared with one unit"], 45u);
  EXPECT_GE(totals["processes of loggers replaced"], 2'000u);
  EXPECT_GE(totals["records restored"], 15'000u);
  EXPECT_GE(totals["log records"], 10'000u);
  EXPECT_GE(totals["sums of logged updates"], 8u);
  EXPECT_GE(totals["states read on the own one of two hosts"], 100u);
  EXPECT_GE(totals["states on the other host"], 100u);
}

// F9: what a controller has not sent is lost, and nothing else is.
TEST(RealControllersRandom, LoseNothingButWhatTheyHadNotSent) {
  Totals totals = RunSeeds(/*fails=*/true);
  if (totals.empty()) return;
  EXPECT_GE(totals["controllers that failed"], 500u);
  EXPECT_GE(totals["packets lost with them"], 1'000u);
  EXPECT_GE(totals["clocks lost with them"], 1'000u);
  EXPECT_GE(totals["packets that waited"], 1'000u);
  EXPECT_GE(totals["flows found"], 5'000u);
  EXPECT_GE(totals["flows found ending"], 5u);
  EXPECT_GE(totals["tombstones"], 20u);
  EXPECT_GE(totals["null packets"], 100u);
  EXPECT_GE(totals["redirects"], 20u);
  EXPECT_GE(totals["processes of units replaced"], 200u);
  EXPECT_GE(totals["failed with both"], 20u);
  EXPECT_GE(totals["processes of loggers replaced"], 2'000u);
  EXPECT_GE(totals["failed with all three"], 5u);
  EXPECT_GE(totals["loggers and controllers that failed at once"], 200u);
  EXPECT_GE(totals["flows compared after failures"], 100u);
  EXPECT_GE(totals["ports"], 100u);
  EXPECT_GE(totals["log records"], 10'000u);
  EXPECT_GE(totals["flows whose end was logged"], 100u);
  EXPECT_GE(totals["sums of logged updates"], 10u);
  EXPECT_GE(totals["sums of logged updates, all failing"], 2u);
  EXPECT_LE(20 * totals["schedules with a full channel"], totals["schedules"]);
  EXPECT_GE(totals["states shown"], 1'000u);
  EXPECT_GE(totals["states read where they are shown"], 500u);
  EXPECT_GE(totals["of these, of units that failed"], 10u);
  EXPECT_GE(totals["states read on the own one of two hosts"], 100u);
  EXPECT_GE(totals["states on the other host"], 100u);
}

}  // namespace
}  // namespace snf
