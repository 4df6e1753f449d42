// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_OPTIONS_RUN_FLAG_SET_H_
#define SNF_PLATFORM_OPTIONS_RUN_FLAG_SET_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "platform/options/run_request.h"
#include "platform/process/flags.h"

namespace snf {

// The flags of a run, and the request that they fill: what the parts of
// RunFlags share. Each part adds its flags in its constructor, Check refuses
// flags that are right alone but not together, and Settle then carries over
// what was not parsed into its place. Owner-thread only.
struct RunFlagSet {
  // The section of a command's flags that these are.
  static constexpr char kSection[] = "run";

  // Both must outlive this. A run has captures, or ports. Flags that are added
  // from here on are in the section.
  RunFlagSet(FlagSet& all_flags, RunRequest& filled, bool captures)
      : flags(all_flags), request(filled), has_captures(captures) {
    flags.Section(kSection);
  }
  RunFlagSet(const RunFlagSet&) = delete;
  RunFlagSet& operator=(const RunFlagSet&) = delete;

  bool given(const char* flag) const { return flags.given(flag); }

  // Returns InvalidArgument: both flags with their values, and the reason.
  absl::Status AtOdds(const char* flag, const char* with,
                      const std::string& because) const;

  // A row of a table of flags that cannot be combined.
  struct Conflict {
    std::vector<const char*> flags;  // each alone
    const char* with;
    bool when;  // `with` has a value that does not go with them
    std::string because;
  };
  // Returns AtOdds of the first row that holds, and of its first flag that was
  // given.
  absl::Status Check(const std::vector<Conflict>& conflicts) const;

  FlagSet& flags;
  RunRequest& request;
  const bool has_captures;
};

}  // namespace snf

#endif  // SNF_PLATFORM_OPTIONS_RUN_FLAG_SET_H_
