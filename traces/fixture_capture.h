// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_TRACES_FIXTURE_CAPTURE_H_
#define SNF_TRACES_FIXTURE_CAPTURE_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <fstream>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "traces/capture_format.h"
#include "traces/capture_reader.h"
#include "traces/compression.h"
#include "traces/fixture_folder.h"

// Shared by the tests of this folder: captures made byte by byte, valid or not,
// and the results of reading them.
namespace snf {

// A capture under construction; every call appends. `swapped`: in the byte
// order that this host has not.
class HandmadeCapture {
 public:
  explicit HandmadeCapture(bool swapped = false) : swapped_(swapped) {}

  HandmadeCapture& Add16(uint16_t field) {
    return AddField(swapped_ ? __builtin_bswap16(field) : field);
  }
  HandmadeCapture& Add32(uint32_t field) {
    return AddField(swapped_ ? __builtin_bswap32(field) : field);
  }
  HandmadeCapture& Add64(uint64_t field) {
    return AddField(swapped_ ? __builtin_bswap64(field) : field);
  }
  HandmadeCapture& AddText(std::string_view text) {
    bytes_ += text;
    return *this;
  }

  HandmadeCapture& PcapHeader(uint32_t magic = kPcapMicroseconds,
                              uint32_t link_number = 1, uint16_t major = 2,
                              uint16_t minor = 4) {
    return Add32(magic).Add16(major).Add16(minor).Add64(0).Add32(65'535).Add32(
        link_number);
  }
  HandmadeCapture& PcapRecord(uint32_t seconds, uint32_t ticks,
                              std::string_view packet,
                              uint32_t original_bytes) {
    return Add32(seconds)
        .Add32(ticks)
        .Add32(static_cast<uint32_t>(packet.size()))
        .Add32(original_bytes)
        .AddText(packet);
  }

  // A pcapng block around `body`, whose length should be a multiple of 4.
  HandmadeCapture& Block(uint32_t type, std::string_view body) {
    const auto bytes = static_cast<uint32_t>(body.size()) + 12;
    return Add32(type).Add32(bytes).AddText(body).Add32(bytes);
  }
  HandmadeCapture& Section(uint16_t major = 1, uint16_t minor = 0) {
    return Block(kSectionHeaderBlock, Part()
                                          .Add32(kByteOrderMagic)
                                          .Add16(major)
                                          .Add16(minor)
                                          .Add64(~uint64_t{0})
                                          .bytes());
  }
  HandmadeCapture& Interface(uint16_t link_number, uint32_t snap_bytes = 0,
                             std::string_view options = {}) {
    return Block(kInterfaceBlock, Part()
                                      .Add16(link_number)
                                      .Add16(0)
                                      .Add32(snap_bytes)
                                      .AddText(options)
                                      .bytes());
  }
  HandmadeCapture& Option(uint16_t code, std::string_view value) {
    return Add16(code)
        .Add16(static_cast<uint16_t>(value.size()))
        .AddText(value)
        .AddText(Padding(value));
  }
  HandmadeCapture& Resolution(uint8_t resolution) {
    return Option(kOptionTsresol, {reinterpret_cast<char*>(&resolution), 1});
  }
  HandmadeCapture& Offset(int64_t seconds) {
    return Option(kOptionTsoffset,
                  Part().Add64(static_cast<uint64_t>(seconds)).bytes());
  }
  HandmadeCapture& EnhancedPacket(uint32_t interface, uint64_t ticks,
                                  std::string_view packet,
                                  uint32_t original_bytes,
                                  std::string_view options = {}) {
    return Block(kEnhancedPacketBlock,
                 Part()
                     .Add32(interface)
                     .Add32(static_cast<uint32_t>(ticks >> 32))
                     .Add32(static_cast<uint32_t>(ticks))
                     .Add32(static_cast<uint32_t>(packet.size()))
                     .Add32(original_bytes)
                     .AddText(packet)
                     .AddText(Padding(packet))
                     .AddText(options)
                     .bytes());
  }
  HandmadeCapture& OldPacket(uint16_t interface, uint64_t ticks,
                             std::string_view packet, uint32_t original_bytes) {
    return Block(kOldPacketBlock,
                 Part()
                     .Add16(interface)
                     .Add16(0)  // drops
                     .Add32(static_cast<uint32_t>(ticks >> 32))
                     .Add32(static_cast<uint32_t>(ticks))
                     .Add32(static_cast<uint32_t>(packet.size()))
                     .Add32(original_bytes)
                     .AddText(packet)
                     .AddText(Padding(packet))
                     .bytes());
  }
  HandmadeCapture& SimplePacket(std::string_view packet,
                                uint32_t original_bytes) {
    return Block(kSimplePacketBlock, Part()
                                         .Add32(original_bytes)
                                         .AddText(packet)
                                         .AddText(Padding(packet))
                                         .bytes());
  }

