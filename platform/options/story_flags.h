// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_OPTIONS_STORY_FLAGS_H_
#define SNF_PLATFORM_OPTIONS_STORY_FLAGS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "platform/options/run_flag_set.h"

namespace snf {

// The flags that look closer at a replay: single flows, decisions, usage, and
// other policies (RunFlagSet). A run between ports has none of them.
class StoryFlags {
 public:
  explicit StoryFlags(RunFlagSet& set);

  // Policies that the run is compared with.
  const std::vector<std::string>& compared() const { return compared_; }
  absl::Status Check() const;
  // Returns an error if a capture that is read twice can be read only once.
  absl::Status CheckReadOnce() const;
  // Reads which flows are to be explained, once the chains are settled.
  // `is_inside_end`: they are named by their inside end.
  absl::Status SettleExplain(bool is_inside_end);

 private:
  void AddLogs();
  void AddExplain();
  void AddCompare();
  absl::Status ParseCompare(const std::string& text);

  RunFlagSet& set_;
  std::string explain_;
  std::vector<std::string> compared_;
};

}  // namespace snf

#endif  // SNF_PLATFORM_OPTIONS_STORY_FLAGS_H_
