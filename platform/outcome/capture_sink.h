// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_OUTCOME_CAPTURE_SINK_H_
#define SNF_PLATFORM_OUTCOME_CAPTURE_SINK_H_

#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "platform/run/run_events.h"
#include "traces/capture_writer.h"

namespace snf {

// Writes released packets to a capture, and dropped ones to another.
//
// CommentOf tells what became of a packet: of each dropped one, and of released
// ones with Options::annotate.
class CaptureSink final : public RunObserver {
 public:
  struct Options {
    std::string out;    // file of released packets; empty: none
    std::string drops;  // file of dropped packets; empty: none
    bool annotate = false;
  };

  // Errors are those of CaptureWriter::Open.
  static absl::StatusOr<std::unique_ptr<CaptureSink>> Open(
      const Options& options);

  // If a write fails, Close() returns the error.
  void on_release(const ReleasedPacket& packet) override;
  void on_drop(const ReleasedPacket& packet, std::string_view reason) override;

  absl::Status status() const;
  absl::Status Close();

 private:
  CaptureSink() = default;

  std::unique_ptr<CaptureWriter> out_;    // null: not written
  std::unique_ptr<CaptureWriter> drops_;  // null: not written
  bool annotate_ = false;
};

}  // namespace snf

#endif  // SNF_PLATFORM_OUTCOME_CAPTURE_SINK_H_
