// SPDX-License-Identifier: Apache-2.0
#include "platform/replay/json_places.h"

#include <gtest/gtest.h>

#include <string>

namespace snf {
namespace {

TEST(JsonPlaces, AreThoseOfKeysAndElements) {
  const JsonPlaces places(R"({"a": 1,
  "bB" : [ true, {"c": "}],\"{[", "d":[]},
           -1.5e3 ],
  "e": {}, "f": [[1, 2], "x\\"],
  "g": null})");
  EXPECT_EQ(places.Of("a"), ":1:2");
  EXPECT_EQ(places.Of("bB"), ":2:3");
  EXPECT_EQ(places.Of("b_b"), ":2:3");
  EXPECT_EQ(places.Of("b_b[0]"), ":2:12");
  EXPECT_EQ(places.Of("bB[1]"), ":2:18");
  EXPECT_EQ(places.Of("b_b[1].c"), ":2:19");
  EXPECT_EQ(places.Of("b_b[1].d"), ":2:35");
  EXPECT_EQ(places.Of("b_b[2]"), ":3:12");
  EXPECT_EQ(places.Of("e"), ":4:3");
  EXPECT_EQ(places.Of("f[0][1]"), ":4:22");
  EXPECT_EQ(places.Of("f[1]"), ":4:26");
  EXPECT_EQ(places.Of("g"), ":5:3");
}

TEST(JsonPlaces, AreThoseOfWhatIsAroundWhatIsNotThere) {
  const JsonPlaces places(R"({"a": [{"b": 1}]})");
  EXPECT_EQ(places.Of("a[0].x"), ":1:8");
  EXPECT_EQ(places.Of("a[0].b.c[7].d"), ":1:9");
  EXPECT_EQ(places.Of("a[1]"), ":1:2");
  EXPECT_EQ(places.Of("x"), "");
  EXPECT_EQ(places.Of(""), "");
  EXPECT_EQ(JsonPlaces().Of("a"), "");
}

TEST(JsonPlaces, OfWhatIsDeepAreThoseOfWhatItIsIn) {
  const size_t depth = 100'000;
  const JsonPlaces places(R"({"a":)" + std::string(depth, '[') +
                          std::string(depth, ']') + "}");
  EXPECT_EQ(places.Of("a[0][0]"), ":1:8");
  std::string path = "a";
  for (int i = 0; i < 40; ++i) path += "[0]";
  EXPECT_EQ(places.Of(path), ":1:21");
}

TEST(JsonPlaces, AreFoundOfAByteOfAnyText) {
  EXPECT_EQ(JsonPlaces::OfByte("", 0), ":1:1");
  EXPECT_EQ(JsonPlaces::OfByte("ab\n\ncd", 1), ":1:2");
  EXPECT_EQ(JsonPlaces::OfByte("ab\n\ncd", 5), ":3:2");
  EXPECT_EQ(JsonPlaces::OfByte("ab\n", 9), ":2:1");
}

}  // namespace
}  // namespace snf
