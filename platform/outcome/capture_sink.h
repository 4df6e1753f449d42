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
// A comment tells a packet's way in words of the form key=value. Dropped
// packets always have a comment, released ones with Options::annotate:
//
//   unit=3 flowlet=12 clock=345 latency_ns=119212
//   dropped=unit_queue_full latency_ns=0
//
// `latency_ns` counts from the controller; `generated` marks a packet that an
// NF made, `passed_through` one without a flow. Unknown words are left out.
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
