// SPDX-License-Identifier: Apache-2.0
#include "platform/options/store_flag.h"

#include <gtest/gtest.h>

#include <string>

namespace snf {
namespace {

TEST(StoreFlag, TakesEachKeyAndKeepsTheRest) {
  const auto store = ParseStore(
      "round_trips=1us,2us,3us,4us,5us threads=4 operation=0 poll=7us "
      "timeout=8ms patience=9s");
  ASSERT_TRUE(store.ok()) << store.status();
  EXPECT_EQ(store->round_trips[0], Microseconds(1));
  EXPECT_EQ(store->round_trips[4], Microseconds(5));
  EXPECT_EQ(store->threads, 4u);
  EXPECT_EQ(store->operation, Nanos{0});
  EXPECT_EQ(store->poll, Microseconds(7));
  EXPECT_EQ(store->timeout, Milliseconds(8));
  EXPECT_EQ(store->patience, Seconds(9));
  const auto one = ParseStore("poll=1ms");
  ASSERT_TRUE(one.ok()) << one.status();
  EXPECT_EQ(one->poll, Milliseconds(1));
  EXPECT_EQ(one->timeout, StoreOptions{}.timeout);
}

TEST(StoreFlag, ReadsBackWhatItWrites) {
  for (const std::string text : {"poll=3us", "threads=2 operation=1500ns",
                                 "round_trips=0,0,1us,2us,1ms"}) {
    const auto store = ParseStore(text);
    ASSERT_TRUE(store.ok()) << store.status();
    const std::string written = FormatStore(*store);
    const auto again = ParseStore(written);
    ASSERT_TRUE(again.ok()) << written << ": " << again.status();
    EXPECT_EQ(FormatStore(*again), written);
    EXPECT_EQ(again->round_trips, store->round_trips);
    EXPECT_EQ(again->operation, store->operation);
  }
}

TEST(StoreFlag, RefusesNamingKeyAndValue) {
  const auto error = [](const std::string& text) {
    const auto store = ParseStore(text);
    return store.ok() ? "taken" : std::string(store.status().message());
  };
  EXPECT_EQ(error(""), "\"\" names nothing; want for example poll=50us");
  EXPECT_EQ(error("pol=5us"),
            "\"pol\" is none of round_trips, operation, threads, poll, "
            "timeout, patience");
  EXPECT_EQ(error("poll=0"), "poll=\"0\" is too short");
  EXPECT_EQ(error("patience=11s"), "patience=\"11s\" is above 10 s");
  EXPECT_EQ(error("threads=0"), "threads=\"0\" is not from 1 to 64");
  EXPECT_EQ(error("threads=2x"), "threads=\"2x\" is not from 1 to 64");
  EXPECT_EQ(error("poll=1us poll=2us"),
            "\"poll=2us\" is the second one of this key");
  EXPECT_EQ(error("round_trips=1us,2us"),
            "round_trips=\"1us,2us\" is not five times: the least, p50, p90, "
            "p99, p99.9");
  EXPECT_EQ(error("round_trips=2us,1us,3us,4us,5us"),
            "round_trips=\"2us,1us,3us,4us,5us\" does not rise");
  EXPECT_EQ(error("timeout=2s"), "timeout=2s is above patience=1s");
}

}  // namespace
}  // namespace snf
