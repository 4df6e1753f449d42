// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_BASE_TEXT_PROGRESS_H_
#define SNF_BASE_TEXT_PROGRESS_H_

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "base/text/terminal.h"
#include "base/time.h"

namespace snf {

// Says how far a long command has come: packets, packets a second and, where
// the total is known, percent and time left. On a terminal one line is redrawn
// at most four times a second and wiped at the end; elsewhere (a log file) a
// line is written every ten seconds. A command that is over before that says
// nothing.
//
//   replaying: 1,204,224 packets, 1.21 M/s, 41 %, 2 s left
//
// Example: Progress progress({.label = "replaying", …}); every 8,192 packets
// progress.Update(packets, reader.bytes_read()); at the end progress.Finish().
//
// The caller brings the clock and the writing, so that no clock is read here.
// Owner-thread only. Update reads the clock once, some 30 ns; it is not meant
// for every packet.
class Progress {
 public:
  struct Options {
    std::string label = "replaying";
    bool quiet = false;  // write nothing
    // A line is redrawn, and cut to less than the columns, only on a terminal.
    Terminal terminal = {};
    uint64_t total_bytes = 0;                     // 0 if unknown
    std::function<Instant()> clock;               // monotonic
    std::function<void(std::string_view)> write;  // to stderr, unbuffered
  };

  // Reads the clock: the work begins now.
  explicit Progress(Options options);
  ~Progress() { Finish(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // Shows the progress, if the last display is old enough. `packets` and
  // `bytes` are totals since the start; bytes count towards
  // Options::total_bytes.
  void Update(uint64_t packets, uint64_t bytes);

  // Wipes the line. Call it before writing anything else; an Update draws it
  // again.
  void Finish();

 private:
  std::string Line(Nanos elapsed, uint64_t packets, uint64_t bytes) const;

  Options options_;
  Instant start_;
  Instant next_;
  bool drawn_ = false;
};

}  // namespace snf

#endif  // SNF_BASE_TEXT_PROGRESS_H_
