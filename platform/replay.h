// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_REPLAY_H_
#define SNF_PLATFORM_REPLAY_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "platform/flags.h"
#include "platform/run.h"

namespace CLI {
class App;
}

namespace snf {

class CaptureWriter;
class MergedReader;
class VirtualDriver;

// `snf replay`: captures in, through flowlets and units in virtual time, a
// report out. Built once at start; parsing fills it, Run does the work.
class ReplayCommand {
 public:
  // Adds the subcommand to `app`, which must outlive it.
  explicit ReplayCommand(CLI::App& app);
  ReplayCommand(const ReplayCommand&) = delete;
  ReplayCommand& operator=(const ReplayCommand&) = delete;

  bool chosen() const;

  // Runs and prints; errors are one line on stderr. Returns the exit code
  // (platform/exit_code.h).
  int Run();

 private:
  void AddFlags();
  void AddTuningFlags();
  void AddUnitFlags();
  // Flags that are right alone but not together.
  absl::Status CheckTogether() const;
  void UseBundledCapture();
  // Carries what was parsed over into options_.
  void SettleOptions();
  absl::Status Replay(int& exit_code);
  absl::Status OfferAll(MergedReader& reader, VirtualDriver& driver,
                        const CaptureWriter* writer) const;
  absl::Status Report(const RunResult& result, double elapsed_s,
                      const std::vector<std::string>& warnings) const;
  absl::Status FindFlow(const std::string& text, FlowKey& key) const;

  CLI::App& command_;
  FlagSet flags_;
  RunOptions options_;
  std::vector<std::string> files_;
  std::string nf_ = "passthrough";
  std::string out_;
  std::string json_;
  std::string csv_;
  std::string explain_;
  size_t policy_ = 0;
  size_t flow_key_ = 0;
  size_t load_signal_ = 0;
  size_t demand_ = 0;
  uint32_t replicas_ = 3;
  uint64_t seed_ = 1;
  bool quiet_ = false;
};

}  // namespace snf

#endif  // SNF_PLATFORM_REPLAY_H_
