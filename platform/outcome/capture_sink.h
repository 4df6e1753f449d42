// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_OUTCOME_CAPTURE_SINK_H_
#define SNF_PLATFORM_OUTCOME_CAPTURE_SINK_H_

#include <memory>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "platform/options/run_request.h"
#include "platform/run/run_events.h"
#include "traces/capture_writer.h"

namespace snf {

// Writes released packets to a capture, and dropped ones to another.
//
// CommentOf tells what became of a packet: of each dropped one, and of released
// ones with RunRequest::annotate.
class CaptureSink final : public RunObserver {
 public:
  // Opens the captures that the request names; null: it names none. Errors are
  // those of CaptureWriter::Open.
  static absl::StatusOr<std::unique_ptr<CaptureSink>> Open(
      const RunRequest& request);

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
