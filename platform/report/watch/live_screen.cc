// SPDX-License-Identifier: Apache-2.0
#include "platform/report/watch/live_screen.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>
#include <utility>

#include "base/quantity.h"
#include "base/text/page.h"
#include "fmt/format.h"

namespace snf {
namespace {

constexpr size_t kLabelColumns = 26;
constexpr size_t kNumberColumns = 13;
// Columns of a unit's line without its bar.
constexpr size_t kAroundBar = 30;
constexpr size_t kLeastBar = 8;
constexpr size_t kMostBar = 50;

using Tone = LiveText::Tone;

constexpr FigurePlace kPacketsIn = &RunResult::packets_in;
constexpr FigurePlace kBytesIn = &RunResult::bytes_in;

// "µ" becomes "u".
std::string Ascii(std::string_view text) {
  std::string ascii;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text.substr(i).starts_with("µ")) {
      ascii += 'u';
    } else if ((text[i] & 0xc0) != 0x80) {
      ascii += (text[i] & 0x80) == 0 ? text[i] : '?';
    }
  }
  return ascii;
}

std::string CutTo(std::string text, size_t columns) {
  size_t end = 0;
  for (size_t column = 0; end < text.size(); ++end) {
    if ((text[end] & 0xc0) != 0x80 && column++ == columns) break;
  }
  text.resize(end);
  return text;
}

// Rates between two sets of figures.
class Rates {
 public:
  Rates(Nanos from, Nanos until)
      : seconds_(static_cast<double>(until.ns - from.ns) / 1e9) {}

  double Of(uint64_t before, uint64_t now) const {
    if (seconds_ <= 0 || now < before) return 0;
    return static_cast<double>(now - before) / seconds_;
  }
  std::string Count(uint64_t before, uint64_t now) const {
    return FormatCount(static_cast<uint64_t>(Of(before, now) + 0.5)) + " /s";
  }
  int64_t Bits(uint64_t before, uint64_t now) const {
    return std::llround(8 * Of(before, now));
  }

 private:
  double seconds_;
};

// The rate of a unit between two sets of figures.
struct UnitRate {
  UnitId id;
  int64_t bps = 0;
  double share = 0;  // of its capacity; or, where it has none, of all packets
};

class Screen {
 public:
  Screen(const LiveFigures& before, const LiveFigures& now,
         const Terminal& terminal)
      : before_(before),
        now_(now),
        terminal_(terminal),
        recent_(before.elapsed, now.elapsed),
        ever_(Nanos{}, now.elapsed) {}

  std::vector<LiveText> Draw(const std::string& title) {
    Add(title, Tone::kHeading);
    AddStatus();
    AddPackets();
    AddCounts(false);
    AddTimes("Latency", now_.latency);
    if (now_.late.count > 0) AddTimes("Late", now_.late);
    AddUnits();
    if (lines_.size() >= terminal_.rows) {
      lines_.resize(terminal_.rows > 0 ? terminal_.rows - 1 : 0);
    }
    return std::move(lines_);
  }

 private:
  void Add(std::string_view text, Tone tone = Tone::kPlain) {
    const size_t columns = terminal_.columns > 0 ? terminal_.columns - 1 : 0;
    lines_.push_back(
        {CutTo(terminal_.utf8 ? std::string(text) : Ascii(text), columns),
         tone});
  }

  // A line of the table: now, on average where there is room, in all.
  void Row(std::string_view label, const std::array<std::string, 3>& numbers,
           Tone tone = Tone::kPlain) {
    std::string line = fmt::format("{:<{}}", label, kLabelColumns);
    const bool is_narrow =
        terminal_.columns <= kLabelColumns + 3 * kNumberColumns;
    for (size_t i = 0; i < numbers.size(); ++i) {
      if (i == 1 && is_narrow) continue;
      const size_t columns = ColumnsOf(numbers[i]);
      line.append(kNumberColumns - std::min(columns, kNumberColumns - 1), ' ');
      line += numbers[i];
    }
    line.erase(line.find_last_not_of(' ') + 1);
    Add(line, tone);
  }
  void Count(std::string_view label, uint64_t before, uint64_t now,
             Tone tone = Tone::kPlain) {
    Row(label,
        {recent_.Count(before, now), ever_.Count(0, now), FormatCount(now)},
        tone);
  }

