// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_TRACES_SPLIT_WRITER_H_
#define SNF_TRACES_SPLIT_WRITER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/packet/classifier.h"
#include "base/time.h"
#include "traces/capture_writer.h"

namespace snf {

// Writes packets to one capture, or splits them over several: so many packets
// each, so much time each, or by flow. Of out.pcap.gz the parts are
// out-0001.pcap.gz, out-0002.pcap.gz … A part appears under its name when it is
// complete; one that exists is replaced only with `force`. By time, a stretch
// without packets has no part, but its number. Owner-thread only.
class SplitWriter {
 public:
  static constexpr uint32_t kMaxFlowParts = 256;  // open at one time
  static constexpr uint32_t kMaxParts = 100'000;

  struct Options {
    // At most one of the three is not 0.
    uint64_t packets = 0;  // in a part
    Nanos time;            // in a part, from the first packet on
    // Into so many parts, each with all packets of its connections; packets
    // without a flow go to the first.
    uint32_t flow_parts = 0;
    bool force = false;
    CaptureWriter::Options writer;

    bool splits() const { return packets > 0 || time.ns > 0 || flow_parts > 0; }
  };

  SplitWriter(std::string path, const Options& options);

  // Errors are those of CaptureWriter, and kInvalidArgument for a file that
  // exists and for more than kMaxParts.
  absl::Status Write(const CapturedPacket& packet);
  absl::Status Close();

  uint64_t packets_written() const { return packets_written_; }
  uint32_t parts_written() const { return parts_written_; }
  std::string PathOf(uint64_t part) const;  // counted from 0

  // kInvalidArgument where `path` is a regular file, unless `force`.
  static absl::Status CheckAbsent(const std::string& path, bool force);

 private:
  uint64_t PartOf(const CapturedPacket& packet);
  absl::Status CloseAll();

  std::string path_;
  Options options_;
  FlowClassifier classifier_;
  // By flow: of each part, null where it has no packet yet; else one, that of
  // part_.
  std::vector<std::unique_ptr<CaptureWriter>> writers_;
  uint64_t part_ = 0;
  Instant first_ = Instant::max();
  uint64_t packets_written_ = 0;
  uint32_t parts_written_ = 0;
};

}  // namespace snf

#endif  // SNF_TRACES_SPLIT_WRITER_H_
