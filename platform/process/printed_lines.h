// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_PROCESS_PRINTED_LINES_H_
#define SNF_PLATFORM_PROCESS_PRINTED_LINES_H_

#include <sys/types.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "base/time.h"

namespace snf {

// Bounds the lines that processes of units, as an NF there, print on stderr,
// before they go to a log. So no NF can fill the log's disk, or write lines in
// the platform's name. Each line follows the name of its process, has control
// characters as '?', and is cut after kMostBytes. A process may print kBurst
// lines at once, and one more in each kPause. The bytes of further lines are
// counted.
//
// Example: of 1,000 lines of 8 bytes at once, 20 are logged. A minute later a
// line is "unit loop 0 (process 4711) printed: again; 7,840 bytes of it, or
// before it, were left out".
//
// Owner-thread only.
class PrintedLines {
 public:
  static constexpr size_t kMostBytes = 256;
  static constexpr uint32_t kBurst = 20;
  static constexpr Nanos kPause = Seconds(60);
  using Notice = std::function<void(std::string_view)>;

  // `processes` is their number.
  PrintedLines(size_t processes, Notice notice)
      : notice_(std::move(notice)), sources_(processes) {}

  // Takes bytes that the process with that index has printed.
  void Take(Instant now, size_t process, std::string_view name,
            std::string_view bytes);
  // The process has ended: logs the rest of its last line, and the number of
  // bytes that were left out.
  void End(Instant now, size_t process, std::string_view name);

 private:
  struct Source {
    std::string line{};
    bool is_cut = false;              // the rest of `line` is left out
    uint32_t left = kBurst;           // lines that may be logged
    Instant earned = Instant::min();  // `left` is as of then
    uint64_t left_out = 0;            // bytes since the last logged line
  };
  void TakeLine(Instant now, std::string_view name, Source& source);

  Notice notice_;
  std::vector<Source> sources_;
};

// A socket that is stderr for processes, and its other end. Printing never
// waits: bytes without room are lost.
struct PrintSockets {
  int reader;
  int writer;
  // Error: Unavailable, with the system's reason.
  static absl::StatusOr<PrintSockets> Open();
};

// Some bytes that one process has printed.
struct Printed {
  pid_t process;
  std::string_view bytes;  // in the buffer; empty if there are none now
};
using PrintBuffer = std::array<char, 16'384>;
// Reads from PrintSockets::reader. Does not wait.
Printed ReadPrinted(int reader, PrintBuffer& buffer);

}  // namespace snf

#endif  // SNF_PLATFORM_PROCESS_PRINTED_LINES_H_
