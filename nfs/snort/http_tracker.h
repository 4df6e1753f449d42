// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_NFS_SNORT_HTTP_TRACKER_H_
#define SNF_NFS_SNORT_HTTP_TRACKER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "nfs/snort/evaluator.h"
#include "nfs/snort/http_message.h"

namespace snf::snort {

// The place of one direction of a connection in its HTTP messages. Offsets
// count the bytes of the stream from its begin. Bytes without padding, so that
// it can be a slot of a flow.
struct HttpState {
  enum Phase : uint64_t {
    kStart,    // a message begins at message_begin
    kBody,     // its header ends at body_begin
    kLost,     // in the midst of something
    kNotHttp,  // the stream began with something else
  };
  uint64_t phase = kStart;
  uint64_t message_begin = 0;
  uint64_t body_begin = 0;
  uint64_t body_end = 0;  // kUnknown: of chunks, or where the stream ends
  uint64_t coding = 0;    // of the body (HttpHeader::Coding), 8: chunked

  static constexpr uint64_t kUnknown = ~uint64_t{0};
  static constexpr uint64_t kChunked = 8;
  friend bool operator==(const HttpState&, const HttpState&) = default;
};
static_assert(sizeof(HttpState) == 40);

// The new bytes of a stream, and the ones before them that were kept.
struct StreamPiece {
  std::string_view bytes;  // kept ones, then new ones
  uint64_t begin = 0;      // offset of the first in the stream
  size_t kept = 0;         // how many of them are not new
  bool is_request = true;  // goes to the server
};

// A message of which the piece has new bytes. Views are valid until the next
// call of Follow.
struct TrackedMessage {
  // The parts of the message. kPayload is the message from its begin, or what
  // is kept of it.
  Buffers buffers;
  bool is_from_begin = false;  // the payload begins with the message
  // Its header, if the piece has the end of it; else null.
  const HttpHeader* header = nullptr;
};

// Finds the messages in a stream piece by piece, from what is kept of it: an
// HttpState, and the last bytes. A header that does not fit into what is kept
// is not read, and counted. Owner-thread only.
class HttpTracker {
 public:
  explicit HttpTracker(size_t max_body_bytes)
      : max_body_bytes_(max_body_bytes) {}

  // Reads the next piece. Returns its messages; none if it is not HTTP.
  const std::vector<TrackedMessage>& Follow(const StreamPiece& piece,
                                            HttpState& state);

  uint64_t headers_too_long() const { return headers_too_long_; }
  uint64_t bodies_cut() const { return bodies_cut_; }
  uint64_t malformed() const { return malformed_; }

  // Messages in one piece; further ones are not looked at.
  static constexpr size_t kMaxMessages = 32;

 private:
  // The texts behind the views of one message.
  struct Texts {
    HttpHeader header;
    HttpBody body;
    HttpBody old_body;
  };

  // Adds the message whose header was read into the texts, or of which only
  // the body is left.
  void Add(const StreamPiece& piece, HttpState& state, bool has_header);

  size_t max_body_bytes_;
  std::vector<TrackedMessage> messages_;
  std::vector<std::unique_ptr<Texts>> texts_;
  uint64_t headers_too_long_ = 0;
  uint64_t bodies_cut_ = 0;
  uint64_t malformed_ = 0;
};

}  // namespace snf::snort

#endif  // SNF_NFS_SNORT_HTTP_TRACKER_H_
