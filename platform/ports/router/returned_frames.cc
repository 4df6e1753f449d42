// SPDX-License-Identifier: Apache-2.0
#include "platform/ports/router/returned_frames.h"

#include <algorithm>

namespace snf {

bool ReturnedFrames::Add(std::span<const std::byte> frame) {
  Batch& batch = batches_[next_];
  if (batch.frames == kMost || frame.size() > kMostBytes - batch.end) {
    return false;
  }
  std::ranges::copy(frame, batch.bytes.data() + batch.end);
  batch.end += frame.size();
  batch.sizes[batch.frames++] = static_cast<uint32_t>(frame.size());
  return true;
}

bool ReturnedFrames::Give(
    absl::FunctionRef<void(std::span<const std::byte>)> take) {
  if (empty()) return false;
  Batch& given = batches_[next_];
  next_ = 1 - next_;
  const std::byte* at = given.bytes.data();
  for (uint32_t i = 0; i < given.frames; ++i) {
    take({at, given.sizes[i]});
    at += given.sizes[i];
  }
  given.frames = 0;
  given.end = 0;
  return true;
}

}  // namespace snf