  void AddStatus() {
    std::string status = fmt::format("{} at {}", FormatDuration(now_.elapsed),
                                     FormatSpeed(now_.speed));
    if (now_.done_1000.has_value()) {
      status += fmt::format(", {} %", *now_.done_1000 / 10);
    }
    if (ColumnsOf(status) >= kLabelColumns) {
      Add(status);
      status.clear();
    }
    Row(status, {"now", "on average", "in all"});
  }

  // Adds the rows of the table of figures that count packets, or the others.
  void AddCounts(bool of_packets) {
    for (const Figure& figure : Figures()) {
      if (figure.row.label.empty() ||
          (figure.unit == "packets") != of_packets) {
        continue;
      }
      const uint64_t now = now_.counts.of(figure);
      if (now == 0 && figure.row.if_any) continue;
      Count(figure.row.label, before_.counts.of(figure), now);
    }
  }

  void AddPackets() {
    AddCounts(true);
    const uint64_t before = before_.packets_dropped();
    const uint64_t now = now_.packets_dropped();
    Count("        dropped", before, now,
          now > before ? Tone::kAlarm : Tone::kPlain);
    if (now > 0) Add("          " + Reasons());
    Row("        under way", {FormatCount(now_.packets_under_way()), "", ""});
    const uint64_t bytes = now_.counts[kBytesIn];
    Row("Bits    in",
        {FormatBitRate(recent_.Bits(before_.counts[kBytesIn], bytes)),
         FormatBitRate(ever_.Bits(0, bytes)),
         FormatBytes(static_cast<int64_t>(bytes))});
  }

  std::string Reasons() const {
    std::string reasons;
    for (const DropCount& drop : now_.drops) {
      if (drop.packets == 0) continue;
      if (!reasons.empty()) reasons += ", ";
      reasons += FormatCount(drop.packets) + " " + drop.name;
    }
    return reasons;
  }

  void AddTimes(std::string_view label, const LiveFigures::Times& times) {
    Row(fmt::format("{:<7} p50", label),
        {FormatDuration(times.now.p50), "", FormatDuration(times.all.p50)});
    Row("        p99",
        {FormatDuration(times.now.p99), "", FormatDuration(times.all.p99)});
  }

  // Returns the rates of the units that are up, or processed packets.
  std::vector<UnitRate> UnitRates() const {
    std::vector<UnitRate> rates;
    uint64_t packets_of_all = 0;
    for (const LiveFigures::Unit& unit : now_.units) {
      const auto found = std::ranges::lower_bound(before_.units, unit.id, {},
                                                  &LiveFigures::Unit::id);
      LiveFigures::Unit before;
      if (found != before_.units.end() && found->id == unit.id) before = *found;
      const uint64_t packets = unit.packets - before.packets;
      if (!unit.is_up && packets == 0) continue;
      packets_of_all += packets;
      UnitRate rate = {.id = unit.id,
                       .bps = recent_.Bits(before.bytes, unit.bytes),
                       .share = static_cast<double>(packets)};
      if (now_.unit_capacity_bps.has_value()) {
        rate.share = static_cast<double>(rate.bps) /
                     static_cast<double>(*now_.unit_capacity_bps);
      }
      rates.push_back(rate);
    }
    if (now_.unit_capacity_bps.has_value()) return rates;
    for (UnitRate& rate : rates) {
      rate.share /= static_cast<double>(std::max(packets_of_all, uint64_t{1}));
    }
    return rates;
  }

