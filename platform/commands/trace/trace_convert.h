// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_COMMANDS_TRACE_TRACE_CONVERT_H_
#define SNF_PLATFORM_COMMANDS_TRACE_TRACE_CONVERT_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/time.h"
#include "platform/process/command.h"
#include "traces/capture_reader.h"
#include "traces/link_changer.h"
#include "traces/merged_reader.h"
#include "traces/packet_filter.h"
#include "traces/split_writer.h"

namespace snf {

// `snf trace convert` changes the format, framing or length of captures, cuts
// out a part, merges or splits them.
class TraceConvert final : public FlagCommand {
 public:
  TraceConvert();

 private:
  absl::Status Run() override;
  // Counts the packets that were left out, by reason.
  struct LeftOut {
    uint64_t window = 0;
    uint64_t filter = 0;
    uint64_t not_ip = 0;
  };

  void AddFlags();
  // Returns an error if a part that is there is an input, or may not go.
  absl::Status CheckParts(const std::vector<std::string>& there) const;
  absl::Status Convert(MergedReader& reader, SplitWriter& writer);
  // As Convert, in the order of time.
  absl::Status ConvertSorted(MergedReader& reader, SplitWriter& writer);
  // Writes the packet, unless it is left out.
  absl::Status Write(CapturedPacket& packet, SplitWriter& writer);
  // Changes `packet` into the packet to write; returns false if it is left out.
  bool Keep(CapturedPacket& packet);
  // Warns that no packet was written, and says why.
  void SayThatNothingIsLeft(const MergedReader& reader) const;
  std::string LeftOutText() const;

  std::vector<std::string> files_;  // the last one is written
  size_t resolution_ = 0;
  size_t link_ = 0;
  uint32_t snap_bytes_ = 0;
  Nanos begin_;
  Nanos end_ = Nanos::max();
  std::string filter_text_;
  SplitWriter::Options split_;
  std::string split_text_ = "none";
  bool sort_ = false;
  bool force_ = false;
  bool quiet_ = false;

  std::unique_ptr<PacketFilter> filter_;       // null: none
  std::unique_ptr<LinkChanger> link_changer_;  // null: none
  Instant first_ = Instant::min();             // time of the first packet
  Instant last_ = Instant::min();              // latest
  LeftOut left_out_;
};

}  // namespace snf

#endif  // SNF_PLATFORM_COMMANDS_TRACE_TRACE_CONVERT_H_
