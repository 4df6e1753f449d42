// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_COMMANDS_TRACE_TRACE_MAKING_H_
#define SNF_PLATFORM_COMMANDS_TRACE_TRACE_MAKING_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/time.h"
#include "platform/process/flags.h"
#include "traces/capture_reader.h"
#include "traces/synthesis/source_captures.h"

namespace snf {

// The common part of `snf trace compose` and `synth`: the flags of the traffic,
// reading its sources, and writing it.
struct TraceMaking {
  int64_t rate_bps = 1'000'000'000;
  Nanos duration = Seconds(1);
  uint64_t seed = 1;
  std::string out;
  std::string json;
  bool force = false;
  bool quiet = false;
  // Captures that were left out because their link type is not supported.
  std::vector<std::string> left_out;

  void AddFlags(FlagSet& flags);
  // Returns InvalidArgument if there is no `out`, or if `out` or `json` would
  // replace something unasked, or a file that is `read`.
  absl::Status CheckOut(const std::vector<std::string>& read) const;

  // Reads all of these files into `sources`, and warns of faults in them; a
  // file with a packet of an unsupported link type is left out as a whole.
  // Returns DataLoss if none has a conversation.
  absl::Status ReadSources(const std::vector<std::string>& files,
                           SourceCaptures& sources);
  // Writes the packets that `next` returns, of some `expected_bytes` on the
  // wire, to `out`, whose header gives `snap_bytes` as the snap length.
  using Next = std::function<bool(CapturedPacket&)>;
  absl::Status Write(const Next& next, uint64_t expected_bytes,
                     uint32_t snap_bytes) const;
  // Prints the report, or writes it as JSON, as the flags ask for.
  absl::Status Tell(const std::string& as_json, const std::string& text) const;
};

}  // namespace snf

#endif  // SNF_PLATFORM_COMMANDS_TRACE_TRACE_MAKING_H_
