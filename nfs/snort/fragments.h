// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_NFS_SNORT_FRAGMENTS_H_
#define SNF_NFS_SNORT_FRAGMENTS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/packet/packet_parser.h"

namespace snf::snort {

// A fragment of an IP packet. Borrows its frame and headers.
struct FragmentOfPacket {
  std::span<const std::byte> frame;
  const ParsedPacket& headers;
  uint32_t original_length = 0;  // of the frame, on the wire
  uint32_t second = 0;           // of its arrival
  bool to_server = true;
};

// Theory of operation. Puts the fragments of IP packets together, to inspect
// them as their receiver sees them (RFC 791 §3.2, RFC 8200 §4.5). What is held
// of a flow is a text of pieces in the order of arrival, which the caller
// keeps; a piece is a header of 16 bytes, the headers of the frame if it is a
// first fragment, and the data.
//
// Rules:
// - Fragments of a direction with the same id are of one packet. A packet is
//   whole when its last fragment and all bytes before it have come.
// - Copies of a byte: the first one wins. Copies that differ are told, and the
//   fragment is looked at alone, too, since receivers take either copy, or
//   discard the packet (RFC 5722).
// - Fragments that cannot be part of a packet are looked at alone: with no
//   data, cut by the capture, beyond 65,535 bytes, beyond the last fragment, or
//   of a length that is no multiple of 8 though more follow.
// - A fragment that has no room (max_bytes, kMaxPieces) is looked at alone.
// - A first fragment is looked at alone, too, and others that come before it:
//   these may be of another flow (base/packet/classifier.h), so that the packet
//   never becomes whole here.
// - Fragments wait for kMaxSeconds.
//
// Example: "GET /ev" in a first fragment of 8 bytes of UDP and 8 of data, then
// the rest at offset 16: the second one completes a frame with the headers of
// the first one, without marks of fragments.
//
// Owner-thread only: holds memory for a packet. Bytes are from outside.
class Fragments {
 public:
  static constexpr uint32_t kMaxSeconds = 30;
  static constexpr size_t kMaxPieces = 64;  // of a flow

  struct Result {
    bool is_alone = false;  // is to be looked at by itself
    bool is_whole = false;  // completes a packet: whole()
    bool overlaps = false;  // differs from bytes that came before
    bool is_too_large = false;
    bool has_no_room = false;
    uint32_t given_up = 0;  // packets that were waited for too long
  };
  // Takes a fragment, and changes `held`.
  Result Take(const FragmentOfPacket& fragment, size_t max_bytes,
              std::string& held);
  // Returns the frame of the packet that the last fragment completed.
  std::span<const std::byte> whole() const { return whole_; }
  // Returns how much of it its first fragment had.
  size_t first_bytes() const { return first_bytes_; }

  // Returns how many packets the pieces belong to.
  static uint32_t PacketsIn(std::string_view held);

 private:
  struct PieceHeader {
    uint32_t id;
    uint32_t second;
    uint16_t offset;
    uint16_t bytes;
    uint16_t header_bytes;  // in front of the data
    uint8_t l3_offset;      // in them
    uint8_t flags;
  };
  enum Flag : uint8_t { kLast = 1, kToServer = 2 };
  struct Piece {
    PieceHeader header;
    std::string_view headers;
    std::string_view data;
    size_t begin() const { return header.offset; }
    size_t end() const { return header.offset + data.size(); }
    bool is_last() const { return (header.flags & kLast) != 0; }
    bool IsOf(const Piece& other) const {
      return header.id == other.header.id &&
             ((header.flags ^ other.header.flags) & kToServer) == 0;
    }
  };

  static std::vector<Piece> Read(std::string_view held);
  // Returns nothing if the fragment cannot be part of a packet.
  static std::optional<Piece> PieceOf(const FragmentOfPacket& fragment,
                                      Result& result);
  // Removes pieces; returns how many packets they were of.
  template <typename Which>
  static uint32_t Remove(std::string& held, const Which& which);
  static void Compare(const Piece& piece, const std::vector<Piece>& others,
                      Result& result);
  bool Join(const std::vector<Piece>& pieces);

  std::vector<std::byte> whole_;
  size_t first_bytes_ = 0;
};

}  // namespace snf::snort

#endif  // SNF_NFS_SNORT_FRAGMENTS_H_
