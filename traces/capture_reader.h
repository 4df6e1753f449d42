// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_TRACES_CAPTURE_READER_H_
#define SNF_TRACES_CAPTURE_READER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/packet/link_type.h"
#include "base/packet/packet_info.h"
#include "base/time.h"
#include "traces/byte_source.h"
#include "traces/capture_format.h"

namespace snf {

// A packet as it stands in a capture. Readers fill it, the writer takes it.
struct CapturedPacket {
  Instant time;                      // since the Unix epoch
  std::span<const std::byte> bytes;  // captured bytes, link header first
  uint32_t original_bytes = 0;       // on the wire; never below bytes.size()
  uint32_t interface = 0;            // number in its pcapng section; pcap: 0
  uint32_t file = 0;                 // place in MergedReader's list; else 0
  LinkType link = LinkType::kEthernet;
  // The side of the network from which it came, where there are ports; in a
  // capture it is not known.
  Side side = Side::kUnknown;
  // The LINKTYPE_ number of the framing where its capture says one; 0: the
  // usual one of `link` (LinkTypeNumber).
  uint16_t link_number = 0;
  uint64_t number =
      0;  // among the packets that MergedReader returned, from 1; else 0
  // ParsedPacket::segment_bytes; captures have 0.
  uint16_t segment_bytes = 0;
};
static_assert(sizeof(CapturedPacket) == 56);

// The facts that a capture states about itself, besides its packets.
struct CaptureFacts {
  // An interface of pcapng, or the header of a pcap file.
  struct Interface {
    uint32_t link_number = 0;  // LINKTYPE_
    uint32_t snap_bytes = 0;   // longest packet captured; 0: no limit
    // A tick of the timestamps is 10^-exponent s, or 2^-exponent s.
    uint8_t tick_exponent = 6;
    bool tick_is_binary = false;
    friend bool operator==(const Interface&, const Interface&) = default;
  };
  static constexpr size_t kMaxInterfaces = 64;

  CaptureFormat format = CaptureFormat::kPcap;
  Compression compression = Compression::kNone;
  // The first kMaxInterfaces that differ, in the order of the file.
  std::vector<Interface> interfaces;
};

enum class ReadResult : uint8_t {
  kPacket,  // a packet was filled in
  kEnd,     // no more packets; see warnings()
  kError,   // see status()
};

// Reads one capture, packet by packet, in memory that does not grow with it.
//
// Formats, told by the first bytes and never by the name: pcap (µs, ns, and
// the 24-byte records of "modified" pcap) and pcapng (any mix of sections,
// interfaces, resolutions and packet block types), each in both byte orders,
// plain or in gzip or zstd (also several members or frames in a row).
//
// Bad data ends the reading with one line "FILE: offset N: what: value", where
// N counts uncompressed bytes and names the start of the record or block:
//   kDataLoss          the contents are not a capture we can read: exit code 65
//   kUnimplemented     the same because of its link type
//   kNotFound, kUnavailable   the file could not be opened or read: 74
//   kPermissionDenied  the file may not be opened: 77
// In pcapng, packets of an interface whose link type is not read, or whose
// clock shows no time that fits, are passed over and counted in a warning; a
// capture of such packets alone is an error.
//
// A capture without a single packet is an error too. A capture that is cut off
// within a packet is not: the packets before the cut are returned, then kEnd
// and a warning. Timestamps that go backwards are ordinary, and counted.
//
// A plain file is mapped; should another process shorten it meanwhile, the
// kernel sends SIGBUS. Owner-thread only.
class CaptureReader {
 public:
  // Opens `path` ("-" is stdin) and reads the file header. It may block on a
  // pipe.
  static absl::StatusOr<std::unique_ptr<CaptureReader>> Open(
      const std::string& path);

  virtual ~CaptureReader() = default;
  CaptureReader(const CaptureReader&) = delete;
  CaptureReader& operator=(const CaptureReader&) = delete;

  // Fills `packet` and returns kPacket. `packet.bytes` stays valid until the
  // next call or the reader's end. Once a call has returned kEnd or kError,
  // every further call returns the same. Packets without a time (Simple Packet
  // Blocks) take that of the packet before them. Budget: ≤ 20 ns over a mapped
  // pcap, no allocation.
  ReadResult Next(CapturedPacket& packet);

