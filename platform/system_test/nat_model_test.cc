// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/test_seeds.h"
#include "platform/system_test/test_nat_model.h"
#include "platform/system_test/test_nat_traffic.h"
#include "platform/system_test/test_run.h"

// Random traffic through the NF "nat" on random configurations, judged by a
// model of a NAT. SNF_LONG_TESTS=1 runs 50 times as many; SNF_TEST_SEED=n runs
// the one with that seed, and prints when each packet arrived and when its unit
// was done with it, and what became of it.
namespace snf {
namespace {

// Learns what became of each packet.
class Recorder final : public RunObserver {
 public:
  explicit Recorder(const NatSchedule& schedule) : schedule_(schedule) {}

  void on_arrival(Instant now, const FlowKey&, uint32_t length) override {
    const uint32_t number = length - kFirstLength;
    const bool is_again = number != next_;
    if (!is_again) ++next_;
    Delivery& delivery = deliveries_.emplace_back();
    delivery.number = number;
    delivery.is_again = is_again;
    delivery.arrival = now.ns;
    delivery.order = deliveries_.size();
  }
  void on_enqueue(Instant, UnitId unit, const PacketMeta& meta) override {
    if (!meta.has_payload()) return;
    Delivery& delivery = deliveries_.back();
    delivery.flow = meta.flow;
    delivery.unit = unit;
    by_clock_[{meta.flow, meta.clock}] = deliveries_.size() - 1;
  }
  void on_release(const ReleasedPacket& packet) override {
    if (!packet.route.has_clock()) return;
    Delivery& delivery = Of(packet.route.flow, packet.route.clock);
    delivery.done = packet.time.ns - schedule_.model.hop;
    delivery.fate = ++fates_;
    released_.push_back(static_cast<size_t>(&delivery - deliveries_.data()));
  }
  void on_drop(const ReleasedPacket& packet, std::string_view reason) override {
    const PacketRoute& route = packet.route;
    Delivery& delivery = route.flow == kNoFlow ? deliveries_.back()
                                               : Of(route.flow, route.clock);
    delivery.done = packet.time.ns;
    delivery.fate = ++fates_;
    delivery.drop = reason;
  }

  // In order of arrival; frames of the NAT's own are put into `generated`.
  std::vector<Delivery> Deliveries(const std::vector<ReleasedFrame>& released,
                                   std::vector<Frame>& generated) {
    size_t next = 0;
    std::vector<Frame> left(next_);  // as they left to be brought back
    for (const ReleasedFrame& frame : released) {
      if (frame.original_length < kFirstLength) {
        generated.push_back(frame.bytes);
        continue;
      }
      Delivery& delivery = deliveries_[released_.at(next)];
      EXPECT_EQ(frame.original_length, kFirstLength + delivery.number);
      EXPECT_EQ(ReadModelPacket(frame.bytes).number, delivery.number);
      delivery.out = frame.bytes;
      ++next;
      if (!delivery.is_again) left[delivery.number] = frame.bytes;
    }
    for (Delivery& delivery : deliveries_) {
      delivery.in = delivery.is_again
                        ? left[delivery.number]
                        : schedule_.packets[delivery.number].bytes;
      EXPECT_NE(delivery.drop.empty(), delivery.out.empty());
    }
    EXPECT_EQ(next, released_.size());
    EXPECT_EQ(next_, schedule_.packets.size());
    return std::move(deliveries_);
  }

 private:
  Delivery& Of(FlowId flow, Clock clock) {
    return deliveries_[by_clock_.at({flow, clock})];
  }

