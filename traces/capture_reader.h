// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_TRACES_CAPTURE_READER_H_
#define SNF_TRACES_CAPTURE_READER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/packet/link_type.h"
#include "base/time.h"
#include "traces/byte_source.h"

namespace snf {

// A packet as it stands in a capture. The writer takes the same struct.
struct CapturedPacket {
  Instant time;                      // since the Unix epoch
  std::span<const std::byte> bytes;  // what was captured, link header first
  uint32_t original_bytes = 0;       // on the wire; never below bytes.size()
  uint32_t interface = 0;            // number in its pcapng section; pcap: 0
  uint32_t file = 0;                 // place in MergedReader's list; else 0
  LinkType link = LinkType::kEthernet;
};
static_assert(sizeof(CapturedPacket) == 40);

// What a capture says of itself, besides its packets.
struct CaptureFacts {
  // An interface of pcapng, or what a pcap file's header says.
  struct Interface {
    uint32_t link_number = 0;  // LINKTYPE_
    uint32_t snap_bytes = 0;   // longest packet captured; 0: no limit
    // A tick of the timestamps is 10^-exponent s, or 2^-exponent s.
    uint8_t tick_exponent = 6;
    bool tick_is_binary = false;
    friend bool operator==(const Interface&, const Interface&) = default;
  };
  static constexpr size_t kMaxInterfaces = 64;

  bool is_pcapng = false;
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
//   kNotFound, kUnavailable   the file could not be opened or read: 74
//   kPermissionDenied  the file may not be opened: 77
// A capture without a single packet is an error too. One that is cut off in
// the middle of a packet is not: the packets before it are returned, then kEnd
// and a warning. Timestamps that go backwards are ordinary, and counted.
//
// A plain file is mapped; should another process shorten it meanwhile, the
// kernel sends SIGBUS. Owner-thread only.
class CaptureReader {
 public:
  // Opens `path` ("-" is stdin) and reads the file header. May block on a pipe.
  static absl::StatusOr<std::unique_ptr<CaptureReader>> Open(
      const std::string& path);

  virtual ~CaptureReader() = default;
  CaptureReader(const CaptureReader&) = delete;
  CaptureReader& operator=(const CaptureReader&) = delete;

  // Fills `packet` and returns kPacket. `packet.bytes` stays valid until the
  // next call or the reader's end. kEnd and kError come again at every further
  // call. Packets without a time (Simple Packet Blocks) take that of the packet
  // before them.
  // Budget: ≤ 20 ns over a mapped pcap, no allocation.
  ReadResult Next(CapturedPacket& packet);

  // Why Next() returned kError; OK before that.
  const absl::Status& status() const { return status_; }

  // What was odd but could be read on, one line each; complete after kEnd.
  const std::vector<std::string>& warnings() const { return warnings_; }

  uint64_t packets_read() const { return packets_read_; }

  // As far as the capture was read.
  const CaptureFacts& facts() const { return facts_; }

  // Packets earlier than their predecessor in this file.
  uint64_t timestamps_backwards() const { return timestamps_backwards_; }

  // Progress, in bytes of the file as it is stored. The total is 0 where it
  // cannot be known (pipes).
  uint64_t bytes_read() const { return source_->input_bytes_read(); }
  uint64_t total_bytes() const { return source_->input_bytes_total(); }

 protected:
  CaptureReader(std::unique_ptr<ByteSource> source, bool is_pcapng)
      : source_(std::move(source)),
        facts_{.is_pcapng = is_pcapng,
               .compression = source_->compression(),
               .interfaces = {}} {}

  // The format's part of Open(): kPacket when the file header is good.
  virtual ReadResult ReadFileHeader() = 0;
  // The format's part of Next(): reads the next record.
  virtual ReadResult Read(CapturedPacket& packet) = 0;

  void AddFacts(const CaptureFacts::Interface& interface);
  // Sets status() to an error about the record at the current offset.
  ReadResult Fail(const std::string& what);
  // For when `record` wants more bytes than the source still has: kEnd if it
  // has none at all, kError if it failed, else kEnd with a warning.
  ReadResult EndOfSource(const char* record, uint64_t wanted_bytes);
  void Warn(const std::string& what);

  ByteSource& source() { return *source_; }
  Instant last_time() const { return last_time_; }

 private:
  std::unique_ptr<ByteSource> source_;
  CaptureFacts facts_;
  ReadResult state_ = ReadResult::kPacket;
  Instant last_time_ = Instant::min();
  uint64_t packets_read_ = 0;
  uint64_t timestamps_backwards_ = 0;
  absl::Status status_;
  std::vector<std::string> warnings_;
};

}  // namespace snf

#endif  // SNF_TRACES_CAPTURE_READER_H_
