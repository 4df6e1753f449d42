// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_BENCH_BENCH_COMMAND_H_
#define SNF_PLATFORM_BENCH_BENCH_COMMAND_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "platform/bench/bench_rows.h"
#include "platform/process/flags.h"

namespace CLI {
class App;
}

namespace snf {

// `snf bench` measures the budgets of the project on this machine, each beside
// the base that it is compared with. The command is built once at the start of
// the program; parsing fills it, Run does the work.
class BenchCommand {
 public:
  // Adds the subcommand to `app`, which must outlive it.
  explicit BenchCommand(CLI::App& app);
  BenchCommand(const BenchCommand&) = delete;
  BenchCommand& operator=(const BenchCommand&) = delete;

  // Returns true if the command line names this command.
  bool chosen() const;

  // Measures and prints; an error is one line on stderr. Returns the exit code
  // (platform/process/exit_code.h). A budget that is missed is no error; a
  // packet that is lost is one.
  int Run();

 private:
  void AddFlags();
  absl::Status SetRows(const std::string& text);
  absl::Status Measure(bool& is_right) const;

  CLI::App& command_;
  FlagSet flags_;
  std::vector<bool> rows_;  // by number
  std::string rows_text_ = "all";
  uint32_t repetitions_ = 7;
  uint32_t packets_ = 200'000;
  bool quick_ = false;
  std::string json_;
};

}  // namespace snf

#endif  // SNF_PLATFORM_BENCH_BENCH_COMMAND_H_
