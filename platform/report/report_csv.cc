// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <filesystem>
#include <string>
#include <system_error>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "fmt/format.h"
#include "platform/report/report.h"
#include "platform/report/report_tables.h"
#include "platform/report/unit_series.h"
#include "platform/run/figures/figures.h"
#include "traces/byte_sink.h"
#include "traces/file_status.h"

namespace snf {
namespace {

// Decimal seconds without rounding.
std::string Seconds(Nanos time) {
  const bool negative = time.ns < 0;
  const uint64_t ns = negative ? -static_cast<uint64_t>(time.ns)
                               : static_cast<uint64_t>(time.ns);
  return fmt::format("{}{}.{:09}", negative ? "-" : "", ns / 1'000'000'000,
                     ns % 1'000'000'000);
}

std::string BandwidthCsv(const RunOptions& options, const RunResult& result,
                         bool is_unpaced) {
  constexpr uint64_t kEpochsPerSecond = 1'000'000'000 / Provisioning::kEpochNs;
  std::string text =
      "start_s,offered_bps,drained_bps,provisioned_bps,units,"
      "dropped_packets\n";
  const bool is_measured = UnitsAreMeasured(result);
  for (const EpochSample& sample : result.epochs) {
    const double units = static_cast<double>(sample.unit_ns) /
                         static_cast<double>(Provisioning::kEpochNs);
    const auto capacity =
        static_cast<double>(options.controller.unit_capacity_bps);
    const std::string provisioned =
        is_measured && !is_unpaced
            ? fmt::format("{}", std::llround(units * capacity))
            : "";
    text +=
        fmt::format("{},{},{},{},{},{}\n",
                    Seconds(SinceFirstPacket(sample, result.first_packet)),
                    sample.offered_bytes * 8 * kEpochsPerSecond,
                    sample.drained_bytes * 8 * kEpochsPerSecond, provisioned,
                    is_measured ? fmt::format("{:.4f}", units) : "",
                    sample.dropped_packets);
  }
  return text;
}

// "quantile,NAME_ns" and a line for each of some quantiles.
std::string QuantilesCsv(const std::string& name, const Histogram& times) {
  constexpr uint32_t kQuantiles[] = {0,      1'000,  10'000, 25'000,
                                     50'000, 75'000, 90'000, 95'000,
                                     99'000, 99'900, 99'990, 100'000};
  std::string text = "quantile," + name + "_ns\n";
  if (times.count() == 0) return text;
  for (const uint32_t per_100000 : kQuantiles) {
    text += fmt::format("{}.{:05},{}\n", per_100000 / 100'000,
                        per_100000 % 100'000, times.Quantile(per_100000));
  }
  return text;
}

std::string FiguresCsv(const RunOptions& options, const RunResult& result,
                       bool is_unpaced) {
  const ReportFigures derived = FiguresOf(options, result);
  std::string text = "figure,value,unit\n";
  for (const Figure& figure : Figures()) {
    if (!IsShown(figure, result)) continue;
    if (is_unpaced && IsOfCapacity(figure)) continue;
    const auto add = [&]<typename T>(const T& number) {
      if constexpr (std::is_arithmetic_v<T>) {
        text += fmt::format("{},{},{}\n", figure.key, number, figure.unit);
      }
    };
    std::visit(add, ValueOf(figure, result, derived));
  }
  return text;
}

}  // namespace

absl::Status WriteCsv(const std::string& directory, const RunOptions& options,
                      const RunResult& result, const UnitSeries* units,
                      bool is_unpaced) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error) {
    return FileStatus(directory + ": cannot make the directory", error.value());
  }
  const std::filesystem::path path(directory);
  std::vector<std::pair<const char*, std::string>> files = {
      {"bandwidth.csv", BandwidthCsv(options, result, is_unpaced)},
      {"latency.csv", QuantilesCsv("latency", result.latency_ns)},
      {"wait.csv", QuantilesCsv("wait", result.state.wait_ns)},
      {"figures.csv", FiguresCsv(options, result, is_unpaced)}};
  if (units != nullptr) {
    files.emplace_back("units.csv", units->UnitTimes());
    files.emplace_back("unit_series.csv", units->UnitSteps());
  } else {
    for (const char* name : {"units.csv", "unit_series.csv"}) {
      std::filesystem::remove(path / name, error);
      if (error) {
        return FileStatus((path / name).string() + ": cannot remove",
                          error.value());
      }
    }
  }
  for (const auto& [name, text] : files) {
    const absl::Status status = WriteFile(path / name, text);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace snf