  void AddUnits() {
    std::vector<UnitRate> rates = UnitRates();
    Add(fmt::format("Units   {} up, {}", FormatCount(now_.units_up()),
                    now_.unit_capacity_bps.has_value()
                        ? FormatBitRate(*now_.unit_capacity_bps) + " each"
                        : "shares of all packets"));
    // The last row is the cursor's.
    const size_t used = std::min(lines_.size() + 1, terminal_.rows);
    const size_t room = terminal_.rows - used;
    if (rates.size() <= room) {
      for (const UnitRate& rate : rates) AddUnit(rate);
      return;
    }
    if (room == 0) return;
    std::ranges::stable_sort(rates, std::ranges::greater{}, &UnitRate::share);
    const auto others = rates.begin() + static_cast<int64_t>(room - 1);
    std::sort(rates.begin(), others,
              [](const UnitRate& a, const UnitRate& b) { return a.id < b.id; });
    std::for_each(rates.begin(), others,
                  [this](const UnitRate& rate) { AddUnit(rate); });
    const auto left = static_cast<size_t>(rates.end() - others);
    Add(fmt::format("        and {} more, {:.0f} % at most", FormatCount(left),
                    others->share * 100));
  }

  void AddUnit(const UnitRate& rate) {
    const size_t columns =
        std::clamp(terminal_.columns - std::min(kAroundBar, terminal_.columns),
                   kLeastBar, kMostBar);
    Add(fmt::format("{:>7} {} {:>4.0f} % {:>13}", value(rate.id),
                    Bar(rate.share, columns), rate.share * 100,
                    FormatBitRate(rate.bps)));
  }

  std::string Bar(double share, size_t columns) const {
    constexpr std::array<std::string_view, 8> kEighths = {"",  "▏", "▎", "▍",
                                                          "▌", "▋", "▊", "▉"};
    const double wanted = 8 * static_cast<double>(columns) * share;
    auto eighths = static_cast<size_t>(
        std::clamp(wanted, 0.0, 8 * static_cast<double>(columns)) + 0.5);
    if (!terminal_.utf8) eighths = (eighths + 4) / 8 * 8;
    if (eighths == 0 && share > 0) eighths = 1;
    std::string bar;
    for (size_t i = 0; i < eighths / 8; ++i) bar += terminal_.utf8 ? "█" : "#";
    bar += terminal_.utf8 ? kEighths[eighths % 8] : eighths % 8 > 0 ? "-" : "";
    for (size_t i = (eighths + 7) / 8; i < columns; ++i) {
      bar += terminal_.utf8 ? "·" : ".";
    }
    return bar;
  }

  const LiveFigures& before_;
  const LiveFigures& now_;
  Terminal terminal_;
  Rates recent_;
  Rates ever_;
  std::vector<LiveText> lines_;
};

}  // namespace

std::vector<LiveText> LiveScreen(const std::string& title,
                                 const LiveFigures& before,
                                 const LiveFigures& now,
                                 const Terminal& terminal) {
  return Screen(before, now, terminal).Draw(title);
}

std::string LiveLine(const LiveFigures& before, const LiveFigures& now) {
  const Rates recent(before.elapsed, now.elapsed);
  std::string line = FormatDuration(now.elapsed);
  if (now.done_1000.has_value()) {
    line += fmt::format(", {} %", *now.done_1000 / 10);
  }
  line += fmt::format(
      ": {} packets in, {}, {}; {} released, {} dropped; {} flows, {} "
      "flowlets, {} seamless, {} pulled; {} units up; latency p50 {}, p99 {}",
      FormatCount(now.counts[kPacketsIn]),
      recent.Count(before.counts[kPacketsIn], now.counts[kPacketsIn]),
      FormatBitRate(recent.Bits(before.counts[kBytesIn], now.counts[kBytesIn])),
      FormatCount(now.counts[&RunResult::packets_released]),
      FormatCount(now.packets_dropped()),
      FormatCount(now.counts[&ControllerCounters::flows]),
      FormatCount(now.counts[&ControllerCounters::flowlets]),
      FormatCount(now.counts[&StateCounters::seamless]),
      FormatCount(now.counts[&StateCounters::pulled]), now.units_up(),
      FormatDuration(now.latency.all.p50), FormatDuration(now.latency.all.p99));
  if (now.late.count > 0) {
    line += fmt::format(", late p99 {}", FormatDuration(now.late.all.p99));
  }
  return Ascii(line);
}

}  // namespace snf
