// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_OPTIONS_REAL_FLAGS_H_
#define SNF_PLATFORM_OPTIONS_REAL_FLAGS_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "platform/drivers/real_time/real_options.h"
#include "platform/options/run_flag_set.h"

namespace snf {

// The flags of runs in real time: pace, threads, processes, and what is shown
// meanwhile (RunFlagSet).
class RealFlags {
 public:
  explicit RealFlags(RunFlagSet& set);

  absl::Status Check() const;
  void Settle();

 private:
  enum class Overload : uint8_t { kAuto, kWait, kDrop };

  void AddPace();
  void AddThreads();
  void AddIsolation();
  void AddHosts();
  void AddLooks();
  absl::Status ParseThreads(const std::string& text);
  static absl::Status ParseBusyPoll(const std::string& text, RealOptions& real);
  absl::Status CheckVirtualTime() const;
  absl::Status CheckWarmPool() const;
  // Returns true if processes of units come and go.
  bool has_warm_pool() const;

  RunFlagSet& set_;
  Overload overload_ = Overload::kAuto;
  uint32_t warm_pool_ = 2;
};

}  // namespace snf

#endif  // SNF_PLATFORM_OPTIONS_REAL_FLAGS_H_
