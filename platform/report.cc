// SPDX-License-Identifier: Apache-2.0
#include "platform/report.h"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/packet_parser.h"
#include "base/quantity.h"
#include "fmt/format.h"
#include "platform/report_advice.h"
#include "platform/report_figures.h"

namespace snf {
namespace {

constexpr int kLeastColumns = 72;
constexpr size_t kLabelColumns = 12;
constexpr size_t kMessagesShown = 5;

// What the terminal does not take as text is shown as '?'.
std::string Printable(std::string text) {
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  }
  return text;
}

size_t ColumnsOf(std::string_view text) {
  return static_cast<size_t>(
      std::ranges::count_if(text, [](char c) { return (c & 0xc0) != 0x80; }));
}

// Where the first word of `prose` ends; a number and its unit are one word.
size_t EndOfWord(std::string_view prose) {
  size_t end = 0;
  do {
    const size_t begin = end == 0 ? 0 : end + 1;
    end = std::min(prose.find(' ', begin), prose.size());
    const std::string_view word = prose.substr(begin, end - begin);
    if (word.find_first_not_of("(0123456789.,") != std::string_view::npos ||
        word.empty() || word.back() == '.' || word.back() == ',') {
      break;
    }
  } while (end < prose.size());
  return end;
}

// Writes a report line by line in a given style.
class Page {
 public:
  explicit Page(const TextStyle& style)
      : style_(style),
        columns_(static_cast<size_t>(std::max(style.columns, kLeastColumns))) {}

  // As wide as the widest number.
  void set_number_columns(size_t columns) { number_columns_ = columns; }
  const TextStyle& style() const { return style_; }

  void Blank() { text_ += '\n'; }
  void Raw(std::string_view text) { text_ += text; }
  void Heading(std::string_view text) { Emphasise("\033[1m", text); }
  void Alarm(std::string_view text) { Emphasise("\033[1;31m", text); }

  // "Label   + 1,234  what it counts"
  void Row(std::string_view label, std::string_view sign,
           std::string_view number, const std::string& what) {
    const std::string front =
        fmt::format("{:<{}}{:>1} {:>{}}", label, kLabelColumns, sign, number,
                    number_columns_);
    if (what.empty()) {
      text_ += front + '\n';
      return;
    }
    Wrap(front + "  ", ColumnsOf(front) + 2, what);
  }

  void Count(std::string_view label, uint64_t count, const std::string& what) {
    Row(label, "", FormatCount(count), what);
  }

  // Prose between `indent` and the last column, `front` before its first line.
  void Wrap(std::string_view front, size_t indent, std::string_view prose) {
    text_ += front;
    size_t column = indent;
    bool first = true;
    while (!prose.empty()) {
      const size_t end = EndOfWord(prose);
      const std::string_view word = prose.substr(0, end);
      prose.remove_prefix(std::min(end + 1, prose.size()));
      if (!first && column + 1 + ColumnsOf(word) > columns_) {
        text_.append(1, '\n').append(indent, ' ');
        column = indent;
        first = true;
      }
      if (!first) text_ += ' ';
      text_ += word;
      column += ColumnsOf(word) + (first ? 0 : 1);
      first = false;
    }
    text_ += '\n';
  }
  void Prose(std::string_view prose) { Wrap("  ", 2, prose); }
  void Item(std::string_view prose) { Wrap("  - ", 4, prose); }

  // A command on as many lines as it needs, to be pasted as it is.
  void Command(const std::vector<std::string>& words) {
    text_ += "    ";
    size_t column = 4;
    for (size_t i = 0; i < words.size(); ++i) {
      // Room for this word and " \".
      if (i > 0 && column + 1 + ColumnsOf(words[i]) + 2 > columns_) {
        text_ += " \\\n      ";
        column = 6;
      } else if (i > 0) {
        text_ += ' ';
        ++column;
      }
      text_ += words[i];
      column += ColumnsOf(words[i]);
    }
    text_ += '\n';
  }

