// SPDX-License-Identifier: Apache-2.0
#include "platform/drivers/cluster/merge_results.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "base/histogram.h"
#include "platform/run/figures/figures.h"
#include "platform/run/figures/report_figures.h"
#include "platform/run/run.h"
#include "platform/run/run_setup.h"
#include "runtime/sdk/nf.h"
#include "runtime/sdk/verdict.h"

namespace snf {
namespace {

class Forwarder final : public NetworkFunction {
 public:
  Verdict process_packet(Packet&, FlowState&) override {
    return Verdict::forward();
  }
};

// Puts a number into a figure, or so many samples into its histogram.
struct Setter {
  RunResult& result;
  uint32_t number;

  void operator()(std::monostate) const {}
  template <typename T, typename Part>
  void operator()(T Part::*member) const {
    if constexpr (std::is_same_v<Part, ReportFigures>) {
      return;
    } else if constexpr (std::is_same_v<T, Histogram>) {
      for (uint32_t i = 0; i < number; ++i) {
        (PartIn<Part>(result).*member).Record(1);
      }
    } else {
      PartIn<Part>(result).*member = number;
    }
  }
};

// Returns the number of a figure, or of its histogram's samples.
std::optional<uint64_t> NumberOf(const Figure& figure,
                                 const RunResult& result) {
  const FigureValue value = ValueOf(figure, result, {});
  if (const auto* count = std::get_if<uint64_t>(&value)) return *count;
  const auto* histogram = std::get_if<const Histogram*>(&value);
  if (histogram == nullptr) return std::nullopt;
  return *histogram == nullptr ? 0 : (*histogram)->count();
}

bool IsDerived(const Figure& figure) {
  return std::visit(
      []<typename Member>(const Member&) {
        return std::is_same_v<Member, std::monostate> ||
               std::is_same_v<Member, bool ReportFigures::*> ||
               std::is_same_v<Member, uint64_t ReportFigures::*> ||
               std::is_same_v<Member, int64_t ReportFigures::*> ||
               std::is_same_v<Member, double ReportFigures::*>;
      },
      figure.place);
}

bool IsHistogram(const Figure& figure) {
  return TypeOf(figure).starts_with("object: p50");
}

// Returns the merged result of two runs, of which every figure is 3 and 5.
RunResult MergedOf3And5() {
  const Forwarder nf;
  std::vector<RunResult> results(2, EmptyResult(nf));
  for (const Figure& figure : Figures()) {
    std::visit(Setter{results[0], 3}, figure.place);
    std::visit(Setter{results[1], 5}, figure.place);
  }
  return MergeResults(nf, std::move(results));
}

TEST(MergeResults, KeepsEveryFigureOfTheTable) {
  const RunResult merged = MergedOf3And5();
  for (const Figure& figure : Figures()) {
    if (IsDerived(figure)) continue;
    const auto number = NumberOf(figure, merged);
    ASSERT_TRUE(number.has_value()) << figure.key;
    if (figure.place == FigurePlace(&RunResult::units_max)) {
      EXPECT_EQ(*number, 0u) << "the caller measures units";
    } else if (figure.key == "fragments_unmatched") {
      EXPECT_EQ(*number, 5u) << "the runs share one ingress";
    } else if (figure.key == "pools.pieces_out_max") {
      EXPECT_EQ(*number, 8u) << "each run has a part of the pool";
    } else if (figure.adds == AddUp::kSum || IsHistogram(figure)) {
      EXPECT_EQ(*number, 8u) << figure.key;
    } else if (figure.adds == AddUp::kMax) {
      EXPECT_EQ(*number, 5u) << figure.key;
    }
  }
}

// Two controllers with units of their own, of which the second has traffic for
// half of the time.
class OwnUnits : public testing::Test {
 protected:
  OwnUnits() : results_(2, EmptyResult(Forwarder())) {
    RunResult& one = results_[0];
    one.units_max = 2;
    one.units_mean_1000 = 1'500;
    one.unit_ns_with_traffic = 300'000'000;  // in 200 ms
    one.utilisation_1000.Record(400);
    one.epochs = {{.epoch = 7, .offered_bytes = 100, .unit_ns = 150'000'000},
                  {.epoch = 8, .drained_bytes = 70, .unit_ns = 150'000'000}};
    RunResult& two = results_[1];
    two.units_max = 1;
    two.units_mean_1000 = 500;
    two.unit_ns_with_traffic = 50'000'000;  // in 100 ms
    two.utilisation_1000.Record(800);
    two.epochs = {{.epoch = 5, .offered_bytes = 1},
                  {.epoch = 7,
                   .offered_bytes = 10,
                   .drained_bytes = 11,
                   .dropped_packets = 3,
                   .unit_ns = 50'000'000}};
  }

  std::vector<RunResult> results_;
  RunResult sum_;
};

TEST_F(OwnUnits, AreAddedUpByEpoch) {
  AddOwnUnits(results_, sum_);
  ASSERT_EQ(sum_.epochs.size(), 3u);
  EXPECT_EQ(sum_.epochs[0].epoch, 5);
  EXPECT_EQ(sum_.epochs[1].epoch, 7);
  EXPECT_EQ(sum_.epochs[1].offered_bytes, 110u);
  EXPECT_EQ(sum_.epochs[1].drained_bytes, 11u);
  EXPECT_EQ(sum_.epochs[1].dropped_packets, 3u);
  EXPECT_EQ(sum_.epochs[1].unit_ns, 200'000'000);
  EXPECT_EQ(sum_.epochs[2].epoch, 8);
  EXPECT_EQ(sum_.utilisation_1000.count(), 2u);
  EXPECT_EQ(sum_.units_max, 3u);
}

TEST_F(OwnUnits, HaveAMeanOverTheTimeOfAllTraffic) {
  AddOwnUnits(results_, sum_);
  EXPECT_EQ(sum_.unit_ns_with_traffic, 350'000'000);
  EXPECT_EQ(sum_.units_mean_1000, 1'750);
}

TEST_F(OwnUnits, AreNotMeasuredWhereEpochsAloneAreAdded) {
  results_[0].latency_ns.Record(1);
  RunResult shared = MergeResults(Forwarder(), results_);
  AddEpochs(results_, shared);
  EXPECT_EQ(shared.epochs.size(), 3u);
  EXPECT_FALSE(UnitsAreMeasured(shared));
  for (const Figure& figure : Figures()) {
    if (figure.key != "capacity_used" && figure.key != "units_used_mean") {
      continue;
    }
    const FigureValue value = ValueOf(figure, shared, FiguresOf({}, shared));
    EXPECT_EQ(value, FigureValue(static_cast<const Histogram*>(nullptr)));
  }
}

}  // namespace
}  // namespace snf
