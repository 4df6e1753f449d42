// SPDX-License-Identifier: Apache-2.0
#include "runtime/sdk/stream/stream.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "base/check.h"
#include "base/packet/l4_headers.h"

namespace snf {
namespace {

using Tcp = TcpHeader<const std::byte>;
using Bytes = std::span<const std::byte>;
using Kind = StreamEvent::Kind;

constexpr int64_t kNone = std::numeric_limits<int64_t>::max();
// The largest window; sequence numbers further away are of another stream.
constexpr int32_t kMaxWindow = 1 << 30;

// The header of a piece in the blob.
struct PieceHeader {
  uint32_t sequence;
  uint16_t data_bytes;
  uint16_t cut_bytes;  // behind the data, sent but not captured
};
static_assert(sizeof(PieceHeader) == 8);
constexpr int64_t kMaxPieceBytes = 65'535;

}  // namespace

std::string_view Name(StreamEvent::Kind kind) {
  static constexpr std::array<std::string_view, 9> kNames = {
      "begin",      "midstream", "data",  "gap",    "overlap_differs",
      "over_bound", "end",       "reset", "ignored"};
  return kNames.at(static_cast<size_t>(kind));
}

// --- Segments ---------------------------------------------------------------

void Stream::Push(const TcpSegment& segment, OnEvent on_event) {
  const StreamPlace before = place_;
  Take(segment, on_event);
  if (place_ != before) flow_.put(slots_.place, place_);
}

void Stream::Take(const TcpSegment& segment, OnEvent on_event) {
  if (segment.has(Tcp::kRst)) return TakeReset(segment, on_event);
  if (segment.has(Tcp::kSyn) && !TakeSyn(segment, on_event)) return;
  const bool has_fin = segment.has(Tcp::kFin);
  if (segment.data_bytes == 0 && !has_fin) return;
  if (!has_begun()) Begin(segment.sequence, Kind::kMidstream, on_event);
  const uint32_t sequence = segment.sequence + (segment.has(Tcp::kSyn) ? 1 : 0);
  const auto ahead = static_cast<int32_t>(sequence - place_.next);
  if ((place_.flags & kReset) != 0 || ahead > kMaxWindow ||
      ahead < -kMaxWindow) {
    return Tell(Kind::kIgnored, segment.data_bytes, on_event);
  }
  Part part = {.begin = now() + ahead,
               .end = now() + ahead + segment.data_bytes,
               .data = segment.data};
  if (has_fin) TakeFin(part.end, on_event);
  if (const int64_t end = End(); part.end > end) {
    Tell(Kind::kIgnored, part.end - std::max(part.begin, end), on_event);
    if (part.begin >= end) return;
    part.end = end;
    if (part.data_end() > end) {
      part.data = part.data.first(static_cast<size_t>(end - part.begin));
    }
  }
  TakePart(part, on_event);
}

// Returns true if the rest of the segment counts.
bool Stream::TakeSyn(const TcpSegment& segment, OnEvent on_event) {
  const uint32_t first = segment.sequence + 1;
  if (has_begun() && first == place_.first && (place_.flags & kReset) == 0) {
    return true;  // once more
  }
  if (has_begun() && !is_over()) {
    Tell(Kind::kIgnored, segment.data_bytes, on_event);
    return false;
  }
  Begin(first, Kind::kBegin, on_event);
  return true;
}

void Stream::Begin(uint32_t first, Kind kind, OnEvent on_event) {
  place_ = {.offset = 0, .next = first, .first = first, .flags = kBegun};
  if (flow_.has(slots_.held)) flow_.erase(slots_.held);
  Tell(kind, 0, on_event);
}

void Stream::TakeReset(const TcpSegment& segment, OnEvent on_event) {
  if (!has_begun()) return Tell(Kind::kReset, 0, on_event);
  if ((place_.flags & kReset) != 0) return;
  Load();
  int64_t last = count_ > 0 ? pieces_[count_ - 1].end : now();
  // The FIN has a number too.
  if ((place_.flags & kHasEnd) != 0) last = std::max(last, End() + 1);
  const int64_t offset = OffsetOf(segment.sequence);
  if (offset < now() || offset > last) {
    return Tell(Kind::kIgnored, 0, on_event);
  }
  place_.flags |= kReset;
  if (flow_.has(slots_.held)) flow_.erase(slots_.held);
  Tell(Kind::kReset, 0, on_event);
}

void Stream::TakeFin(int64_t end, OnEvent on_event) {
  if ((place_.flags & kHasEnd) != 0 ? end != End() : end < now()) {
    return Tell(Kind::kIgnored, 0, on_event);
  }
  place_.flags |= kHasEnd;
  place_.end = SequenceOf(end);
}

// Returns the offset of the FIN.
int64_t Stream::End() const {
  return (place_.flags & kHasEnd) != 0 ? OffsetOf(place_.end) : kNone;
}

void Stream::TakePart(const Part& part, OnEvent on_event) {
  Load();
  if (count_ > 0) Compare(part, on_event);
  if (part.begin > now() && !Fits(part)) {
    Tell(Kind::kOverBound, part.end - part.begin, on_event);
    do {
      Skip(count_ > 0 ? std::min(part.begin, pieces_[0].begin) : part.begin,
           on_event);
      Deliver(part, on_event);
    } while (part.begin > now() && !Fits(part));
  }
  if (part.begin > now()) {
    Store(part);
  } else {
    Deliver(part, on_event);
  }
}

void Stream::Acknowledge(uint32_t acknowledgement, OnEvent on_event) {
  const int64_t offset = OffsetOf(acknowledgement);
  if (!has_begun() || is_over() || offset <= now() ||
      offset > now() + kMaxWindow) {
    return;
  }
  GiveUp(offset, on_event);
}

void Stream::Flush(OnEvent on_event) {
  if (has_begun() && !is_over()) GiveUp(kNone, on_event);
}

// Gives up the gaps that end up to `limit`.
void Stream::GiveUp(int64_t limit, OnEvent on_event) {
  const StreamPlace before = place_;
  Load();
  const Part nothing = {.begin = now(), .end = now(), .data = {}};
  while (count_ > 0 && pieces_[0].begin <= limit) {
    Skip(pieces_[0].begin, on_event);
    Deliver(nothing, on_event);
  }
  if (!is_over() && End() < limit) {
    Skip(End(), on_event);
    Deliver(nothing, on_event);
  }
  if (place_ != before) flow_.put(slots_.place, place_);
}

// --- Bytes that are held ----------------------------------------------------

// The blob holds pieces as they came: headers, each with its data behind it.
void Stream::Load() {
  count_ = 0;
  const Bytes held = flow_.get(slots_.held);
  size_t at = 0;
  while (count_ < kMaxPieces && held.size() - at >= sizeof(PieceHeader)) {
    const auto header = LoadAs<PieceHeader>(&held[at]);
    const size_t bytes = sizeof header + header.data_bytes;
    if (bytes > held.size() - at) break;
    Piece piece = {.begin = OffsetOf(header.sequence),
                   .end = 0,
                   .at = static_cast<uint32_t>(at),
                   .data_bytes = header.data_bytes};
    piece.end = piece.begin + header.data_bytes + header.cut_bytes;
    size_t place = count_++;
    for (; place > 0 && pieces_[place - 1].begin > piece.begin; --place) {
      pieces_[place] = pieces_[place - 1];
    }
    pieces_[place] = piece;
    at += bytes;
  }
}

Stream::Part Stream::Of(const Piece& piece) const {
  return {
      .begin = piece.begin,
      .end = piece.end,
      .data = flow_.get(slots_.held)
                  .subspan(piece.at + sizeof(PieceHeader), piece.data_bytes)};
}

// Tells which bytes differ from the copy that is held, and replaces this copy
// if the last one wins.
void Stream::Compare(const Part& part, OnEvent on_event) {
  for (size_t i = 0; i < count_; ++i) {
    const Part held = Of(pieces_[i]);
    const int64_t begin = std::max(part.begin, held.begin);
    const int64_t end = std::min(part.data_end(), held.data_end());
    if (begin >= end) continue;
    const auto bytes = static_cast<size_t>(end - begin);
    const auto in_held = static_cast<size_t>(begin - held.begin);
    const Bytes first = held.data.subspan(in_held, bytes);
    const Bytes second =
        part.data.subspan(static_cast<size_t>(begin - part.begin), bytes);
    if (std::memcmp(first.data(), second.data(), bytes) == 0) continue;
    uint32_t different = 0;
    for (size_t k = 0; k < bytes; ++k) different += first[k] != second[k];
    on_event({.kind = Kind::kOverlapDiffers,
              .bytes = different,
              .offset = static_cast<uint64_t>(begin),
              .data = second});
    if (overlap_ == StreamOverlap::kFirst) continue;
    const size_t at = pieces_[i].at + sizeof(PieceHeader) + in_held;
    flow_.patch(slots_.held, static_cast<uint32_t>(at), second);
  }
}

// Calls visit(begin, end) for each part of `part` that is not held.
template <typename Visit>
void Stream::ForEachHole(const Part& part, const Visit& visit) const {
  int64_t begin = part.begin;
  for (size_t i = 0; i < count_ && begin < part.end; ++i) {
    const Piece& piece = pieces_[i];
    if (piece.end <= begin) continue;
    if (piece.begin >= part.end) break;
    if (piece.begin > begin) visit(begin, piece.begin);
    begin = piece.end;
  }
  if (begin < part.end) visit(begin, part.end);
}

bool Stream::Fits(const Part& part) const {
  size_t count = count_;
  size_t bytes = held_bytes();
  bool is_short = true;
  ForEachHole(part, [&](int64_t begin, int64_t end) {
    ++count;
    const int64_t data_end = std::clamp(part.data_end(), begin, end);
    bytes += sizeof(PieceHeader) + static_cast<size_t>(data_end - begin);
    is_short &= end - begin <= kMaxPieceBytes;
  });
  return is_short && count <= kMaxPieces && bytes <= slots_.held.max_bytes();
}

void Stream::Store(const Part& part) {
  ForEachHole(part, [&](int64_t begin, int64_t end) {
    const int64_t data_end = std::clamp(part.data_end(), begin, end);
    const auto bytes = static_cast<size_t>(data_end - begin);
    const PieceHeader header = {
        .sequence = SequenceOf(begin),
        .data_bytes = static_cast<uint16_t>(bytes),
        .cut_bytes = static_cast<uint16_t>(end - data_end)};
    const auto at = static_cast<uint32_t>(held_bytes());
    bool fits =
        flow_.patch(slots_.held, at, std::as_bytes(std::span(&header, 1)));
    if (bytes > 0) {
      fits &= flow_.patch(
          slots_.held, at + static_cast<uint32_t>(sizeof header),
          part.data.subspan(static_cast<size_t>(begin - part.begin), bytes));
    }
    SNF_CHECK(fits);
  });
}

// Forgets the pieces that were delivered.
void Stream::Compact() {
  const auto is_delivered = [this](const Piece& piece) {
    return piece.end <= now();
  };
  const auto kept_end = std::remove_if(
      pieces_.begin(), pieces_.begin() + static_cast<ptrdiff_t>(count_),
      is_delivered);
  const auto kept = static_cast<size_t>(kept_end - pieces_.begin());
  if (kept == count_) return;
  count_ = kept;
  if (kept == 0) return flow_.erase(slots_.held);
  // Pieces only move to the front, in the order in which they lie.
  std::array<Piece*, kMaxPieces> in_blob;
  for (size_t i = 0; i < kept; ++i) in_blob[i] = &pieces_[i];
  std::sort(in_blob.begin(), in_blob.begin() + static_cast<ptrdiff_t>(kept),
            [](const Piece* a, const Piece* b) { return a->at < b->at; });
  uint32_t to = 0;
  for (size_t i = 0; i < kept; ++i) {
    Piece& piece = *in_blob[i];
    const auto bytes =
        static_cast<uint32_t>(sizeof(PieceHeader)) + piece.data_bytes;
    if (piece.at != to) {
      flow_.patch(slots_.held, to,
                  flow_.get(slots_.held).subspan(piece.at, bytes));
    }
    piece.at = to;
    to += bytes;
  }
  flow_.put(slots_.held, flow_.get(slots_.held).first(to));
}

// --- Delivery ---------------------------------------------------------------

// Delivers what stands next, in `part` or held, up to the first byte that is
// missing, and the end of the stream if it is reached.
void Stream::Deliver(const Part& part, OnEvent on_event) {
  if ((place_.flags & kEnded) != 0) return;
  size_t next = 0;
  while (now() < End()) {
    while (next < count_ && pieces_[next].end <= now()) ++next;
    const bool has_piece = next < count_;
    if (has_piece && pieces_[next].begin <= now()) {
      Emit(Of(pieces_[next]), pieces_[next].end, on_event);
    } else if (part.begin <= now() && now() < part.end) {
      Emit(part, has_piece ? std::min(part.end, pieces_[next].begin) : part.end,
           on_event);
    } else {
      break;
    }
  }
  if (now() < End()) return Compact();
  place_.flags |= kEnded;
  Tell(Kind::kEnd, 0, on_event);
  int64_t behind = 0;
  for (size_t i = 0; i < count_; ++i) {
    behind += std::max<int64_t>(
        pieces_[i].end - std::max(pieces_[i].begin, now()), 0);
  }
  if (behind > 0) Tell(Kind::kIgnored, behind, on_event);
  if (count_ > 0) flow_.erase(slots_.held);
  count_ = 0;
}

// Delivers the part from now up to `end`, or to the end of the stream.
void Stream::Emit(const Part& part, int64_t end, OnEvent on_event) {
  end = std::min(end, End());
  if (const int64_t bytes = std::min(end, part.data_end()) - now(); bytes > 0) {
    on_event({.kind = Kind::kData,
              .bytes = static_cast<uint32_t>(bytes),
              .offset = place_.offset,
              .data = part.data.subspan(static_cast<size_t>(now() - part.begin),
                                        static_cast<size_t>(bytes))});
    Advance(bytes);
  }
  if (now() < end) Skip(end, on_event);
}

void Stream::Skip(int64_t to, OnEvent on_event) {
  const int64_t bytes = std::min(to, End()) - now();
  if (bytes <= 0) return;
  Tell(Kind::kGap, bytes, on_event);
  Advance(bytes);
}

void Stream::Tell(Kind kind, int64_t bytes, OnEvent on_event) const {
  on_event({.kind = kind,
            .bytes = static_cast<uint32_t>(bytes),
            .offset = place_.offset});
}

void Stream::Advance(int64_t bytes) {
  place_.next += static_cast<uint32_t>(bytes);
  place_.offset += static_cast<uint64_t>(bytes);
}

}  // namespace snf
