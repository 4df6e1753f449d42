// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_RUN_NF_WATCHDOG_H_
#define SNF_PLATFORM_RUN_NF_WATCHDOG_H_

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/ids.h"
#include "base/time.h"
#include "runtime/ring/buffer_pool.h"
#include "runtime/ring/call_mark.h"

namespace snf {

// Ends the process when a call of an NF has not returned within the patience
// (proto/protocol.md F12): with one line on stderr, which names the NF, the
// packet and the rule, and kExitCode. A thread cannot be taken out of a call,
// so nothing else ends: what the run has not written yet is lost, and no
// unfinished file is left.
//
// Its thread looks at the marks kLooks times in the patience, and counts how
// often it has seen a call. So time in which the whole process stood still,
// under a debugger say, does not count.
class NfWatchdog {
 public:
  static constexpr int kExitCode = 70;  // kExitInternal
  static constexpr int kLooks = 8;

  struct Options {
    std::string nf;  // its text
    Nanos patience;  // Nanos::max(): without end, and there is no thread
    std::vector<const CallMark*> marks;
    // Returns what can be told of a packet besides its metadata, or "". Called
    // on the watchdog's thread.
    std::function<std::string(PacketHandle)> describe;
  };

  // The marks must outlive the watchdog.
  explicit NfWatchdog(Options options);
  NfWatchdog(const NfWatchdog&) = delete;
  NfWatchdog& operator=(const NfWatchdog&) = delete;
  ~NfWatchdog();

  // Returns the line that tells of such a call.
  static std::string Message(const Options& options,
                             const CallMark::Call& call);

 private:
  struct Seen {
    uint64_t count = 0;
    int looks = 0;
  };

  void Run();
  void Look();

  Options options_;
  std::vector<Seen> seen_;  // by mark
  std::mutex mutex_;
  std::condition_variable ends_;
  bool is_over_ = false;
  std::thread thread_;
};

// Returns the ends of a packet that lies in the pool, as it is now, or "".
std::string Describe(BufferPool& buffers, PacketHandle packet);

}  // namespace snf

#endif  // SNF_PLATFORM_RUN_NF_WATCHDOG_H_
