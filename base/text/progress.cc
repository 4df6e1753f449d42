// SPDX-License-Identifier: Apache-2.0
#include "base/text/progress.h"

#include <algorithm>
#include <utility>

#include "base/quantity.h"
#include "fmt/format.h"

namespace snf {
namespace {

constexpr Nanos kRedraw = Milliseconds(250);
constexpr Nanos kNextLine = Seconds(10);
// A guess at the time left from less than this is none.
constexpr Nanos kFirstEstimate = Seconds(1);

// "812 /s", "1.21 M/s".
std::string Rate(double per_second) {
  if (per_second >= 999'500) return fmt::format("{:.2f} M/s", per_second / 1e6);
  if (per_second >= 1'000) return fmt::format("{:.0f} k/s", per_second / 1e3);
  return fmt::format("{:.0f} /s", per_second);
}

}  // namespace

Progress::Progress(Options options)
    : options_(std::move(options)), start_(options_.clock()) {
  next_ = start_ + (options_.terminal.is_terminal ? kRedraw : kNextLine);
}

void Progress::Update(uint64_t packets, uint64_t bytes) {
  if (options_.quiet) return;
  const Instant now = options_.clock();
  if (now < next_) return;
  next_ = now + (options_.terminal.is_terminal ? kRedraw : kNextLine);
  std::string line = Line(now - start_, packets, bytes);
  if (options_.terminal.is_terminal) {
    // A line that reaches the last column would wrap, and stay.
    const size_t columns = options_.terminal.columns;
    line.resize(std::min(line.size(), columns > 0 ? columns - 1 : 0));
    options_.write("\r\033[K" + line);
    drawn_ = true;
  } else {
    options_.write(line + "\n");
  }
}

void Progress::Finish() {
  if (drawn_) options_.write("\r\033[K");
  drawn_ = false;
}

std::string Progress::Line(Nanos elapsed, uint64_t packets,
                           uint64_t bytes) const {
  const double seconds =
      static_cast<double>(std::max<int64_t>(elapsed.ns, 1)) / 1e9;
  std::string line =
      fmt::format("{}: {} packets, {}", options_.label, FormatCount(packets),
                  Rate(static_cast<double>(packets) / seconds));
  if (options_.total_bytes == 0) return line;
  const double done =
      std::min(1.0, static_cast<double>(bytes) /
                        static_cast<double>(options_.total_bytes));
  line += fmt::format(", {:.0f} %", done * 100);
  if (elapsed >= kFirstEstimate && done > 0.001) {
    const double left_s = seconds * (1 - done) / done;
    line += left_s < 100 ? fmt::format(", {:.0f} s left", left_s)
                         : fmt::format(", {:.0f} min left", left_s / 60);
  }
  return line;
}

}  // namespace snf
