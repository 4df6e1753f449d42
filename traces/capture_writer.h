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
#include "traces/capture_format.h"
#include "traces/capture_reader.h"

namespace snf {

// The longest comment of a packet.
inline constexpr uint32_t kMaxCommentBytes = 4'096;

// Writes a capture that appears under its name only when it is complete.
//
// The name decides the format: pcap if it ends in .pcap, else pcapng, also for
// "-" (stdout); a further .gz or .zst compresses. A pcapng file
// has one interface for each link type met; a pcap file has one link type, that
// of its first packet (Ethernet if there is none), and no comments. The address
// family of LINKTYPE_NULL is written in this host's byte order, as the file is.
//
// Packets go to NAME.partial, in the same folder; Close() renames it. A file
// that exists and is not regular (a device, a named pipe) is written directly.
// Owner-thread only.
class CaptureWriter {
 public:
  struct Options {
    // Timestamps have a resolution of µs instead of ns, for readers that know
    // no other. They are rounded down.
    bool microseconds = false;
    // Snap length in the file's header, in bytes. Longer packets are refused,
    // not cut.
    uint32_t snap_bytes = kMaxCapturedBytes;
  };

  // Opens the file. Errors: kNotFound, kPermissionDenied, kUnavailable (any
  // other errno), with path and cause.
  static absl::StatusOr<std::unique_ptr<CaptureWriter>> Open(
      const std::string& path, const Options& options);

  // Removes the file unless Close() has succeeded.
  ~CaptureWriter() = default;
  CaptureWriter(const CaptureWriter&) = delete;
  CaptureWriter& operator=(const CaptureWriter&) = delete;

  // Adds a packet; `packet.interface` and `packet.file` are not used. `comment`
  // is UTF-8 text, empty for none. Returns false, now and from then on, if the
  // packet cannot stand in the format (kInvalidArgument: a time before 1970 or,
  // in pcap, after 2106; a second link type in pcap; a comment in pcap or above
  // kMaxCommentBytes; above snap_bytes) or the file failed.
  // Budget: ≤ 60 ns + the copy, uncompressed; no allocation.
  bool Write(const CapturedPacket& packet, std::string_view comment = {});

  // Says why Write() returned false: "FILE: packet N: what: value". OK before.
  const absl::Status& status() const { return status_; }

  uint64_t packets_written() const { return packets_written_; }

  // Writes the rest of the buffer and gives the file its name. Returns the
  // first failure, also one of Write(). Call it once, and no Write() after it.
  absl::Status Close();

 private:
  CaptureWriter(std::string path, std::unique_ptr<ByteSink> sink,
                CaptureFormat format, const Options& options)
      : path_(std::move(path)),
        sink_(std::move(sink)),
        format_(format),
        options_(options) {}

  bool WritePcap(const CapturedPacket& packet, uint64_t ticks);
  void WritePcapng(const CapturedPacket& packet, uint64_t ticks,
                   std::string_view comment);
  void WritePcapHeader(uint16_t link_number);
  void WriteInterface(uint16_t link_number);
  void AppendFrame(const CapturedPacket& packet);
  bool Refuse(const std::string& what);

  std::string path_;
  std::unique_ptr<ByteSink> sink_;
  CaptureFormat format_;
  Options options_;
  std::vector<uint16_t> links_;  // LINKTYPE_, in pcapng by interface number
  uint64_t packets_written_ = 0;
  absl::Status status_;
};

}  // namespace snf

#endif  // SNF_TRACES_CAPTURE_WRITER_H_
