// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_TRACE_TRACE_MAKING_H_
#define SNF_PLATFORM_TRACE_TRACE_MAKING_H_

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

// Does what `snf trace compose` and `synth` share: has the flags of the traffic
// to be made, reads the captures it is made from, and writes it.
struct TraceMaking {
  int64_t rate_bps = 1'000'000'000;
  Nanos duration = Seconds(1);
  uint64_t seed = 1;
  std::string out;
  std::string json;
  bool force = false;
  bool quiet = false;
  // Captures that were not read because nobody here reads their link type.
  std::vector<std::string> left_out;

  void AddFlags(FlagSet& flags);
  // Returns InvalidArgument if there is no `out`, or if `out` or `json` would
  // replace something unasked, or a file that is `read`.
  absl::Status CheckOut(const std::vector<std::string>& read) const;

  // Reads all of these files into `sources`, and warns of what is amiss in
  // them; one with a packet of an unsupported link type is left out as a whole.
  // Returns DataLoss if none has a conversation.
  absl::Status ReadSources(const std::vector<std::string>& files,
                           SourceCaptures& sources);
  // Writes what `next` gives, until it gives no more, of some `expected_bytes`
  // on the wire, to `out`, which says that no packet has more than `snap_bytes`
  // in it.
  using Next = std::function<bool(CapturedPacket&)>;
  absl::Status Write(const Next& next, uint64_t expected_bytes,
                     uint32_t snap_bytes) const;
  // Prints what was made, or writes it as JSON, as the flags ask for.
  absl::Status Tell(const std::string& as_json, const std::string& text) const;
};

}  // namespace snf

#endif  // SNF_PLATFORM_TRACE_TRACE_MAKING_H_