  const NatSchedule& schedule_;
  uint32_t next_ = 0;
  uint64_t fates_ = 0;
  std::vector<Delivery> deliveries_;
  std::map<std::pair<FlowId, Clock>, size_t> by_clock_;
  std::vector<size_t> released_;  // deliveries, in order of release
};

using Counts = std::map<std::string, uint64_t>;

void CountRun(const RunResult& run, Counts& counts) {
  counts["packets"] += run.packets_in;
  counts["packets released"] += run.packets_released;
  counts["flowlets moved"] += run.controller.flowlets_moved;
  counts["moved: seamless"] += run.state.seamless;
  counts["moved: pulled"] += run.state.pulled;
  counts["messages lost"] += run.state.messages_lost;
  counts["units stopped with flows"] += run.controller.evacuations;
  counts["flows taken from such"] += run.state.null_packets;
  counts["blocks granted"] += run.controller.pieces.blocks_granted;
  counts["requests refused"] += run.controller.pieces.requests_refused;
  counts["reclaim rounds"] += run.controller.pieces.reclaim_rounds;
  counts["cold starts"] += run.cold_starts;
}

void ExpectAllBack(const Outcome& outcome) {
  EXPECT_EQ(outcome.flows_at_controller, 0u);
  EXPECT_EQ(outcome.flows_at_units, 0u);
  const PieceCounters& pieces = outcome.run.controller.pieces;
  EXPECT_EQ(pieces.pieces_out, 0u);
  EXPECT_EQ(pieces.pieces_faulty, 0u);
  EXPECT_EQ(pieces.messages_faulty, 0u);
}

void Print(const Delivery& delivery) {
  const ModelPacket in = ReadModelPacket(delivery.in);
  std::cout << fmt::format(
      "{:>14} {:>14} {:>3}{} flow {:x} unit {:>2} {} > {}{} ", delivery.arrival,
      delivery.done, delivery.number, delivery.is_again ? " again" : "",
      value(delivery.flow), value(delivery.unit), Text(in.source),
      Text(in.destination), in.is_error() ? " error" : "");
  if (delivery.out.empty()) {
    std::cout << delivery.drop << "\n";
    return;
  }
  const ModelPacket out = ReadModelPacket(delivery.out);
  std::cout << "as " << Text(out.source) << " > " << Text(out.destination)
            << "\n";
}

void RunOne(uint64_t seed, bool tells, Counts& counts) {
  Rng rng(seed);
  NatSchedule schedule = AnyNatSchedule(rng);
  // The model knows of no mapping that makes way for another.
  schedule.options.controller.evict_after = Nanos::max();
  // The model takes packets in the order of the schedule.
  schedule.options.early_fragments = 0;
  Recorder recorder(schedule);
  const Outcome outcome =
      RunFrames(schedule.options, schedule.nf, schedule.packets,
                *schedule.policy, &recorder);
  std::vector<Frame> generated;
  std::vector<Delivery> deliveries =
      recorder.Deliveries(outcome.released, generated);
  NatModel model(schedule.model);
  for (const Delivery& delivery : deliveries) {
    if (!delivery.is_again) model.Offer(delivery);
  }
  std::ranges::sort(deliveries, {}, [](const Delivery& delivery) {
    return std::pair(delivery.done, delivery.fate);
  });
  for (const Delivery& delivery : deliveries) {
    if (tells) Print(delivery);
    model.Judge(delivery);
  }
  for (const Frame& frame : generated) model.JudgeGenerated(frame);
  model.Finish();
  for (size_t i = 0; i < std::min<size_t>(5, model.faults().size()); ++i) {
    ADD_FAILURE() << model.faults()[i];
  }
  ExpectSound(outcome);
  ExpectAllBack(outcome);
  CountRun(outcome.run, counts);
  for (const auto& [name, count] : model.counts()) counts[name] += count;
}

// About half of what 500 schedules have.
const Counts kFloors = {
    {"blocks granted", 6'400},
    {"dropped for want of room", 1'500},
    {"error: filtered", 240},
    {"error: icmp_checksum", 21},
    {"error: mapping_expired", 10},
    {"errors from inside", 1'000},
    {"errors from outside", 760},
    {"errors hairpinned", 140},
    {"filtered", 1'600},
    {"flowlets moved", 20'000},
    {"flows taken from such", 20'000},
    {"hairpinned", 1'800},
    {"host had all its ports", 400},
    {"hosts with two addresses", 410},
    {"later fragments", 1'600},
    {"makes no mapping", 910},
    {"mapping_expired", 420},
    {"mappings", 9'100},
    {"mappings ended by silence", 3'400},
    {"mappings of a flow that had one", 310},
    {"messages lost", 6'700},
    {"moved: pulled", 18'000},
    {"moved: seamless", 1'300},
    {"no_mapping", 240},
    {"packets", 55'000},
    {"packets released", 36'000},
    {"parity kept", 1'900},
    {"ports exhausted", 5'300},
    {"ports exhausted: counted", 380},
    {"ports given at another unit", 3'100},
    {"ports given to another", 3'500},
    {"ports kept", 390},
    {"reclaim rounds", 5'200},
    {"refusals", 3'300},
    {"refusals held back", 2'100},
    {"requests refused", 11'000},
    {"resets from inside", 290},
    {"source spoofed", 210},
    {"to an endpoint without mapping", 11'000},
    {"to nobody's external endpoint", 550},
    {"units stopped with flows", 7'600},
    {"unsolicited, let in", 190},
};

TEST(NatModel, AgreesWithTheNatOnAnySchedule) {
  const TestSeeds seeds(500, 25'000);
  Counts counts;
  for (const uint64_t seed : seeds.all()) {
    SCOPED_TRACE(TestSeeds::Name(seed));
    RunOne(seed, seeds.is_chosen, counts);
    if (HasFailure()) return;
  }
  std::cout << "seeds " << seeds.first << " to " << seeds.last << "\n";
  for (const auto& [name, count] : counts) {
    std::cout << fmt::format("  {:34}{:>12}\n", name, count);
  }
  if (seeds.is_part) return;
  for (const auto& [name, floor] : kFloors) {
    EXPECT_GE(counts[name], floor) << name;
  }
  EXPECT_LE(counts["parity lost"], counts["parity kept"] / 50);
}

}  // namespace
}  // namespace snf