  // An empty one of the same byte order, for bodies and options.
  HandmadeCapture Part() const { return HandmadeCapture(swapped_); }
  const std::string& bytes() const { return bytes_; }
  size_t size() const { return bytes_.size(); }

 private:
  template <typename Field>
  HandmadeCapture& AddField(Field field) {
    bytes_.append(reinterpret_cast<const char*>(&field), sizeof(field));
    return *this;
  }
  static std::string Padding(std::string_view value) {
    return std::string(-value.size() & 3, '\0');
  }

  bool swapped_;
  std::string bytes_;
};

inline std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline std::string Compressed(std::string_view bytes, Compression compression) {
  const auto compressor = Compressor::Create(compression);
  if (compressor == nullptr) {
    return std::string(bytes);
  }
  std::string compressed;
  auto in = std::as_bytes(std::span(bytes));
  for (bool done = false; !done;) {
    std::vector<std::byte> room(4096);
    std::span<std::byte> out(room);
    done = compressor->Encode(in, out, /*finish=*/true);
    compressed.append(reinterpret_cast<const char*>(room.data()),
                      room.size() - out.size());
  }
  return compressed;
}

inline std::string TextOf(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// A packet that outlives its reader.
struct KeptPacket {
  int64_t ns = 0;
  std::string bytes;
  uint32_t original_bytes = 0;
  LinkType link = LinkType::kEthernet;
  uint32_t interface = 0;
  uint32_t file = 0;

  bool operator==(const KeptPacket&) const = default;
  friend void PrintTo(const KeptPacket& packet, std::ostream* out) {
    *out << "{" << packet.ns << " ns, \"" << packet.bytes << "\" of "
         << packet.original_bytes << ", link " << static_cast<int>(packet.link)
         << ", interface " << packet.interface << ", file " << packet.file
         << "}";
  }
};

// The complete result of reading a capture.
struct Reading {
  std::vector<KeptPacket> packets;
  absl::Status status;
  std::vector<std::string> warnings;
  uint64_t timestamps_backwards = 0;
  uint64_t bytes_read = 0;
  uint64_t total_bytes = 0;

  std::string message() const {
    return {status.message().data(), status.message().size()};
  }
};

template <typename Reader>
Reading ReadToEnd(absl::StatusOr<std::unique_ptr<Reader>> opened) {
  Reading reading;
  if (!opened.ok()) {
    reading.status = opened.status();
    return reading;
  }
  Reader& reader = **opened;
  CapturedPacket packet;
  ReadResult result = ReadResult::kPacket;
  while ((result = reader.Next(packet)) == ReadResult::kPacket) {
    reading.packets.push_back({packet.time.ns, TextOf(packet.bytes),
                               packet.original_bytes, packet.link,
                               packet.interface, packet.file});
  }
  EXPECT_EQ(result == ReadResult::kError, !reader.status().ok());
  EXPECT_EQ(reader.Next(packet), result) << "the end must stay the end";
  EXPECT_EQ(reader.packets_read(), reading.packets.size());
  reading.status = reader.status();
  reading.warnings = reader.warnings();
  reading.timestamps_backwards = reader.timestamps_backwards();
  reading.bytes_read = reader.bytes_read();
  reading.total_bytes = reader.total_bytes();
  return reading;
}

inline Reading ReadCapture(const std::string& path) {
  return ReadToEnd(CaptureReader::Open(path));
}

// The reading of a file of these bytes; "FILE" stands for its path in messages.
inline Reading ReadBytes(std::string_view bytes) {
  const TestFolder folder;
  const std::string path = folder.Write("capture", bytes);
  Reading reading = ReadCapture(path);
  const auto anonymous = [&path](std::string line) {
    const size_t at = line.find(path);
    return at == std::string::npos ? line
                                   : line.replace(at, path.size(), "FILE");
  };
  reading.status =
      absl::Status(reading.status.code(), anonymous(reading.message()));
  for (std::string& warning : reading.warnings) {
    warning = anonymous(warning);
  }
  return reading;
}

}  // namespace snf

#endif  // SNF_TRACES_FIXTURE_CAPTURE_H_
