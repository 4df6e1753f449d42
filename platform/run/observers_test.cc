// SPDX-License-Identifier: Apache-2.0
#include "platform/run/observers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace snf {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

using Log = std::vector<std::string>;

class Enqueues final : public RunObserver {
 public:
  Enqueues(Log& log, std::string name) : log_(log), name_(std::move(name)) {}
  void on_enqueue(Instant, UnitId, const PacketMeta&) override {
    log_.push_back(name_ + " enqueue");
  }

 private:
  Log& log_;
  std::string name_;
};

class Decisions final : public RunObserver {
 public:
  explicit Decisions(Log& log) : log_(log) {}
  void on_decision(const Decision&, const UnitPool&) override {
    log_.push_back("decision");
  }
  void on_end(Instant) override { log_.push_back("end"); }

 private:
  Log& log_;
};

TEST(Observers, TellEachOfWhatItOverridesInTheOrderOfAdding) {
  Log log;
  Enqueues first(log, "first");
  Enqueues second(log, "second");
  Decisions decisions(log);
  Observers observers;
  observers.Add(second);
  observers.Add(decisions);
  observers.Add(first);
  observers.on_enqueue(Instant{}, UnitId{1}, PacketMeta{});
  observers.on_service_end(Instant{}, UnitId{1}, PacketMeta{});
  observers.on_end(Instant{});
  EXPECT_THAT(log, ElementsAre("second enqueue", "first enqueue", "end"));
}

TEST(Observers, TellThoseOfUnknownClassOfEverything) {
  Log log;
  Enqueues enqueues(log, "one");
  Decisions decisions(log);
  Observers observers = {&enqueues, nullptr, &decisions};
  observers.on_enqueue(Instant{}, UnitId{1}, PacketMeta{});
  observers.on_end(Instant{});
  EXPECT_THAT(log, ElementsAre("one enqueue", "end"));
}

TEST(Observers, ObserveDecisionsOnlyForThoseThatOverrideThem) {
  Log log;
  Enqueues enqueues(log, "one");
  Decisions decisions(log);
  Observers observers;
  EXPECT_EQ(observers.decision_observer(), nullptr);
  observers.Add(enqueues);
  EXPECT_EQ(observers.decision_observer(), nullptr);
  observers.Add(decisions);
  ASSERT_NE(observers.decision_observer(), nullptr);
  EXPECT_THAT(log, IsEmpty());
}

}  // namespace
}  // namespace snf
