// SPDX-License-Identifier: Apache-2.0
//
// Random schedules of a controller's loop whose process is killed, at any point
// between two messages, and of loops of units and loggers that live on: another
// loop takes its place over the same memory, and may be killed over that. In
// some, others take the place of the loggers now and then as well; in half of
// all, units show each other the states of flows. All
// take their turns on one thread, in an order that follows from the seed. A
// failure names its seed, which SNF_TEST_SEED=n runs alone; SNF_LONG_TESTS=1
// runs 50 times as many.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <set>
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
#include "platform/run/ingress.h"
#include "platform/run/run_setup.h"
#include "platform/system_test/test_run.h"
#include "platform/system_test/test_tiny_nat.h"
#include "runtime/live/loggers/logger_loop.h"
#include "runtime/live/test_host_memory.h"
#include "runtime/live/unit_loop.h"
#include "runtime/ring/real_clock.h"

namespace snf {
namespace {

using Totals = std::map<std::string_view, uint64_t>;

constexpr int64_t kStart = 1'700'000'000'000'000'000;
constexpr BufferPool::Options kBuffers = {
    .small = 1'024, .medium = 2, .large = 1};
constexpr size_t kLastFromEnd = 12;
constexpr size_t kCountFromEnd = 8;

// Writes into each packet the sequence number of the flow's packet before it,
// and how many the flow has had.
class Tally final : public NetworkFunction {
 public:
  Verdict process_packet(Packet& packet, FlowState& flow) override {
    const std::span<std::byte> bytes = packet.bytes();
    const uint32_t last = flow.get(last_);
    const uint32_t count = flow.get(count_) + 1;
    flow.put(last_, SequenceOf(bytes));
    flow.put(count_, count);
    std::memcpy(&bytes[bytes.size() - kLastFromEnd], &last, sizeof(last));
    std::memcpy(&bytes[bytes.size() - kCountFromEnd], &count, sizeof(count));
    return Verdict::forward();
  }

 private:
  Slot<uint32_t> last_ = declare<uint32_t>("last");
  Slot<uint32_t> count_ = declare<uint32_t>("count");
};
SNF_REGISTER_NF(Tally, "test_tally", "counts the packets of a flow");

struct Killed {};

// Sees what leaves. Now and then the process is killed in the middle of it.
class Witness final : public RunObserver {
 public:
  Witness(Rng& rng, uint32_t kill_65536, bool tallies)
      : rng_(rng), kill_65536_(kill_65536), tallies_(tallies) {}

  void on_release(const ReleasedPacket& packet) override {
    if (rng_.Chance(kill_65536_)) throw Killed();
    const uint32_t flow = FlowOf(packet.bytes);
    const uint32_t sequence = SequenceOf(packet.bytes);
    ++released_;
    EXPECT_TRUE(sequences_.insert(sequence).second)
        << "packet " << sequence << " was released twice";
    if (packet.bytes[kSource] == std::byte{203}) {
      const uint32_t port = static_cast<uint32_t>(packet.bytes[kPort]) << 8 |
                            static_cast<uint32_t>(packet.bytes[kPort + 1]);
      flows_of_port_[port].insert(flow);
      ports_of_flow_[flow].insert(port);
    }
    if (tallies_) Check(flow, sequence, packet.bytes);
    if (rng_.Chance(kill_65536_)) throw Killed();
  }
  void ExpectOnePortForEachFlow() const {
    for (const auto& [port, flows] : flows_of_port_) {
      EXPECT_EQ(flows.size(), 1u) << "port " << port;
    }
    for (const auto& [flow, ports] : ports_of_flow_) {
      EXPECT_EQ(ports.size(), 1u) << "flow " << flow;
    }
  }
  uint64_t released() const { return released_; }
  size_t ports() const { return flows_of_port_.size(); }

 private:
  static constexpr size_t kSource = 26;  // in an Ethernet frame without options
  static constexpr size_t kPort = 34;

  // What the released packet before it did has survived (I5), in order (I3).
  void Check(uint32_t flow, uint32_t sequence,
             std::span<const std::byte> bytes) {
    uint32_t last = 0;
    uint32_t count = 0;
    std::memcpy(&last, &bytes[bytes.size() - kLastFromEnd], sizeof(last));
    std::memcpy(&count, &bytes[bytes.size() - kCountFromEnd], sizeof(count));
    Seen& seen = seen_[flow];
    EXPECT_LT(seen.sequence, sequence) << "flow " << flow;
    EXPECT_GE(last, seen.sequence) << "flow " << flow;
    EXPECT_LT(last, sequence) << "flow " << flow;
    EXPECT_GT(count, seen.count) << "flow " << flow;
    seen = {.sequence = sequence, .count = count};
  }

  struct Seen {
    uint32_t sequence = 0;
    uint32_t count = 0;
  };
  Rng& rng_;
  const uint32_t kill_65536_;
  const bool tallies_;
  uint64_t released_ = 0;
  std::map<uint32_t, Seen> seen_;
  std::set<uint32_t> sequences_;
  std::map<uint32_t, std::set<uint32_t>> flows_of_port_;
  std::map<uint32_t, std::set<uint32_t>> ports_of_flow_;
};

// What a seed stands for.
struct Plan {
  explicit Plan(uint64_t seed) : rng(seed) {
    options = TinyNatTables();
    options.loggers = true;
    options.inside = *ParsePrefixes("10.0.0.0/8");
    ControllerOptions& c = options.controller;
    c.max_units = static_cast<uint16_t>(rng.Uniform(1, 6));
    c.unit_queue_packets = uint32_t{16} << rng.Below(6);
    c.start_buffer_packets = c.unit_queue_packets;
    options.hold_packets = c.unit_queue_packets;
    c.flow_timeout = Nanos::max();
    PrepareForFailures(c);
    c.awaits_ends = c.names_flows = true;
    translates = seed % 2 == 0;
    nf = *NfSpec::Parse(translates ? "firewall | nat(ip=203.0.113.1)"
                                   : "test_tally");
    const auto flows = static_cast<uint32_t>(rng.Uniform(1, 40));
    const auto packets = static_cast<uint32_t>(rng.Uniform(200, 1'500));
    for (uint32_t i = 0; i < packets; ++i) {
      frames.push_back(
          {.time = Instant{kStart + i * int64_t{10'000}},
           .bytes = UdpFrame({.flow = static_cast<uint32_t>(rng.Below(flows)),
                              .sequence = i + 1,
                              .bytes = 80})});
    }
    loops = static_cast<uint32_t>(rng.Uniform(1, 3));
    starts = rng.Chance(32'768) ? Microseconds(200) : Nanos{};
    policy = rng.Chance(32'768) ? "rotate" : "snf";
    kill_65536 = static_cast<uint32_t>(rng.Uniform(10, 400));
    if (rng.Chance(32'768)) {
      replaced_65536 = static_cast<uint32_t>(rng.Uniform(64, 2'000));
    }
    shows = seed / 2 % 2 == 0;
    if (!shows) return;
    c.units_per_host = c.max_units;
    c.flowlet_timeout = Microseconds(rng.Uniform(2, 60));
  }

  Rng rng;
  RunOptions options;
  bool translates = false;
  bool shows = false;  // units show each other the states of flows
  NfSpec nf = ForwardingNf();
  std::vector<OfferedFrame> frames;
  uint32_t loops = 1;
  Nanos starts;
  std::string_view policy;
  uint32_t kill_65536 =
      0;  // chance of the controller's process, with each step
  uint32_t replaced_65536 = 0;  // of the loggers' process, with each turn
};

// What a process of a controller has.
struct ControllerProcess {
  ControllerProcess(const Plan& plan, const NetworkFunction& example,
                    LoopRegion memory, const RealClock& clock,
                    RunObserver& observer, bool inherits)
      : region(std::move(memory)),
        ingress(plan.options, example, region.buffers),
        result(EmptyResult(example)),
        loop(
            {.controller = plan.options.controller,
             .cold_start_delay = plan.starts,
             .warm_start_delay = plan.starts,
             .nf_reasons = static_cast<uint32_t>(example.drop_reasons().size()),
             .pools = static_cast<uint32_t>(example.pools().size()),
             .counts_flows = HasSides(example),
             .recovers = true,
             .fails = true,
             .inherits = inherits},
            *FindPlacementPolicy(plan.policy),
            TableHomes(example, plan.options.controller.max_units,
                       TableOptionsOf(plan.options, true)),
            clock, Links()),
        egress(plan.options, {&observer}, ingress, region.buffers, loop,
               result) {
    AddPiecePools(example, loop.controller());
    egress.on_start(Instant{kStart});
    loop.ReadClock();
    if (inherits) loop.Succeed();
  }
  ControllerLinks Links() {
    region.controller.buffers = &region.buffers;
    return std::move(region.controller);
  }

  LoopRegion region;
  Ingress ingress;
  RunResult result;
  ControllerLoop loop;
  Egress egress;
};

class World {
 public:
  explicit World(Plan& plan)
      : plan_(plan),
        example_(plan.nf.create()),
        of_region_{.controller = kBuffers,
                   .loop = kBuffers,
                   .loops = plan.loops,
                   .apart = true,
                   .record_bytes = example_->schema().record_bytes(),
                   .controller_cells = uint32_t{64} << plan.rng.Below(3),
                   .loggers = true,
                   .entry_bytes = MaxLogEntryBytes(example_->schema()),
                   .logger_cells = 1,
                   .recovers = true,
                   .reports = true,
                   .piece_words = LoggerLoop::PieceWordsOf(*example_)},
        witness_(plan.rng, plan.kill_65536, !plan.translates) {
    clock_.Start(Instant{kStart});
    LoopRegion region = *LoopRegion::Create(of_region_);
    for (const int fd : region.memory_fds()) fds_.push_back(dup(fd));
    for (const int fd : fds_) theirs_.push_back(*SharedRegion::Map(fd));
    process_ = Make(std::move(region), false);
    UnitLoopOptions options = {
        .loops = plan.loops,
        .max_units = plan.options.controller.max_units,
        .unit =
            UnitOptionsOf(plan.options, process_->loop.controller().replicas()),
        .tables = TableOptionsOf(plan.options),
        .service = {}};
    if (plan.shows) {
      host_.emplace(HostStore::Options{
          .max_units = options.max_units,
          .loops = plan.loops,
          .slots = 1'024,
          .record_bytes = example_->schema().record_bytes()});
    }
    for (; options.index < options.loops; ++options.index) {
      auto side = LoopRegion::Attach(theirs_[options.index].bytes(), of_region_,
                                     options.index, faults_);
      EXPECT_TRUE(side.ok()) << side.status();
      if (host_.has_value()) side->links.host = &host_->Open(options.index);
      units_.push_back(std::make_unique<UnitLoop>(options, plan.nf, clock_,
                                                  std::move(side->links)));
    }
    MakeLoggers();
    for (uint32_t i = 0; i < plan.loops + 2; ++i) {
      weights_.push_back(uint32_t{1} << plan.rng.Below(9));
    }
  }
  ~World() {
    for (const int fd : fds_) close(fd);
  }

  void Run(Totals& totals) {
    for (const OfferedFrame& frame : plan_.frames) {
      Offer(frame);
      if (testing::Test::HasFailure()) return;
      for (uint64_t steps = plan_.rng.Below(6); steps > 0; --steps) Step();
    }
    kills_end_ = true;
    Drain();
    RunResult& result = process_->result;
    process_->egress.CheckNoneWaits();
    EXPECT_THAT(result.violation_messages, testing::IsEmpty());
    EXPECT_TRUE(result.conserved())
        << result.packets_begun() << " of " << result.packets_ended();
    EXPECT_EQ(process_->region.faults->count(), 0u)
        << ToString(process_->region.faults->first().value_or(WireFault{}));
    EXPECT_EQ(faults_.count(), 0u)
        << ToString(faults_.first().value_or(WireFault{}));
    uint32_t in_use = process_->region.buffers.in_use();
    for (const auto& loop : units_) in_use += loop->buffers_in_use();
    EXPECT_EQ(in_use, 0u);
    const PieceCounters& pieces = process_->loop.controller().counters().pieces;
    EXPECT_EQ(pieces.pieces_faulty + pieces.messages_faulty, 0u);
    for (uint16_t i = 0; i < plan_.options.controller.max_units; ++i) {
      const auto difference = loggers_->DifferenceFrom(
          units_[i % plan_.loops]->unit(UnitId{i}), example_->pools().size());
      EXPECT_EQ(difference.value_or(""), "") << "unit " << i;
    }
    if (plan_.translates) witness_.ExpectOnePortForEachFlow();
    totals["schedules"] += 1;
    totals["processes killed"] += kills_;
    totals["of these, before they had heard all"] += kills_unled_;
    totals["packets"] += plan_.frames.size();
    totals["packets released"] += witness_.released();
    totals["packets inherited"] += inherited_ + result.packets_inherited;
    totals["flows found"] += flows_ + Found();
    totals["ports"] += witness_.ports();
    totals["processes of loggers replaced"] += logger_process_;
    for (const auto& loop : units_) {
      const UnitCounters units = loop->figures().state.units;
      totals["states shown"] += units.records_shown;
      totals["states read where they are shown"] += units.records_read;
      totals["shown states of reports ahead"] +=
          units.records_missed[static_cast<size_t>(HostMiss::kAhead)];
    }
  }

 private:
  void MakeLoggers() {
    std::vector<std::span<std::byte>> memories;
    for (uint32_t i = 0; i < plan_.loops; ++i) {
      memories.push_back(theirs_[i].bytes());
    }
    auto side = LoopRegion::AttachLoggers(
        memories, theirs_[plan_.loops].bytes(), of_region_, faults_);
    ASSERT_TRUE(side.ok()) << side.status();
    loggers_ = std::make_unique<RealLoggers>(
        LoggerLoopOptions{.loops = plan_.loops,
                          .max_units = plan_.options.controller.max_units,
                          .max_copies = 65'536,
                          .reports = true,
                          .process = logger_process_},
        plan_.nf, *std::move(side));
  }
  // As if their process had been killed as well, and another one were ready: a
  // controller that has heard all knows whether units have what they had.
  void ReplaceLoggers() {
    if (process_ == nullptr || !process_->loop.has_controller() ||
        process_->loop.NeedsLoggers()) {
      return;
    }
    loggers_.reset();
    ++logger_process_;
    MakeLoggers();
    for (const LoopRegion::Loop& loop : process_->region.loops) {
      loop.control->logger_process = logger_process_;
    }
  }
  bool HaveLoggersAll() const {
    return std::ranges::all_of(
        process_->region.loops, [this](const LoopRegion::Loop& loop) {
          return loop.log_control->restored == logger_process_;
        });
  }
  std::unique_ptr<ControllerProcess> Make(LoopRegion region, bool inherits) {
    return std::make_unique<ControllerProcess>(
        plan_, *example_, std::move(region), clock_, witness_, inherits);
  }
  uint64_t Found() const {
    return process_->loop.succession()->counters().flows;
  }
  void Kill() {
    ++kills_;
    kills_unled_ += process_->loop.is_led() ? 0 : 1;
    inherited_ += process_->result.packets_inherited;
    flows_ += Found();
    process_.reset();
  }
  void Inherit() {
    auto region = LoopRegion::Adopt(of_region_, fds_);
    ASSERT_TRUE(region.ok()) << region.status();
    process_ = Make(*std::move(region), true);
  }
  // Does something in the controller's process, which may be killed meanwhile.
  template <typename Do>
  void InProcess(const Do& run) {
    try {
      run(*process_);
    } catch (const Killed&) {
      Kill();
    }
  }

  void Offer(const OfferedFrame& frame) {
    const ControllerOptions& c = plan_.options.controller;
    const auto is_full = [&] {
      return process_ == nullptr || !process_->loop.is_led() ||
             process_->loop.in_channels() + process_->loop.batch_size() >=
                 c.unit_queue_packets;
    };
    const Instant begin = RealClock::Monotonic();
    while (is_full()) {
      if (process_ != nullptr && process_->loop.is_led()) {
        InProcess([](auto& of) { of.loop.HandleBatch(of.egress); });
      }
      Step();
      const bool is_late = RealClock::Monotonic() - begin > Seconds(20);
      if (!is_late && !HasFailure()) continue;
      ADD_FAILURE() << "no room for packets: " << State();
      return;
    }
    InProcess([&](ControllerProcess& of) {
      const auto length = static_cast<uint32_t>(frame.bytes.size());
      ++of.result.packets_in;
      const Ingress::Taken& taken = of.ingress.Take(
          of.loop.now(),
          {.time = frame.time, .bytes = frame.bytes, .original_bytes = length});
      ASSERT_EQ(taken.fate, Ingress::Taken::Fate::kPacket);
      of.loop.Arrive(*taken.key, of.loop.now(), length, taken.packet,
                     taken.by_alias);
      if (of.loop.batch_size() == ControllerLoop::kBatch ||
          plan_.rng.Chance(16'384)) {
        of.loop.HandleBatch(of.egress);
      }
    });
  }
  bool HasFailure() const {
    return faults_.count() > 0 ||
           (process_ != nullptr && process_->region.faults->count() > 0);
  }
  std::string State() const {
    const auto fault = [](const WireFaults& faults) {
      return faults.first().has_value() ? ToString(*faults.first()) : "";
    };
    std::string text = fault(faults_);
    if (process_ == nullptr) return text;
    const ControllerLoop& loop = process_->loop;
    return text + fmt::format("{}; phase {}, {} in channels, quiet {}",
                              fault(*process_->region.faults),
                              static_cast<int>(loop.succession()->phase()),
                              loop.in_channels(), loop.IsQuiet());
  }
  void Step() {
    if (process_ == nullptr) {
      if (kills_end_ || plan_.rng.Chance(6'000)) Inherit();
    } else if (!kills_end_ && plan_.rng.Chance(plan_.kill_65536) &&
               (process_->loop.is_led() || plan_.rng.Chance(3'000))) {
      Kill();  // seldom over reports: some take thousands of steps
    }
    uint64_t all = 0;
    for (const uint32_t weight : weights_) all += weight;
    uint64_t at = plan_.rng.Below(all);
    size_t chosen = 0;
    while (at >= weights_[chosen]) at -= weights_[chosen++];
    if (chosen < units_.size()) {
      units_[chosen]->Turn();
    } else if (chosen == units_.size() &&
               plan_.rng.Chance(plan_.replaced_65536)) {
      ReplaceLoggers();
    } else if (chosen == units_.size()) {
      loggers_->Turn();
    } else if (process_ != nullptr) {
      InProcess([](ControllerProcess& of) { of.loop.Turn(of.egress); });
    }
  }
  void Drain() {
    const Instant begin = RealClock::Monotonic();
    while (process_ == nullptr || process_->loop.in_channels() > 0 ||
           process_->loop.batch_size() > 0 || !process_->loop.IsQuiet() ||
           !HaveLoggersAll()) {
      if (process_ != nullptr && process_->loop.is_led()) {
        InProcess([](auto& of) { of.loop.HandleBatch(of.egress); });
      }
      Step();
      const bool is_late = RealClock::Monotonic() - begin > Seconds(20);
      if (!is_late && !HasFailure()) continue;
      ADD_FAILURE() << "packets never came out: " << State();
      return;
    }
  }

  Plan& plan_;
  std::unique_ptr<NetworkFunction> example_;
  LoopRegion::Options of_region_;
  Witness witness_;
  RealClock clock_;
  WireFaults faults_;  // what units and loggers find
  std::vector<int> fds_;
  std::vector<SharedRegion> theirs_;
  std::unique_ptr<ControllerProcess> process_;
  std::optional<TestHostMemory> host_;
  std::vector<std::unique_ptr<UnitLoop>> units_;
  std::unique_ptr<RealLoggers> loggers_;
  std::vector<uint32_t> weights_;
  bool kills_end_ = false;
  uint64_t kills_ = 0;
  uint64_t kills_unled_ = 0;
  uint64_t inherited_ = 0;
  uint64_t flows_ = 0;
  uint32_t logger_process_ = 0;
};

TEST(RealHeirsRandom, GoOnWithWhatUnitsHaveOfADeadProcess) {
  const TestSeeds seeds(30, 1'500);
  Totals totals;
  for (const uint64_t seed : seeds.all()) {
    SCOPED_TRACE(TestSeeds::Name(seed));
    Plan plan(seed);
    World(plan).Run(totals);
    if (HasFailure()) return;
  }
  for (const auto& [name, count] : totals) {
    std::cout << fmt::format("{:>10}  {}\n", count, name);
  }
  if (seeds.is_part) return;
  EXPECT_GE(totals["processes killed"], 200u);
  EXPECT_GE(totals["of these, before they had heard all"], 5u);
  EXPECT_GE(totals["processes of loggers replaced"], 200u);
  EXPECT_GE(totals["packets inherited"], 5'000u);
  EXPECT_GE(totals["flows found"], 2'000u);
  EXPECT_GE(totals["packets released"], totals["packets"] / 2);
  EXPECT_GE(totals["ports"], 100u);
  EXPECT_GE(totals["states shown"], 500u);
  EXPECT_GE(totals["states read where they are shown"], 200u);
}

}  // namespace
}  // namespace snf
