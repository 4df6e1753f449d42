// SPDX-License-Identifier: Apache-2.0
#include "platform/text/plot.h"

#include <cairo/cairo.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace snf {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::Pointwise;

// What a reader of PNG makes of it.
class Image {
 public:
  explicit Image(const std::string& png) : rest_(png) {
    surface_ = cairo_image_surface_create_from_png_stream(Read, this);
    EXPECT_EQ(cairo_surface_status(surface_), CAIRO_STATUS_SUCCESS);
  }
  ~Image() { cairo_surface_destroy(surface_); }
  Image(const Image&) = delete;
  Image& operator=(const Image&) = delete;

  int width() const { return cairo_image_surface_get_width(surface_); }
  int height() const { return cairo_image_surface_get_height(surface_); }
  // 0xrrggbb.
  uint32_t At(int x, int y) const {
    const unsigned char* const row =
        cairo_image_surface_get_data(surface_) +
        y * cairo_image_surface_get_stride(surface_);
    uint32_t pixel = 0;
    std::memcpy(&pixel, row + 4 * x, sizeof pixel);
    return pixel & 0xff'ffff;
  }
  // The uppermost pixel of a column, from `top` on, of the first line.
  std::optional<int> LineAt(int x, int top) const {
    for (int y = top; y < height(); ++y) {
      if (IsOfLine(x, y)) return y;
    }
    return std::nullopt;
  }
  // How often a column crosses the first line.
  int Crossings(int x) const {
    int crossings = 0;
    for (int y = 1; y < height(); ++y) {
      crossings += IsOfLine(x, y) && !IsOfLine(x, y - 1) ? 1 : 0;
    }
    return crossings;
  }

 private:
  // It is blue, and paler at its edges.
  bool IsOfLine(int x, int y) const {
    const uint32_t pixel = At(x, y);
    return (pixel & 0xff) > (pixel >> 16) + 80;
  }
  static cairo_status_t Read(void* from, unsigned char* bytes, unsigned count) {
    std::string_view& rest = static_cast<Image*>(from)->rest_;
    if (rest.size() < count) return CAIRO_STATUS_READ_ERROR;
    std::memcpy(bytes, rest.data(), count);
    rest.remove_prefix(count);
    return CAIRO_STATUS_SUCCESS;
  }

  std::string_view rest_;
  cairo_surface_t* surface_ = nullptr;
};

Plot Of(std::vector<Plot::Point> points) {
  return {.title = "a plot",
          .x = {.title = "x"},
          .y = {.title = "y"},
          .lines = {{"line", std::move(points)}}};
}

TEST(Plot, DrawsARisingLineFromTheLowerLeftToTheUpperRight) {
  const auto png = DrawPng("a title", {Of({{0, 0}, {10, 100}})});
  ASSERT_TRUE(png.ok()) << png.status();
  const Image image(*png);
  EXPECT_EQ(image.width(), 1'200);
  const auto left = image.LineAt(120, 60);
  const auto middle = image.LineAt(330, 60);
  const auto right = image.LineAt(540, 60);
  ASSERT_TRUE(left.has_value() && middle.has_value() && right.has_value());
  EXPECT_GT(*left, *middle + 50);
  EXPECT_GT(*middle, *right + 50);
  EXPECT_NEAR(*middle, (*left + *right) / 2, 3);
  for (const int x : {120, 330, 540}) EXPECT_EQ(image.Crossings(x), 1) << x;
  for (const int x : {20, 80, 580}) EXPECT_EQ(image.Crossings(x), 0) << x;
}

TEST(Plot, PutsLegendsAboveTheLinesHoweverManyThereAre) {
  // All at the top of the axis.
  Plot plot = Of({{0, 1}, {1, 1}});
  const auto without = DrawPng("", {plot});
  ASSERT_TRUE(without.ok());
  const auto highest = Image(*without).LineAt(330, 0);
  ASSERT_TRUE(highest.has_value());
  int before = *highest;
  for (const int lines : {2, 20, 40}) {
    while (plot.lines.size() < static_cast<size_t>(lines)) {
      plot.lines.push_back({"a name of some length", {{0, 0}, {1, 0}}});
    }
    const auto png = DrawPng("", {plot});
    ASSERT_TRUE(png.ok()) << png.status();
    const Image image(*png);
    // So far to the right there is no key before a name.
    const auto line = image.LineAt(555, 0);
    ASSERT_TRUE(line.has_value());
    EXPECT_GT(*line, before + 10);
    EXPECT_EQ(image.height() - *line, Image(*without).height() - *highest);
    before = *line;
  }
}

TEST(Plot, DrawsPowersOfTenAtEqualDistances) {
  Plot plot = Of({{1, 1}, {10, 2}, {1'000, 4}});
  plot.x.is_log = true;
  const auto png = DrawPng("", {plot});
  ASSERT_TRUE(png.ok()) << png.status();
  const Image image(*png);
  // On a log axis these are on one line.
  const auto first = image.LineAt(150, 60);
  const auto middle = image.LineAt(330, 60);
  const auto last = image.LineAt(510, 60);
  ASSERT_TRUE(first.has_value() && middle.has_value() && last.has_value());
  EXPECT_NEAR(*middle, (*first + *last) / 2, 3);
}

TEST(Plot, PutsPlotsSideBySideTwoInARow) {
  const Plot plot = Of({{0, 0}, {1, 1}});
  const auto two = DrawPng("", {plot, plot});
  const auto three = DrawPng("", {plot, plot, plot});
  ASSERT_TRUE(two.ok() && three.ok());
  EXPECT_LT(Image(*two).height(), Image(*three).height());
  EXPECT_TRUE(Image(*two).LineAt(900, 60).has_value());
  EXPECT_FALSE(Image(*three).LineAt(900, 420).has_value());
}

TEST(Plot, IsDrawnWhereThereIsNothingToShow) {
  Plot of_no_logarithm = Of({{0, 1}, {-1, 2}});
  of_no_logarithm.x.is_log = true;
  const auto png = DrawPng("", {Of({}), Of({{1, 1}}), of_no_logarithm});
  ASSERT_TRUE(png.ok()) << png.status();
  EXPECT_FALSE(Image(*png).LineAt(300, 60).has_value());
}

TEST(AxisMarks, AreRound) {
  EXPECT_THAT(AxisMarks(0, 10, false, 5), ElementsAre(0, 2, 4, 6, 8, 10));
  EXPECT_THAT(AxisMarks(0, 1.3, false, 3), ElementsAre(0, 0.5, 1));
  EXPECT_THAT(AxisMarks(0, 900e6, false, 4),
              Pointwise(DoubleNear(1), {0.0, 500e6}));
  EXPECT_THAT(AxisMarks(-3, 3, false, 2), ElementsAre(0));
  EXPECT_FALSE(std::signbit(AxisMarks(0, 10, false, 5).front()));
}

TEST(AxisMarks, ArePowersOfTenOnALogAxis) {
  EXPECT_THAT(AxisMarks(0.5, 2'000, true, 9),
              Pointwise(DoubleNear(1e-9), {1.0, 10.0, 100.0, 1'000.0}));
  EXPECT_THAT(AxisMarks(1, 1e6, true, 3),
              Pointwise(DoubleNear(1e-6), {1.0, 100.0, 1e4, 1e6}));
}

}  // namespace
}  // namespace snf
