// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_RUN_FAILED_PACKETS_H_
#define SNF_PLATFORM_RUN_FAILED_PACKETS_H_

#include <cstddef>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "base/messages/messages.h"
#include "base/packet/flow_key.h"
#include "runtime/ring/buffer_pool.h"
#include "runtime/sdk/nf_call.h"
#include "traces/capture_reader.h"

namespace snf {

// Names the packets on which an NF failed, and keeps the last ones aside, in a
// capture which is rewritten each time. Owner-thread only.
class FailedPackets {
 public:
  static constexpr size_t kMost = 64;

  // The pool and the names must outlive the object. `file` is that of the
  // capture, as for CaptureWriter::Open; "": none is kept.
  FailedPackets(BufferPool& buffers, const NfCallNames& names, std::string file)
      : buffers_(buffers), names_(names), file_(std::move(file)) {}

  // Returns the flow's key, or FlowKey{}.
  FlowKey FlowOf(FlowId flow) const { return names_.FlowOf(flow); }
  // Returns "packet 17, clock 3, flow udp …"; without a packet, of a call for
  // the flow alone.
  std::string Name(const PacketMeta& meta, PacketHandle packet) const;
  // Adds the packet, whose handle is valid, with a comment.
  // Returns "kept in FILE", or why it is not kept.
  std::string Keep(PacketHandle packet, std::string what);

 private:
  struct Kept {
    CapturedPacket packet;  // `bytes` is void
    std::vector<std::byte> bytes;
    std::string what;
  };

  BufferPool& buffers_;
  const NfCallNames& names_;
  const std::string file_;
  std::deque<Kept> kept_;
};

}  // namespace snf

#endif  // SNF_PLATFORM_RUN_FAILED_PACKETS_H_
