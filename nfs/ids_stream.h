// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_NFS_IDS_STREAM_H_
#define SNF_NFS_IDS_STREAM_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "nfs/snort/http_tracker.h"
#include "nfs/snort/matcher.h"
#include "runtime/sdk/stream/stream.h"

namespace snf {

// Theory of operation. Of each direction of a TCP connection, the last bytes
// that came in order (runtime/sdk/stream/stream.h) are kept: the window. The
// next bytes are inspected together with the window, so a pattern over the
// border of two packets is found, if it is no longer than the window and the
// new bytes together. Literals of the window are not searched again: the state
// has the ones found there.
//
// Example: window "GET /ev", then a segment "il HTTP/1.1": what is inspected is
// "GET /evil HTTP/1.1", of which 7 bytes are kept ones.

// The state of one direction, beside the bytes of the window. A slot.
struct IdsStream {
  enum Flag : uint64_t {
    kWhole = 1,  // the window begins with the connection's first byte
  };
  uint64_t flags = 0;
  snort::HttpState http;
  snort::PatternHits hits;  // in the window

  friend bool operator==(const IdsStream&, const IdsStream&) = default;
};
static_assert(sizeof(IdsStream) == 152);

// The slots of one direction of a connection.
struct IdsDirection {
  StreamSlots stream;
  Slot<IdsStream> state;
  Blob window;
};

// A direction while its bytes are put in order: its slots, and the run of bytes
// that is not inspected yet.
struct IdsRun {
  const IdsDirection& slots;
  IdsStream state;
  std::string& joined;       // window, and bytes that came into order
  size_t kept = 0;           // bytes of the window among them
  uint64_t end = 0;          // offset behind them in the stream
  bool has_ignored = false;  // bytes that have no place in it
  bool has_changed = false;
};

// The part of a segment that lies before the stream's next byte.
struct OldPart {
  size_t bytes = 0;
  bool is_known = false;  // the window has all of it, and it is the same
  bool differs = false;   // from the window, where the window has it
};
OldPart CompareOld(uint32_t sequence, std::string_view payload, uint32_t next,
                   std::string_view window);

}  // namespace snf

#endif  // SNF_NFS_IDS_STREAM_H_
