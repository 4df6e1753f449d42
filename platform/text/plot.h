// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_TEXT_PLOT_H_
#define SNF_PLATFORM_TEXT_PLOT_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace snf {

// Lines over two axes, and what is written at them.
struct Plot {
  struct Point {
    double x;
    double y;
  };
  struct Line {
    std::string name;  // in the legend above, if there are several
    std::vector<Point> points;
  };
  struct Axis {
    std::string title;  // beside the axis, with the unit
    // What is written at a value; empty: the value itself.
    std::function<std::string(double)> text = {};
    bool is_log = false;  // then values of 0 and below are left out
  };
  std::string title;
  Axis x;
  Axis y;
  std::vector<Line> lines;
};

// Plots side by side, two in a row, under a title: a PNG image of 1,200 pixels
// width. An axis reaches from the least to the greatest value there is; an
// axis that is not log begins at 0 at the latest. A plot without points says
// so. Errors: ResourceExhausted.
absl::StatusOr<std::string> DrawPng(const std::string& title,
                                    const std::vector<Plot>& plots);

// Where an axis from `low` to `high` has its marks, rising: round values, some
// `count` of them; of a log axis powers of ten.
std::vector<double> AxisMarks(double low, double high, bool is_log, int count);

}  // namespace snf

#endif  // SNF_PLATFORM_TEXT_PLOT_H_
