// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_CAPTURE_SINK_H_
#define SNF_PLATFORM_CAPTURE_SINK_H_

#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "platform/run.h"
#include "traces/capture_writer.h"

namespace snf {

// Writes released packets to a capture.
class CaptureSink final : public ReleaseSink {
 public:
  static absl::StatusOr<std::unique_ptr<CaptureSink>> Open(
      const std::string& file) {
    auto writer = CaptureWriter::Open(file, {});
    if (!writer.ok()) return writer.status();
    return std::make_unique<CaptureSink>(*std::move(writer));
  }
  explicit CaptureSink(std::unique_ptr<CaptureWriter> writer)
      : writer_(std::move(writer)) {}

  // A failure stays in the writer and comes out of Close().
  void OnRelease(const ReleasedPacket& packet) override {
    writer_->Write({.time = packet.time,
                    .bytes = packet.bytes,
                    .original_bytes = packet.original_length,
                    .link = packet.link});
  }
  absl::Status status() const { return writer_->status(); }
  absl::Status Close() { return writer_->Close(); }

 private:
  std::unique_ptr<CaptureWriter> writer_;
};

}  // namespace snf

#endif  // SNF_PLATFORM_CAPTURE_SINK_H_
