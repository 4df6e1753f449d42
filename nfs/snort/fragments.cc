// SPDX-License-Identifier: Apache-2.0
#include "nfs/snort/fragments.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <utility>

#include "base/packet/headers.h"
#include "nfs/snort/option_text.h"

namespace snf::snort {
namespace {

using Bytes = std::span<const std::byte>;
using Ip4 = Ipv4Header<const std::byte>;
using Ip6 = Ipv6Header<const std::byte>;
using Extension = Ipv6ExtensionHeader<const std::byte>;
using Ip6Fragment = Ipv6FragmentHeader<const std::byte>;

constexpr size_t kMaxIpBytes = 65'535;

// The place of a fragment's data in its frame.
struct Place {
  size_t begin;
  bool has_more;
};

std::optional<Place> PlaceOf(Bytes frame, const ParsedPacket& headers) {
  if (headers.l3 == L3::kIpv4) {
    const Ip4 ip = Ip4::At(frame, headers.l3_offset);
    if (!ip) return std::nullopt;
    return Place{headers.l3_offset + ip.header_bytes(), ip.more_fragments()};
  }
  const Ip6 ip = Ip6::At(frame, headers.l3_offset);
  if (!ip) return std::nullopt;
  size_t at = headers.l3_offset + Ip6::kBytes;
  IpProtocol kind = ip.next_header();
  for (int i = 0; i <= kMaxIpv6Extensions && IsIpv6Extension(kind); ++i) {
    if (kind == IpProtocol::kFragment) {
      const Ip6Fragment fragment = Ip6Fragment::At(frame, at);
      if (!fragment) return std::nullopt;
      return Place{at + Ip6Fragment::kBytes, fragment.more_fragments()};
    }
    const Extension extension = Extension::At(frame, at, kind);
    if (!extension) return std::nullopt;
    kind = extension.next_header();
    at += extension.header_bytes();
  }
  return std::nullopt;
}

}  // namespace

std::vector<Fragments::Piece> Fragments::Read(std::string_view held) {
  std::vector<Piece> pieces;
  while (held.size() >= sizeof(PieceHeader)) {
    Piece piece = {};
    std::memcpy(&piece.header, held.data(), sizeof piece.header);
    held.remove_prefix(sizeof piece.header);
    const size_t bytes = piece.header.header_bytes + piece.header.bytes;
    if (bytes > held.size()) break;
    piece.headers = held.substr(0, piece.header.header_bytes);
    piece.data = held.substr(piece.header.header_bytes, piece.header.bytes);
    held.remove_prefix(bytes);
    pieces.push_back(piece);
  }
  return pieces;
}

std::optional<Fragments::Piece> Fragments::PieceOf(
    const FragmentOfPacket& fragment, Result& result) {
  const ParsedPacket& headers = fragment.headers;
  const auto place = PlaceOf(fragment.frame, headers);
  if (!place.has_value() || place->begin >= headers.end_offset ||
      headers.l3_offset > 255 ||
      fragment.frame.size() < fragment.original_length) {
    return std::nullopt;
  }
  const size_t offset = headers.fragment_offset_bytes;
  const size_t bytes = headers.end_offset - place->begin;
  result.is_too_large =
      offset + bytes + (place->begin - headers.l3_offset) > kMaxIpBytes;
  if (result.is_too_large || (place->has_more && bytes % 8 != 0)) {
    return std::nullopt;
  }
  const size_t header_bytes = offset == 0 ? place->begin : 0;
  return Piece{.header = {.id = headers.fragment_id,
                          .second = fragment.second,
                          .offset = static_cast<uint16_t>(offset),
                          .bytes = static_cast<uint16_t>(bytes),
                          .header_bytes = static_cast<uint16_t>(header_bytes),
                          .l3_offset = static_cast<uint8_t>(headers.l3_offset),
                          .flags = static_cast<uint8_t>(
                              (place->has_more ? 0 : kLast) |
                              (fragment.to_server ? kToServer : 0))},
               .headers = TextOf(fragment.frame.first(header_bytes)),
               .data = TextOf(fragment.frame.subspan(place->begin, bytes))};
}

template <typename Which>
uint32_t Fragments::Remove(std::string& held, const Which& which) {
  std::string rest;
  std::vector<Piece> removed;
  uint32_t packets = 0;
  const std::string before = std::move(held);
  for (const Piece& piece : Read(before)) {
    if (!which(piece)) {
      rest += TextOf(std::as_bytes(std::span(&piece.header, 1)));
      rest += piece.headers;
      rest += piece.data;
      continue;
    }
    const bool is_known = std::ranges::any_of(
        removed, [&](const Piece& other) { return other.IsOf(piece); });
    if (!is_known) ++packets;
    removed.push_back(piece);
  }
  held = std::move(rest);
  return packets;
}

uint32_t Fragments::PacketsIn(std::string_view held) {
  std::string all(held);
  return Remove(all, [](const Piece&) { return true; });
}

// Finds bytes that differ, ends that differ, and data beyond the end.
void Fragments::Compare(const Piece& piece, const std::vector<Piece>& others,
                        Result& result) {
  for (const Piece& other : others) {
    const size_t begin = std::max(piece.begin(), other.begin());
    const size_t end = std::min(piece.end(), other.end());
    if (begin < end &&
        piece.data.substr(begin - piece.begin(), end - begin) !=
            other.data.substr(begin - other.begin(), end - begin)) {
      result.overlaps = true;
    }
    // A fragment beyond the end is no part of the packet.
    const bool is_beyond = (other.is_last() && piece.end() > other.end()) ||
                           (piece.is_last() && other.end() > piece.end());
    result.is_alone |= is_beyond;
    result.overlaps |= is_beyond;
  }
}

// Makes the frame of the packet, if its pieces are all there.
bool Fragments::Join(const std::vector<Piece>& pieces) {
  const Piece* first = nullptr;
  size_t end = 0;
  bool has_last = false;
  std::vector<const Piece*> in_order;
  for (const Piece& piece : pieces) {
    if (piece.begin() == 0 && first == nullptr) first = &piece;
    if (piece.is_last()) has_last = true;
    end = std::max(end, piece.end());
    in_order.push_back(&piece);
  }
  if (first == nullptr || !has_last) return false;
  std::ranges::stable_sort(in_order, {}, &Piece::begin);
  size_t reached = 0;
  for (const Piece* const piece : in_order) {
    if (piece->begin() > reached) return false;
    reached = std::max(reached, piece->end());
  }
  const size_t header_bytes = first->headers.size();
  if (header_bytes + end > kMaxIpBytes + first->header.l3_offset) return false;
  whole_.resize(header_bytes + end);
  first_bytes_ = header_bytes + first->data.size();
  std::memcpy(whole_.data(), first->headers.data(), header_bytes);
  // The piece that came first is written last.
  for (auto piece = pieces.rbegin(); piece != pieces.rend(); ++piece) {
    std::memcpy(&whole_[header_bytes + piece->begin()], piece->data.data(),
                piece->data.size());
  }
  const size_t l3 = first->header.l3_offset;
  const std::span<std::byte> frame(whole_);
  if (const auto ip = Ipv4Header<std::byte>::At(frame, l3); ip) {
    ip.set_total_bytes(static_cast<uint16_t>(whole_.size() - l3));
    whole_[l3 + 6] = whole_[l3 + 7] = std::byte{0};
    return true;
  }
  const auto ip = Ipv6Header<std::byte>::At(frame, l3);
  if (!ip) return false;
  ip.set_payload_bytes(static_cast<uint16_t>(whole_.size() - l3 - Ip6::kBytes));
  // Offset and mark in the fragment header, which ends the headers.
  whole_[header_bytes - 6] = whole_[header_bytes - 5] = std::byte{0};
  return true;
}

Fragments::Result Fragments::Take(const FragmentOfPacket& fragment,
                                  size_t max_bytes, std::string& held) {
  Result result;
  result.given_up = Remove(held, [&](const Piece& piece) {
    return piece.header.second + kMaxSeconds < fragment.second;
  });
  const std::optional<Piece> piece = PieceOf(fragment, result);
  if (!piece.has_value()) {
    result.is_alone = true;
    return result;
  }
  std::vector<Piece> all = Read(held);
  std::vector<Piece> pieces;
  std::ranges::copy_if(all, std::back_inserter(pieces),
                       [&](const Piece& one) { return one.IsOf(*piece); });
  Compare(*piece, pieces, result);
  if (result.is_alone) return result;
  const bool has_first = std::ranges::any_of(
      pieces, [](const Piece& one) { return one.begin() == 0; });
  result.is_alone = result.overlaps || !has_first;
  const bool is_known = std::ranges::any_of(pieces, [&](const Piece& other) {
    return other.begin() <= piece->begin() && piece->end() <= other.end() &&
           other.is_last() >= piece->is_last();
  });
  if (is_known) return result;
  pieces.push_back(*piece);
  result.is_whole = Join(pieces);
  if (result.is_whole) {
    Remove(held, [&](const Piece& one) { return one.IsOf(*piece); });
    return result;
  }
  const size_t bytes =
      sizeof piece->header + piece->headers.size() + piece->data.size();
  if (held.size() + bytes > max_bytes || all.size() >= kMaxPieces) {
    result.has_no_room = result.is_alone = true;
    return result;
  }
  held += TextOf(std::as_bytes(std::span(&piece->header, 1)));
  held += piece->headers;
  held += piece->data;
  return result;
}

}  // namespace snf::snort
