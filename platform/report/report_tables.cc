// SPDX-License-Identifier: Apache-2.0
#include "platform/report/report_tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/quantity.h"
#include "nlohmann/json.hpp"
#include "platform/report/nf_export.h"
#include "traces/byte_sink.h"

namespace snf {
namespace {

using Json = nlohmann::ordered_json;

// "hosts", in a chain "monitor.hosts".
std::string NameOf(const std::string& nf, const std::string& name) {
  return nf.empty() ? name : nf + "." + name;
}

void AddTable(const TableFigures& table, Page& page) {
  std::string what = fmt::format(
      "{}: {} of {}; {} in {}, {}", Printable(NameOf(table.nf, table.name)),
      FormatCount(table.entries),
      table.max_entries == 1 ? "1 entry"
                             : FormatCount(table.max_entries) + " entries",
      Plural(table.updates, "update"), Plural(table.messages, "message"),
      FormatBytes(static_cast<int64_t>(table.bytes)));
  if (table.refused > 0) {
    what += fmt::format(", {} into the rest for want of room",
                        FormatCount(table.refused));
  }
  if (table.forgotten > 0) {
    what += fmt::format(", {} into the rest because old",
                        table.forgotten == 1
                            ? "1 entry"
                            : FormatCount(table.forgotten) + " entries");
  }
  if (table.staleness_ns.count() > 0) {
    const auto quantile = [&](uint32_t per_100000) {
      return FormatDuration(Nanos{table.staleness_ns.Quantile(per_100000)});
    };
    what += fmt::format(
        "; known where it is read after p50 {}, p99 {}, max {}, and everywhere "
        "after max {}",
        quantile(50'000), quantile(99'000), quantile(100'000),
        FormatDuration(Nanos{table.spread_ns.max()}));
  }
  page.Say("Table", what);
}

std::string Text(const NfReport::Cell& cell) {
  if (const auto* number = std::get_if<uint64_t>(&cell)) {
    return FormatCount(*number);
  }
  return Printable(std::get<std::string>(cell));
}

// The first column to the left, the others to the right.
void AddGrid(const NfReport::Table& table, Page& page) {
  std::vector<std::vector<std::string>> lines = {{}};
  for (const std::string& column : table.columns) {
    std::string name = column;
    std::ranges::replace(name, '_', ' ');
    lines.front().push_back(name);
  }
  for (const auto& row : table.rows) {
    std::vector<std::string>& line = lines.emplace_back();
    for (const NfReport::Cell& cell : row) line.push_back(Text(cell));
  }
  std::vector<size_t> widths(table.columns.size());
  for (const auto& line : lines) {
    for (size_t i = 0; i < std::min(line.size(), widths.size()); ++i) {
      widths[i] = std::max(widths[i], ColumnsOf(line[i]));
    }
  }
  for (const auto& line : lines) {
    std::string text;
    for (size_t i = 0; i < std::min(line.size(), widths.size()); ++i) {
      const std::string fill(widths[i] - ColumnsOf(line[i]), ' ');
      text += i == 0 ? "  " + line[i] + fill : "  " + fill + line[i];
    }
    page.Raw(text + "\n");
  }
}

Json Staleness(const Histogram& times) {
  return {{"p50", times.Quantile(50'000)},
          {"p99", times.Quantile(99'000)},
          {"max", times.max()}};
}

Json Rows(const NfReport::Table& table) {
  Json rows = Json::array();
  for (const auto& row : table.rows) {
    Json& one = rows.emplace_back(Json::object());
    for (size_t i = 0; i < std::min(row.size(), table.columns.size()); ++i) {
      std::visit([&](const auto& cell) { one[table.columns[i]] = cell; },
                 row[i]);
    }
  }
  return rows;
}

}  // namespace

void AddTables(const RunResult& result, Page& page) {
  for (const TableFigures& table : result.tables) AddTable(table, page);
  if (!result.tables.empty()) page.Blank();
  for (const RunResult::OfNf& of : result.nf_reports) {
    for (const NfReport::Table& table : of.report.tables) {
      if (table.rows.empty()) continue;
      page.Heading(Printable(of.nf.empty()
                                 ? table.title
                                 : fmt::format("{} ({})", table.title, of.nf)));
      AddGrid(table, page);
      page.Blank();
    }
  }
}

Json JsonOfTables(const RunResult& result) {
  Json tables = Json::object();
  for (const TableFigures& table : result.tables) {
    tables[NameOf(table.nf, table.name)] = {
        {"entries", table.entries},
        {"max_entries", table.max_entries},
        {"updates", table.updates},
        {"refused", table.refused},
        {"forgotten", table.forgotten},
        {"messages", table.messages},
        {"bytes", table.bytes},
        {"repeated", table.repeated},
        {"staleness_ns", Staleness(table.staleness_ns)},
        {"spread_ns", Staleness(table.spread_ns)}};
  }
  return tables;
}

Json JsonOfNfReports(const RunResult& result) {
  Json reports = Json::object();
  for (const RunResult::OfNf& of : result.nf_reports) {
    for (const NfReport::Table& table : of.report.tables) {
      reports[NameOf(of.nf, table.title)] = Rows(table);
    }
  }
  return reports;
}

void AddNfLogs(const RunResult& result, Page& page) {
  const NfLogFigures& all = result.nf_log;
  bool is_first = true;
  const auto count = [&](uint64_t n, const std::string& what) {
    if (n == 0) return;
    page.Count(std::exchange(is_first, false) ? "Logs" : "", n, what);
  };
  for (const NfLogCount& log : result.nf_logs) {
    const std::string name = Printable(log.name);
    count(log.released, fmt::format("records of {}", name));
    count(log.no_room, fmt::format("more of {} did not fit: too many at one "
                                   "packet, or too long",
                                   name));
  }
  count(result.state.units.records_refused,
        "records lost: their unit had no buffer");
  count(all.batches_lost, "packets lost with their records, in failed units");
  count(all.batches_refused, "packets' records refused: not well-formed");
  count(all.queue_full, "records not written: the queue was full");
  count(all.write_failed, "lines not written: their file failed");
  if (!is_first) page.Blank();
}

void AddPorts(const RunResult& result, Page& page) {
  if (result.live.ports.empty()) return;
  for (const PortFigures& port : result.live.ports) {
    const auto count = [&](uint64_t n, const std::string& what) {
      if (n > 0) page.Count("", n, what);
    };
    page.Count("Port", port.received,
               fmt::format("received by {} ({})", port.name,
                           Printable(port.interface)));
    count(port.split, "frames, of several packets each, split into these");
    count(port.merged,
          "frames among these, of several packets each, kept whole");
    count(port.refused, "frames refused: cut, or not to be split");
    count(port.kernel_drops, "frames dropped by the kernel: too fast");
    page.Count("", port.sent, "sent");
    count(port.cut, "of these, more than the frames that they were cut from");
    count(port.send_drops - port.too_long,
          port.router.empty()
              ? "not taken by the kernel: too fast, or it is down"
              : "not sent for other reasons, which the next lines name");
    count(port.too_long, "not sent: longer than the MTU");
    count(port.foreign, "fragments let go, which were other controllers'");
    for (const NamedCount& named : port.router) count(named.count, named.name);
  }
  if (result.live.copies > 0) {
    page.Count("", result.live.copies,
               "copies, of packets that left by several ports of a side");
  }
  if (result.live.answer_copies > 0) {
    page.Count("", result.live.answer_copies,
               "copies, of answers that several chains may have asked for");
  }
  if (result.live.no_chain > 0) {
    page.Count("", result.live.no_chain,
               "dropped, for which neither a rule nor a default names a chain");
  }
  if (result.live.filtered > 0) {
    page.Count("", result.live.filtered, "between hosts of one side: filtered");
  }
  if (result.live.unrouted > 0) {
    page.Count("", result.live.unrouted,
               "made by the NF, its receiver and sender unseen: not sent");
  }
  page.Blank();
}

bool IsOfCapacity(const Figure& figure) {
  return figure.key == "capacity_used" ||
         figure.key.starts_with("utilisation.");
}

absl::Status WriteNfFiles(const RunResult& result) {
  for (const RunResult::OfNf& of : result.nf_reports) {
    for (const NfReport::File& file : of.report.files) {
      absl::Status status = WriteFile(file.path, file.bytes);
      if (!status.ok()) return status;
    }
  }
  for (const RunResult::OfNf& of : result.nf_reports) {
    for (const NfReport::Export& exported : of.report.exports) {
      absl::Status status = SendExport(exported);
      if (!status.ok()) return status;
    }
  }
  return absl::OkStatus();
}

}  // namespace snf