  // Call MendStrayTimes before Next: then a stray packet has the time of the
  // packet after it. A packet is stray if it is more than kFar later than all
  // packets before it, if there are any, and than the next one. Each packet
  // that may be stray is copied.
  static constexpr Nanos kFar = Seconds(1);
  void MendStrayTimes() { mends_ = true; }
  // The number of stray packets, and of the first of them, from 1; 0: none.
  uint64_t strays() const { return strays_; }
  uint64_t first_stray() const { return first_stray_; }

  // Says why Next() returned kError; OK before that.
  const absl::Status& status() const { return status_; }

  // Oddities that did not end the reading, one line each. The list is complete
  // after kEnd.
  const std::vector<std::string>& warnings() const { return warnings_; }

  uint64_t packets_read() const { return packets_read_; }

  // The facts of the part of the capture that has been read.
  const CaptureFacts& facts() const { return facts_; }

  // The number of packets that are earlier than their predecessor in the file.
  uint64_t timestamps_backwards() const { return timestamps_backwards_; }

  // The progress of reading, in bytes of the file as it is stored. The total is
  // 0 if it is unknown, as for pipes.
  uint64_t bytes_read() const { return source_->input_bytes_read(); }
  uint64_t total_bytes() const { return source_->input_bytes_total(); }

 protected:
  CaptureReader(std::unique_ptr<ByteSource> source, CaptureFormat format)
      : source_(std::move(source)),
        facts_{.format = format,
               .compression = source_->compression(),
               .interfaces = {}} {}

  // Does the format's part of Open(); returns kPacket if the file header is
  // good.
  virtual ReadResult ReadFileHeader() = 0;
  // Does the format's part of Next(): reads the next record.
  virtual ReadResult Read(CapturedPacket& packet) = 0;

  void AddFacts(const CaptureFacts::Interface& interface);
  // Returns an error about the record at the current offset.
  absl::Status Error(const std::string& what) const;
  // Sets status() to an error about the record at the current offset, and
  // returns kError.
  ReadResult Fail(const std::string& what);
  // Fails because of an unsupported link type; `of` names its owner: "" or " of
  // interface 2".
  ReadResult FailLinkType(const std::string& of, uint32_t number);
  // Counts a packet that is odd in this way, or is passed over for it. A
  // warning will say so, with the first such packet's offset and how many there
  // are.
  void CountOdd(const std::string& what);
  // The same, if the capture is an error unless it has other packets.
  void CountUnread(const std::string& what, const absl::Status& alone);
  // Returns the error of FailLinkType.
  absl::Status LinkTypeError(const std::string& of, uint32_t number) const;
  // Ends the reading because `record` wants more bytes than the source still
  // has. Returns kError if the source failed, else kEnd, with a warning if some
  // bytes were left.
  ReadResult EndOfSource(const char* record, uint64_t wanted_bytes);
  void Warn(const std::string& what);

  ByteSource& source() { return *source_; }
  // The packets that Read has filled in, and the time of the last of them.
  uint64_t packets_found() const { return packets_found_; }
  Instant time_found() const { return time_found_; }

 private:
  struct Odd {
    std::string what;
    uint64_t first_offset = 0;
    uint64_t packets = 0;
  };
  static constexpr size_t kMaxOdd = 64;  // ways

  ReadResult ReadAndCount(CapturedPacket& packet);
  ReadResult ReadMended(CapturedPacket& packet);
  // Adds a warning for each way in which packets were odd.
  void WarnOfOdd();

  std::unique_ptr<ByteSource> source_;
  std::vector<Odd> odd_;
  absl::Status unread_alone_;  // of the first packet that was passed over
  CaptureFacts facts_;
  ReadResult state_ = ReadResult::kPacket;
  uint64_t packets_found_ = 0;
  Instant time_found_ = Instant::min();
  bool mends_ = false;
  std::optional<ReadResult> ahead_;  // the result for next_
  CapturedPacket next_;
  std::vector<std::byte> held_bytes_;     // of a packet that may be stray
  Instant latest_time_ = Instant::min();  // without strays
  uint64_t strays_ = 0;
  uint64_t first_stray_ = 0;
  Instant last_time_ = Instant::min();
  uint64_t packets_read_ = 0;
  uint64_t timestamps_backwards_ = 0;
  absl::Status status_;
  std::vector<std::string> warnings_;
};

}  // namespace snf

#endif  // SNF_TRACES_CAPTURE_READER_H_