  std::string Take() {
    if (style_.utf8) return std::move(text_);
    std::string ascii;
    for (size_t i = 0; i < text_.size(); ++i) {
      const bool micro = text_.compare(i, 2, "µ") == 0;
      ascii += micro ? 'u' : text_[i];
      i += micro ? 1 : 0;
    }
    return ascii;
  }

 private:
  void Emphasise(std::string_view escape, std::string_view text) {
    if (style_.colour) text_ += escape;
    text_ += text;
    text_ += style_.colour ? "\033[0m\n" : "\n";
  }

  TextStyle style_;
  size_t columns_;
  size_t number_columns_ = 7;
  std::string text_;
};

std::string Plural(uint64_t count, std::string_view one) {
  return fmt::format("{} {}{}", FormatCount(count), one, count == 1 ? "" : "s");
}

void AddProblems(const RunResult& result, Page& page) {
  if (RunIsSound(result)) return;
  page.Alarm("PROBLEM: these figures cannot be trusted.");
  if (!result.conserved()) {
    const uint64_t begun = result.packets_in + result.packets_generated;
    const uint64_t ended = result.packets_released +
                           result.packets_passed_through +
                           result.packets_consumed + result.packets_dropped();
    page.Item(fmt::format(
        "Packets do not add up: {} began, and {} ended as released, passed "
        "through, consumed or dropped; {} {}.",
        FormatCount(begun), FormatCount(ended),
        FormatCount(begun > ended ? begun - ended : ended - begun),
        begun > ended ? "are missing" : "too many"));
  }
  if (result.violations > 0) {
    page.Item(fmt::format("The checker saw a rule of the protocol broken {}:",
                          result.violations == 1
                              ? "once"
                              : FormatCount(result.violations) + " times"));
    const size_t shown =
        std::min(result.violation_messages.size(), kMessagesShown);
    for (size_t i = 0; i < shown; ++i) {
      page.Wrap("      ", 6, Printable(result.violation_messages[i]));
    }
    if (result.violations > shown) {
      page.Wrap(
          "      ", 6,
          fmt::format("and {} more", FormatCount(result.violations - shown)));
    }
  }
  page.Prose(
      "This is a fault of SNF or of the network function, not of the "
      "capture.");
  page.Blank();
}

void AddTitle(const RunInfo& info, Page& page) {
  std::string files;
  constexpr size_t kFilesShown = 3;
  for (size_t i = 0; i < std::min(info.files.size(), kFilesShown); ++i) {
    files += (i == 0 ? "" : ", ") + Printable(info.files[i]);
  }
  if (info.files.size() > kFilesShown) {
    files += fmt::format(" and {} more", info.files.size() - kFilesShown);
  }
  page.Heading(fmt::format("{}: {} under policy {}", files, Printable(info.nf),
                           info.policy));
  page.Blank();
}

void AddTraffic(const ReportFigures& figures, Page& page) {
  std::string text = FormatDuration(figures.duration);
  if (figures.sparse()) {
    text += fmt::format(
        ", of which {} had traffic (counted by 100 ms): {} "
        "in these",
        FormatDuration(figures.busy), FormatBitRate(figures.busy_rate_bps));
  } else if (figures.duration.ns > 0) {
    text += fmt::format(" at {}", FormatBitRate(figures.mean_rate_bps));
  }
  text += fmt::format("; {:.0f} bytes a packet", figures.mean_packet_bytes);
  page.Wrap(fmt::format("{:<{}}  ", "Traffic", kLabelColumns),
            kLabelColumns + 2, text);
}

void AddPackets(const RunResult& result, Page& page) {
  const uint64_t begun = result.packets_in + result.packets_generated;
  page.Count("Packets", result.packets_in, "in");
  if (result.packets_generated > 0) {
    page.Row("", "+", FormatCount(result.packets_generated),
             "generated by the network function");
    page.Row("", "=", FormatCount(begun), "");
    page.Blank();
  }
  page.Count("", result.packets_released, "released");
  if (result.packets_passed_through > 0) {
    page.Row("", "+", FormatCount(result.packets_passed_through),
             "passed through untouched: no readable IP header");
  }
  if (result.packets_consumed > 0) {
    page.Row("", "+", FormatCount(result.packets_consumed),
             "consumed by the network function");
  }
  if (result.packets_dropped() == 0) page.Row("", "+", "0", "dropped");
  for (const DropCount& drop : DropCounts(result)) {
    if (drop.packets == 0) continue;
    page.Row("", "+", FormatCount(drop.packets),
             "dropped: " + Printable(drop.name));
  }
  const uint64_t ended = result.packets_released +
                         result.packets_passed_through +
                         result.packets_consumed + result.packets_dropped();
  page.Row("", "=", FormatCount(ended),
           result.conserved() ? "all accounted for"
                              : fmt::format("and not {}: see the problem above",
                                            FormatCount(begun)));
}

void AddFlows(const RunOptions& options, const RunResult& result,
              const ReportFigures& figures, Page& page) {
  const ControllerCounters& counters = result.controller;
  const uint64_t by_new =
      counters.flowlets - counters.flowlets_by_gap - counters.flowlets_by_bytes;
  page.Count("Flows", counters.flows, "");
  page.Count("Flowlets", counters.flowlets,
             fmt::format("{:.2f} a flow", figures.flowlets_per_flow));
  page.Count("", by_new, "began with a new flow");
  page.Count("", counters.flowlets_by_gap,
             fmt::format("after a gap of more than {}",
                         FormatDuration(options.controller.flowlet_timeout,
                                        Precision::kExact)));
  page.Count("", counters.flowlets_by_bytes,
             fmt::format("because the one before was full ({})",
                         FormatBytes(options.controller.flowlet_bytes,
                                     Precision::kExact)));
  page.Blank();
  page.Count("Decisions", counters.decisions,
             "each choosing a unit for a flowlet");
  page.Count("", counters.flowlets_moved,
             "flowlets moved to another unit than the one before");
  page.Count("", result.state_pulls, "pulls of state from unit to unit");
  page.Count("", counters.overcommitted,
             "overcommitted: no unit had room for the demand");
}

void AddUnits(const RunOptions& options, const RunResult& result,
              const ReportFigures& figures, Page& page) {
  const auto percent = [](int64_t per_1000) {
    return fmt::format("{:.0f} %", static_cast<double>(per_1000) / 10);
  };
  page.Count("Units", result.units_max,
             fmt::format("at most, {:.2f} on average, {} each",
                         static_cast<double>(result.units_mean_1000) / 1000,
                         FormatBitRate(options.controller.unit_capacity_bps)));
  page.Count("", result.cold_starts, "started cold");
  page.Count("", result.warm_starts, "started warm");
  page.Row("Utilisation", "",
           fmt::format("{:.0f} %", figures.capacity_used * 100),
           "of the capacity that was provisioned");
  page.Row("", "", percent(result.utilisation_1000.Quantile(50'000)),
           "p50 of a unit in 100 ms");
  page.Row("", "", percent(result.utilisation_1000.Quantile(99'000)),
           "p99 of a unit in 100 ms");
}

void AddLatency(const RunResult& result, Page& page) {
  const Histogram& latency = result.latency_ns;
  if (latency.count() == 0) return;
  constexpr std::array<std::pair<std::string_view, uint32_t>, 5> kQuantiles = {
      {{"p50", 50'000},
       {"p90", 90'000},
       {"p99", 99'000},
       {"p99.9", 99'900},
       {"max", 100'000}}};
  std::string names;
  std::string times;
  for (const auto& [name, per_100000] : kQuantiles) {
    names += fmt::format("{:>12}", name);
    times += fmt::format("{:>12}",
                         FormatDuration(Nanos{latency.Quantile(per_100000)}));
  }
  page.Blank();
  page.Raw(fmt::format("{:<{}}{}\n{:{}}{}\n", "Latency", kLabelColumns - 2,
                       names, "", kLabelColumns - 2, times));
}

void AddNotes(const RunResult& result, const RunInfo& info, Page& page) {
  std::vector<std::string> notes;
  for (const std::string& warning : info.warnings) {
    notes.push_back(Printable(warning));
  }
  if (result.late_packets > 0) {
    notes.push_back(
        Plural(result.late_packets, "packet") +
        " earlier in time than the one before: taken as simultaneous.");
  }
  const ClassifierCounters& classifier = result.classifier;
  if (classifier.fragments_unmatched > 0) {
    notes.push_back(fmt::format(
        "{} without the first one of the packet; each such packet counts as a "
        "flow of its own.",
        Plural(classifier.fragments_unmatched, "later IP fragment")));
  }
  std::string reasons;
  for (size_t i = static_cast<size_t>(ParseResult::kNotIp); i < kParseResults;
       ++i) {
    if (classifier.results[i] == 0) continue;
    reasons += fmt::format("{}{} {}", reasons.empty() ? "" : ", ",
                           FormatCount(classifier.results[i]),
                           Name(static_cast<ParseResult>(i)));
  }
  if (!reasons.empty()) {
    notes.push_back("Packets passed through, by reason: " + reasons + ".");
  }
  if (notes.empty()) return;
  page.Blank();
  page.Heading("Notes");
  for (const std::string& note : notes) page.Item(note);
}

void AddEnd(const RunOptions& options, const RunResult& result,
            const RunInfo& info, Page& page) {
  page.Blank();
  page.Wrap(fmt::format("{:<{}}  ", "Digest", kLabelColumns), kLabelColumns + 2,
            fmt::format("{:016x} of all that was released, seed {}",
                        result.digest, info.seed));
  if (info.elapsed_s > 0) {
    page.Wrap(fmt::format("{:<{}}  ", "Took", kLabelColumns), kLabelColumns + 2,
              fmt::format(
                  "{:.2f} s, {} packets a second, snf {}", info.elapsed_s,
                  FormatCount(static_cast<uint64_t>(
                      static_cast<double>(result.packets_in) / info.elapsed_s)),
                  info.version));
  }
  page.Blank();
  page.Heading("What it means");
  page.Prose(Meaning(options, result));
  const std::string hint = SlownessHint(options, result);
  if (!hint.empty()) page.Prose(hint);
  page.Blank();
  page.Heading("Three things to try next");
  for (const Proposal& proposal : Proposals(options, result, info)) {
    page.Item(proposal.purpose + ":");
    page.Command(proposal.words);
  }
}

// Of the widest number that stands in the table.
size_t NumberColumns(const RunResult& result) {
  constexpr size_t kLeast = 7;
  const uint64_t greatest =
      std::max({result.packets_in + result.packets_generated,
                result.controller.flowlets, result.controller.decisions});
  return std::max(kLeast, FormatCount(greatest).size());
}

}  // namespace

bool RunIsSound(const RunResult& result) {
  return result.conserved() && result.violations == 0;
}

std::string TextReport(const RunOptions& options, const RunResult& result,
                       const RunInfo& info, const TextStyle& style) {
  const ReportFigures figures = FiguresOf(options, result);
  Page page(style);
  page.set_number_columns(NumberColumns(result));
  AddProblems(result, page);
  AddTitle(info, page);
  AddTraffic(figures, page);
  page.Blank();
  AddPackets(result, page);
  page.Blank();
  AddFlows(options, result, figures, page);
  page.Blank();
  AddUnits(options, result, figures, page);
  AddLatency(result, page);
  AddNotes(result, info, page);
  const std::string chart =
      BandwidthChart(result.epochs, result.first_packet,
                     options.controller.unit_capacity_bps, style);
  if (!chart.empty()) {
    page.Blank();
    page.Heading("Demanded and provisioned bandwidth per 100 ms");
    page.Raw(chart);
  }
  AddEnd(options, result, info, page);
  return page.Take();
}

}  // namespace snf
