// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_TRACES_SYNTHESIS_SOURCE_CAPTURES_H_
#define SNF_TRACES_SYNTHESIS_SOURCE_CAPTURES_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/packet/ip_address.h"
#include "base/packet/packet_parser.h"
#include "base/time.h"
#include "traces/capture_format.h"
#include "traces/capture_reader.h"
#include "traces/link_changer.h"
#include "traces/synthesis/conversations.h"

namespace snf {

// Captures taken apart into their conversations (FlowKeyKind::kConnection, each
// file for itself), with the packets' bytes, all in memory.
//
// All frames are Ethernet: others get an Ethernet header. Checksums are set
// right if they can be (FillChecksums), for many captures were taken before the
// card filled them in. The packets of a conversation are in the order of time.
// Packets that have no flow are left out and counted. Owner-thread only.
class SourceCaptures {
 public:
  struct File {
    std::string path;
    std::vector<std::string> warnings = {};  // CaptureReader::warnings
    uint64_t packets = 0;                    // of conversations
    uint64_t packets_without = 0;            // of no conversation
    uint64_t wire_bytes = 0;                 // of conversations
    Nanos duration = {};  // from the first packet of these to the last
    // Its conversations are those from `first` to before `end`.
    size_t first = 0;
    size_t end = 0;
  };
  // The two ends of a conversation. The client is the sender of the first
  // packet, unless that is TCP's answer to a SYN.
  struct Ends {
    IpAddress client;
    IpAddress server;
    L3 l3 = L3::kIpv4;
  };

  // Keeps no more than `snap_bytes` of a packet.
  explicit SourceCaptures(uint32_t snap_bytes = kMaxCapturedBytes)
      : snap_bytes_(snap_bytes) {}

  // Reads a capture to its end and calls `progress` every now and then. Returns
  // the errors of CaptureReader; a capture without conversations is not an
  // error.
  using Progress = std::function<void(const CaptureReader&)>;
  absl::Status Add(const std::string& path, const Progress& progress = {});

  const std::vector<File>& files() const { return files_; }
  const Conversations& conversations() const { return conversations_; }
  const Ends& EndsOf(size_t conversation) const { return ends_[conversation]; }
  // Returns the packet `number` of the conversation, snap_bytes of it at most.
  std::span<const std::byte> BytesOf(size_t conversation, size_t number) const {
    const Frame& frame = frames_[conversations_.FirstOf(conversation) + number];
    return {frame.bytes, frame.captured_bytes};
  }

 private:
  static constexpr size_t kBlockBytes = 1 << 20;
  static_assert(kBlockBytes > 2 * kMaxCapturedBytes);

  struct Frame {
    const std::byte* bytes;
    uint32_t captured_bytes;
    uint32_t wire_bytes;
  };
  struct TimedFrame {
    Instant time;
    Frame frame;
    bool from_second_end;  // the sender is the second end in the flow key
    bool is_answer;        // of TCP, to a SYN
  };
  struct Gathered;

  Frame Keep(CapturedPacket packet);
  void AddConversation(Gathered& gathered, File& file);

  uint32_t snap_bytes_;
  std::vector<File> files_;
  Conversations conversations_;
  std::vector<Ends> ends_;     // by conversation
  std::vector<Frame> frames_;  // by packet
  std::vector<std::unique_ptr<std::byte[]>> blocks_;
  size_t left_ = 0;  // bytes of the last block
  std::vector<PacketShape> shapes_;
  LinkChanger to_ethernet_{LinkType::kEthernet};
};

}  // namespace snf

#endif  // SNF_TRACES_SYNTHESIS_SOURCE_CAPTURES_H_
