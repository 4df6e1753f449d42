// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_COMMANDS_BENCH_BENCH_COMMAND_H_
#define SNF_PLATFORM_COMMANDS_BENCH_BENCH_COMMAND_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "platform/commands/bench/bench_rows.h"
#include "platform/process/command.h"

namespace snf {

// `snf bench` measures the budgets of the project on this machine, each next to
// its baseline. A missed budget is not an error, but a lost packet is.
class BenchCommand final : public FlagCommand {
 public:
  BenchCommand();

 private:
  absl::Status Run() override;
  void AddFlags();
  absl::Status SetRows(const std::string& text);

  std::vector<bool> rows_;  // by number
  std::string rows_text_ = "all";
  uint32_t repetitions_ = 7;
  uint32_t packets_ = 200'000;
  std::string capture_ = "traces/small.pcap.zst";
  std::string rules_;
  bool quick_ = false;
  std::string json_;
  std::string compare_;
};

}  // namespace snf

#endif  // SNF_PLATFORM_COMMANDS_BENCH_BENCH_COMMAND_H_
