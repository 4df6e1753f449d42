// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_TRACES_SPLIT_WRITER_H_
#define SNF_TRACES_SPLIT_WRITER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/packet/classifier.h"
#include "base/time.h"
#include "traces/capture_writer.h"

namespace snf {

// Writes packets to one capture, or splits them over several: by a number of
// packets, by time, or by flow. The parts of out.pcap.gz are out-0001.pcap.gz,
// out-0002.pcap.gz … A part appears under its name when it is complete, and
// replaces an existing file only with `force`. Then Close() also removes other
// parts of an older split. A stretch of time without packets makes no file, but
// uses up a number. Owner-thread only.
class SplitWriter {
 public:
  static constexpr uint32_t kMaxFlowParts = 256;  // they are open together
  static constexpr uint32_t kMaxParts = 100'000;

  struct Options {
    // At most one of the next three differs from 0.
    uint64_t packets = 0;  // in a part
    Nanos time;            // in a part, from the first packet on
    // The number of parts, each with all packets of its connections; packets
    // without a flow go to the first.
    uint32_t flow_parts = 0;
    bool force = false;
    CaptureWriter::Options writer;

    bool splits() const { return packets > 0 || time.ns > 0 || flow_parts > 0; }
  };

  SplitWriter(std::string path, const Options& options);

  // Returns the names of parts that are there already, by their numbers; none
  // if packets are not split.
  std::vector<std::string> PartsThere() const;

  // Write and Close return the errors of CaptureWriter, and kInvalidArgument
  // for a file that exists and for more than kMaxParts. Without a packet,
  // Close() makes an empty capture, or no file where packets are split.
  absl::Status Write(const CapturedPacket& packet);
  absl::Status Close();

  uint64_t packets_written() const { return packets_written_; }
  uint32_t parts_written() const {
    return static_cast<uint32_t>(written_.size());
  }
  // Parts of an older split that Close() removed.
  uint32_t parts_removed() const { return parts_removed_; }
  // Returns the name of a part; parts are counted from 0.
  std::string PathOf(uint64_t part) const;

  // Returns kInvalidArgument if `path` is a regular file, unless `force`.
  static absl::Status CheckAbsent(const std::string& path, bool force);

 private:
  uint64_t PartOf(const CapturedPacket& packet);
  absl::Status OpenPart(uint64_t part);
  absl::Status CloseAll();
  absl::Status RemoveOlderParts();

  std::string path_;
  Options options_;
  FlowClassifier classifier_;
  // If packets are split by flow, the writer of each part, null before its
  // first packet; else one writer, that of part_.
  std::vector<std::unique_ptr<CaptureWriter>> writers_;
  uint64_t part_ = 0;
  Instant first_ = Instant::max();
  uint64_t packets_written_ = 0;
  std::vector<std::string> opened_;  // names of parts that are not complete
  std::set<std::string> written_;    // names of parts
  uint32_t parts_removed_ = 0;
};

}  // namespace snf

#endif  // SNF_TRACES_SPLIT_WRITER_H_
