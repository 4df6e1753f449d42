// SPDX-License-Identifier: Apache-2.0
//
// Follows any bytes as a stream of HTTP, cut into pieces whose sizes are in the
// first bytes, with a small window: no crash, no read outside, bounded bodies.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "base/check.h"
#include "nfs/snort/http_tracker.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  using snf::snort::BufferView;
  using snf::snort::HttpState;
  using snf::snort::HttpTracker;
  using snf::snort::TrackedMessage;
  if (bytes < 4) return 0;
  constexpr size_t kMaxBody = 1'000;
  const size_t step = 1 + data[0] % 64;
  const size_t window = data[1];
  const bool is_request = data[2] % 2 == 0;
  data += 3;
  bytes -= 3;
  HttpTracker tracker(kMaxBody);
  HttpState state;
  for (size_t begin = 0; begin < bytes; begin += step) {
    const size_t end = std::min(begin + step, bytes);
    const size_t from = begin > window ? begin - window : 0;
    // The copy is as long as the piece, so that the sanitizer sees an access
    // beyond it.
    const auto copy = std::make_unique<char[]>(end - from);
    std::copy_n(data + from, end - from, copy.get());
    const auto& messages = tracker.Follow({.bytes = {copy.get(), end - from},
                                           .begin = from,
                                           .kept = begin - from,
                                           .is_request = is_request},
                                          state);
    SNF_CHECK(messages.size() <= HttpTracker::kMaxMessages);
    for (const TrackedMessage& message : messages) {
      for (const BufferView& view : message.buffers) {
        SNF_CHECK(view.fresh_from <= view.bytes.size());
      }
    }
  }
  return 0;
}
