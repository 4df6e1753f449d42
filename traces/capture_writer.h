// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_TRACES_CAPTURE_WRITER_H_
#define SNF_TRACES_CAPTURE_WRITER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/packet/link_type.h"
#include "traces/byte_sink.h"
#include "traces/capture_reader.h"

namespace snf {

// The longest comment of a packet.
inline constexpr uint32_t kMaxCommentBytes = 4'096;

// Writes a capture that appears under its name only when it is complete.
//
// The name says the format: .pcap, or .pcapng, which is also what any other
// name and "-" (stdout) get; a further .gz or .zst compresses. A pcapng file
// has one interface for each link type met; a pcap file has one link type, that
// of its first packet (Ethernet if there is none), and no comments.
//
// What is written goes to NAME.partial, in the same folder; Close() renames it.
// A name that stands for no regular file (a device, a named pipe) is written
// directly. Owner-thread only.
class CaptureWriter {
 public:
  struct Options {
    // Resolution of the timestamps: µs instead of ns, for readers that know no
    // other. What is below is cut off.
    bool microseconds = false;
  };

  // Errors: kNotFound, kPermissionDenied, kUnavailable (any other errno), with
  // path and cause.
  static absl::StatusOr<std::unique_ptr<CaptureWriter>> Open(
      const std::string& path, const Options& options);

  // Without a good Close() before, what was written is removed.
  ~CaptureWriter() = default;
  CaptureWriter(const CaptureWriter&) = delete;
  CaptureWriter& operator=(const CaptureWriter&) = delete;

  // Adds a packet; `packet.interface` and `packet.file` are not used. `comment`
  // is UTF-8 text, empty for none. False, now and from then on, when the packet
  // cannot stand in the format (kInvalidArgument: a time before 1970 or, in
  // pcap, after 2106; a second link type in pcap; a comment in pcap or above
  // kMaxCommentBytes; above kMaxCapturedBytes) or the file failed.
  // Budget: ≤ 60 ns + the copy, uncompressed; no allocation.
  bool Write(const CapturedPacket& packet, std::string_view comment = {});

  // OK, or why Write() returned false: "FILE: packet N: what: value".
  const absl::Status& status() const { return status_; }

  uint64_t packets_written() const { return packets_written_; }

  // Writes what is buffered and gives the file its name. Returns the first
  // failure, also one of Write(). To be called once, with no Write() after it.
  absl::Status Close();

 private:
  CaptureWriter(std::string path, std::unique_ptr<ByteSink> sink, bool pcapng,
                bool microseconds)
      : path_(std::move(path)),
        sink_(std::move(sink)),
        pcapng_(pcapng),
        microseconds_(microseconds) {}

  bool WritePcap(const CapturedPacket& packet, uint64_t ticks);
  void WritePcapng(const CapturedPacket& packet, uint64_t ticks,
                   std::string_view comment);
  void WritePcapHeader(LinkType link);
  void WriteInterface(LinkType link);
  bool Refuse(const std::string& what);

  std::string path_;
  std::unique_ptr<ByteSink> sink_;
  bool pcapng_;
  bool microseconds_;
  std::vector<LinkType> links_;  // in pcapng by interface number
  uint64_t packets_written_ = 0;
  absl::Status status_;
};

}  // namespace snf

#endif  // SNF_TRACES_CAPTURE_WRITER_H_
