// SPDX-License-Identifier: Apache-2.0
#include "traces/capture_writer.h"

#include <algorithm>
#include <array>
#include <limits>

#include "base/packet/link_headers.h"
#include "traces/capture_format.h"

namespace snf {
namespace {

constexpr uint8_t kResolutionNanos = 9;   // if_tsresol: 10^-9 s
constexpr uint8_t kResolutionMicros = 6;  // if_tsresol: 10^-6 s

// The layouts of the files, in this host's byte order: the magic numbers tell
// readers the byte order.
struct PcapHeader {
  uint32_t magic;
  uint16_t major = 2;
  uint16_t minor = 4;
  int32_t zone = 0;
  uint32_t accuracy = 0;
  uint32_t snap_bytes;
  uint32_t link_number;
};
static_assert(sizeof(PcapHeader) == kPcapHeaderBytes);

struct PcapRecord {
  uint32_t seconds;
  uint32_t ticks;
  uint32_t captured_bytes;
  uint32_t original_bytes;
};
static_assert(sizeof(PcapRecord) == kPcapRecordBytes);

struct SectionHeader {
  uint32_t type = kSectionHeaderBlock;
  uint32_t block_bytes = sizeof(SectionHeader);
  uint32_t byte_order_magic = kByteOrderMagic;
  uint16_t major = 1;
  uint16_t minor = 0;
  std::array<uint32_t, 2> section_bytes = {~0u, ~0u};  // not known
  uint32_t block_bytes_again = sizeof(SectionHeader);
};
static_assert(sizeof(SectionHeader) == 28);

struct InterfaceBlock {
  uint32_t type = kInterfaceBlock;
  uint32_t block_bytes = sizeof(InterfaceBlock);
  uint16_t link_number;
  uint16_t reserved = 0;
  uint32_t snap_bytes;  // 0: no limit
  uint16_t tsresol_code = kOptionTsresol;
  uint16_t tsresol_bytes = 1;
  std::array<uint8_t, 4> tsresol;  // one byte and padding
  std::array<uint16_t, 2> end_option = {kOptionEnd, 0};
  uint32_t block_bytes_again = sizeof(InterfaceBlock);
};
static_assert(sizeof(InterfaceBlock) == 32);

// The headers in front of the bytes of a packet and of a comment.
struct EnhancedPacketHeader {
  uint32_t type = kEnhancedPacketBlock;
  uint32_t block_bytes;
  uint32_t interface;
  uint32_t ticks_high;
  uint32_t ticks_low;
  uint32_t captured_bytes;
  uint32_t original_bytes;
};
static_assert(sizeof(EnhancedPacketHeader) == 28);

struct OptionHeader {
  uint16_t code;
  uint16_t bytes;
};
static_assert(sizeof(OptionHeader) == kOptionHeaderBytes);

template <typename Layout>
std::span<const std::byte> BytesOf(const Layout& layout) {
  return std::as_bytes(std::span(&layout, 1));
}

constexpr uint32_t PaddingOf(size_t bytes) {
  return static_cast<uint32_t>(-bytes & 3);
}

std::span<const std::byte> Padding(size_t bytes) {
  static constexpr std::array<std::byte, 3> kZeros{};
  return std::span(kZeros).first(PaddingOf(bytes));
}

uint16_t LinkNumberOf(const CapturedPacket& packet) {
  return packet.link_number != 0 ? packet.link_number
                                 : LinkTypeNumber(packet.link);
}

CaptureFormat FormatOf(std::string_view name) {
  if (CompressionOfName(name) != Compression::kNone) {
    name = name.substr(0, name.rfind('.'));
  }
  return name.ends_with(".pcap") ? CaptureFormat::kPcap
                                 : CaptureFormat::kPcapng;
}

}  // namespace

absl::StatusOr<std::unique_ptr<CaptureWriter>> CaptureWriter::Open(
    const std::string& path, const Options& options) {
  absl::StatusOr<std::unique_ptr<ByteSink>> sink = ByteSink::Open(path);
  if (!sink.ok()) {
    return sink.status();
  }
  std::unique_ptr<CaptureWriter> writer(
      new CaptureWriter(path == "-" ? "stdout" : path, *std::move(sink),
                        FormatOf(path), options));
  if (writer->format_ == CaptureFormat::kPcapng) {
    writer->sink_->Append(BytesOf(SectionHeader{}));
  }
  return writer;
}

bool CaptureWriter::Write(const CapturedPacket& packet,
                          std::string_view comment) {
  if (!status_.ok()) [[unlikely]] {
    return false;
  }
  if (packet.time < Instant{}) [[unlikely]] {
    return Refuse("time before 1970, nanoseconds: " +
                  std::to_string(packet.time.ns));
  }
  if (packet.bytes.size() > options_.snap_bytes) [[unlikely]] {
    return Refuse("captured length exceeds " +
                  std::to_string(options_.snap_bytes) + ": " +
                  std::to_string(packet.bytes.size()));
  }
  if (comment.size() > kMaxCommentBytes) [[unlikely]] {
    return Refuse("length of the comment exceeds " +
                  std::to_string(kMaxCommentBytes) + ": " +
                  std::to_string(comment.size()));
  }
  if (format_ == CaptureFormat::kPcap && !comment.empty()) [[unlikely]] {
    return Refuse("pcap has no place for comments, pcapng has: " +
                  std::string(comment));
  }
  const uint64_t nanos = static_cast<uint64_t>(packet.time.ns);
  const uint64_t ticks = options_.microseconds ? nanos / 1'000 : nanos;
  if (format_ == CaptureFormat::kPcapng) {
    WritePcapng(packet, ticks, comment);
  } else if (!WritePcap(packet, ticks)) {
    return false;
  }
  if (!sink_->status().ok()) [[unlikely]] {
    status_ = sink_->status();
    return false;
  }
  ++packets_written_;
  return true;
}

bool CaptureWriter::WritePcap(const CapturedPacket& packet, uint64_t ticks) {
  const uint16_t link_number = LinkNumberOf(packet);
  if (links_.empty()) {
    WritePcapHeader(link_number);
  }
  if (link_number != links_[0]) [[unlikely]] {
    return Refuse("pcap has one link type, pcapng can have more; LINKTYPE " +
                  std::to_string(links_[0]) +
                  " is followed by: " + std::to_string(link_number));
  }
  const uint64_t ticks_per_second =
      options_.microseconds ? 1'000'000 : 1'000'000'000;
  const uint64_t seconds = ticks / ticks_per_second;
  if (seconds > std::numeric_limits<uint32_t>::max()) [[unlikely]] {
    return Refuse("time does not fit the 32 bits of pcap, seconds: " +
                  std::to_string(seconds));
  }
  const auto captured_bytes = static_cast<uint32_t>(packet.bytes.size());
  const PcapRecord record{
      .seconds = static_cast<uint32_t>(seconds),
      .ticks = static_cast<uint32_t>(ticks % ticks_per_second),
      .captured_bytes = captured_bytes,
      .original_bytes = std::max(captured_bytes, packet.original_bytes)};
  sink_->Append(BytesOf(record));
  AppendFrame(packet);
  return true;
}

void CaptureWriter::WritePcapng(const CapturedPacket& packet, uint64_t ticks,
                                std::string_view comment) {
  const uint16_t link_number = LinkNumberOf(packet);
  auto link = std::find(links_.begin(), links_.end(), link_number);
  if (link == links_.end()) {
    WriteInterface(link_number);
    link = links_.end() - 1;
  }
  const auto captured_bytes = static_cast<uint32_t>(packet.bytes.size());
  const auto comment_bytes = static_cast<uint32_t>(comment.size());
  const uint32_t option_bytes =
      comment.empty()
          ? 0
          : 2 * kOptionHeaderBytes + comment_bytes + PaddingOf(comment_bytes);
  const EnhancedPacketHeader header{
      .block_bytes = static_cast<uint32_t>(sizeof(EnhancedPacketHeader)) +
                     captured_bytes + PaddingOf(captured_bytes) + option_bytes +
                     static_cast<uint32_t>(sizeof(uint32_t)),
      .interface = static_cast<uint32_t>(link - links_.begin()),
      .ticks_high = static_cast<uint32_t>(ticks >> 32),
      .ticks_low = static_cast<uint32_t>(ticks),
      .captured_bytes = captured_bytes,
      .original_bytes = std::max(captured_bytes, packet.original_bytes)};
  sink_->Append(BytesOf(header));
  AppendFrame(packet);
  sink_->Append(Padding(captured_bytes));
  if (!comment.empty()) {
    sink_->Append(BytesOf(
        OptionHeader{kOptionComment, static_cast<uint16_t>(comment_bytes)}));
    sink_->Append(std::as_bytes(std::span(comment)));
    sink_->Append(Padding(comment_bytes));
    sink_->Append(BytesOf(OptionHeader{kOptionEnd, 0}));
  }
  sink_->Append(BytesOf(header.block_bytes));
}

void CaptureWriter::AppendFrame(const CapturedPacket& packet) {
  std::span<const std::byte> rest = packet.bytes;
  if (packet.link == LinkType::kNull) [[unlikely]] {
    const auto header = LoopbackHeader<const std::byte>::At(rest, 0);
    if (header) {
      sink_->Append(BytesOf(header.family()));
      rest = rest.subspan(header.kBytes);
    }
  }
  sink_->Append(rest);
}

void CaptureWriter::WritePcapHeader(uint16_t link_number) {
  links_.push_back(link_number);
  sink_->Append(BytesOf(PcapHeader{
      .magic = options_.microseconds ? kPcapMicroseconds : kPcapNanoseconds,
      .snap_bytes = options_.snap_bytes,
      .link_number = link_number}));
}

void CaptureWriter::WriteInterface(uint16_t link_number) {
  links_.push_back(link_number);
  const uint8_t resolution =
      options_.microseconds ? kResolutionMicros : kResolutionNanos;
  const bool has_limit = options_.snap_bytes < kMaxCapturedBytes;
  sink_->Append(
      BytesOf(InterfaceBlock{.link_number = link_number,
                             .snap_bytes = has_limit ? options_.snap_bytes : 0,
                             .tsresol = {resolution}}));
}

bool CaptureWriter::Refuse(const std::string& what) {
  status_ = absl::InvalidArgumentError(
      path_ + ": packet " + std::to_string(packets_written_ + 1) + ": " + what);
  return false;
}

absl::Status CaptureWriter::Close() {
  if (!status_.ok()) {
    return status_;
  }
  if (format_ == CaptureFormat::kPcap && links_.empty()) {
    WritePcapHeader(LinkTypeNumber(LinkType::kEthernet));
  }
  return sink_->Close();
}

}  // namespace snf
