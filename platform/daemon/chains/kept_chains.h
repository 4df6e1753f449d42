// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_DAEMON_CHAINS_KEPT_CHAINS_H_
#define SNF_PLATFORM_DAEMON_CHAINS_KEPT_CHAINS_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "base/time.h"

namespace snf {

// Holds what a daemon has noted of a chain, for the one that goes on if it is
// killed.
struct KeptChain {
  uint32_t number = 1;
  std::string name{};  // of several chains with rules; "": there is one
  // The flags with which the daemon was started.
  std::map<std::string, std::string> began{};
  // So many chains of the run were started before: it names where the chain's
  // processes wait.
  uint32_t place = 0;
  // On the machine's monotonic clock: flows of the chains before begin anew
  // then, with this one.
  Instant end_of_older = Instant::max();
  // Flags of the command line, with what was set since (LiveSettings), texts of
  // chains in place of those that it names, and files of modules, in order.
  std::map<std::string, std::string> flags{};
  std::map<std::string, std::string> texts{};
  std::vector<std::string> modules{};
  bool operator==(const KeptChain&) const = default;
};

// The notes of a daemon, in a file: a line of JSON for each chain, the newest
// as the last. A daemon may be killed at any time: a line is there as a whole,
// or it does not count. Owner-thread only.
class KeptChains {
 public:
  explicit KeptChains(std::string file) : file_(std::move(file)) {}

  // Returns what is noted; nothing if there is no such file.
  std::vector<KeptChain> Read() const;
  // Notes these alone, and one more. Error: Unavailable, with the system's
  // reason.
  absl::Status Begin(const std::vector<KeptChain>& chains) const;
  absl::Status Add(const KeptChain& chain) const;

 private:
  absl::Status Write(const std::string& text, int flags) const;

  const std::string file_;
};

}  // namespace snf

#endif  // SNF_PLATFORM_DAEMON_CHAINS_KEPT_CHAINS_H_
