// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RUNTIME_SDK_STREAM_STREAM_H_
#define SNF_RUNTIME_SDK_STREAM_STREAM_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "absl/functional/function_ref.h"
#include "runtime/sdk/packet.h"
#include "runtime/sdk/state.h"
#include "runtime/sdk/stream/tcp_segment.h"

namespace snf {

// Theory of operation. One direction of a TCP connection, put in order: an NF
// pushes segments as they come, and gets the stream's bytes, each once and in
// order (RFC 9293 §3.4, §3.10.7.4). The state is two slots of the flow's
// record, so it moves with the flow: StreamPlace, 24 bytes, and a blob of the
// bytes that came out of order. The blob's maximum is the bound.
//
//     const StreamSlots client_ = {declare<StreamPlace>("client"),
//                                  declare_blob("client_held", 8'192)};
//     …
//     const auto segment = SegmentOf(packet);
//     if (!segment.has_value()) return Verdict::forward();
//     Stream(flow, client_).Push(*segment, [&](const StreamEvent& event) {
//       if (event.kind == StreamEvent::Kind::kData) Search(event.data);
//     });
//     if (segment->has(TcpHeader<const std::byte>::kAck)) {
//       Stream(flow, server_).Acknowledge(segment->acknowledgement, …);
//     }
//
// Worked example, with a bound of 100 bytes. "ab" comes at sequence number 10,
// so 12 is next: data "ab". "ef" at 14 is held, with a header of 8 bytes. Then
// "cdEF" comes at 12: overlap_differs, 2 bytes; data "cd", data "ef". If 120
// bytes come at 16 + 30 instead, they do not fit: over_bound, a gap of 30, and
// the 120 bytes as data.
//
// Rules:
// - Copies of a byte that is held: the first one wins, or the last one by
//   option; that they differ is told. A byte that was delivered is not kept, so
//   later copies of it are ignored, as receivers do.
// - A gap is given up if bytes behind it do not fit, if the other end has
//   acknowledged it (Acknowledge), or by Flush. It is told, with its size, and
//   the bytes behind it follow. Its bytes, if they come after all, are ignored.
// - At most kMaxPieces pieces are held, besides the bound.
// - A stream without SYN begins at its first segment with data or FIN, which is
//   told. A keep-alive of one byte there counts as data.
// - A SYN with another number than the stream's own begins the stream again if
//   it is over, and is ignored otherwise. Data on a SYN are data.
// - A FIN ends the stream when all bytes before it have been delivered; bytes
//   behind it are ignored. Of several FINs the first one counts.
// - A reset counts if its sequence number is the next one, or one up to the end
//   of what is held (RFC 5961 §3.2 is stricter), and then drops what is held.
// - Keep-alives and probes of a closed window need no rule: their byte is old,
//   or it is the next one. Urgent data are data.
// - Numbers more than 2^30 away from the next one, the largest window (RFC 7323
//   §2.3), belong to another stream: such segments are ignored.
// - Bytes that were sent but not captured are a gap, told at once.
// - Fragments are no segments (SegmentOf). Checksums are not looked at.
//
// Bytes that are ignored though they are not old are told too, since an
// attacker may have meant them for the receiver.

// An event of a stream.
struct StreamEvent {
  enum class Kind : uint8_t {
    kBegin,      // a SYN, the first one or one after the stream was over
    kMidstream,  // the stream begins without SYN
    kData,       // `data` is the next part of the stream
    kGap,        // the next `bytes` bytes are missing
    // `bytes` bytes of `data`, which begin at `offset`, differ from the copy
    // that is held.
    kOverlapDiffers,
    kOverBound,  // a segment of `bytes` bytes does not fit; a gap follows
    kEnd,        // FIN; all bytes before it were told
    kReset,
    kIgnored,  // a segment, or `bytes` bytes of it, has no place in the stream
  };
  Kind kind;
  uint32_t bytes = 0;                    // of kData: data.size()
  uint64_t offset = 0;                   // in the stream, gaps included
  std::span<const std::byte> data = {};  // valid during the call
};
std::string_view Name(StreamEvent::Kind kind);

// The place that a stream has reached. For Stream.
struct StreamPlace {
  uint64_t offset = 0;  // bytes before `next`, gaps included
  uint32_t next = 0;    // sequence number
  uint32_t first = 0;   // sequence number of the stream's first byte
  uint32_t end = 0;     // sequence number of the FIN, if there was one
  uint32_t flags = 0;   // a sum of Stream::Flag
  friend bool operator==(const StreamPlace&, const StreamPlace&) = default;
};
static_assert(sizeof(StreamPlace) == 24);

struct StreamSlots {
  Slot<StreamPlace> place;
  Blob held;  // its maximum is the bound
};

// The copy of a byte that wins.
enum class StreamOverlap : uint8_t { kFirst, kLast };

// Returns the packet's segment (TcpSegmentOf).
inline std::optional<TcpSegment> SegmentOf(const Packet& packet) {
  return TcpSegmentOf(packet.bytes(), packet.headers(),
                      packet.original_length());
}

// A stream of a flow during one call of the NF; made where it is used. Events
// come during the calls, in order. The callback must not use the same stream or
// its slots. Budget: ≤ 30 ns for a segment in order, without the callback;
// nothing is allocated.
class Stream {
 public:
  using OnEvent = absl::FunctionRef<void(const StreamEvent&)>;

  static constexpr size_t kMaxPieces = 32;

  Stream(FlowState& flow, const StreamSlots& slots,
         StreamOverlap overlap = StreamOverlap::kFirst)
      : flow_(flow),
        slots_(slots),
        overlap_(overlap),
        place_(flow.get(slots.place)) {}
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  // Takes the next segment of this direction.
  void Push(const TcpSegment& segment, OnEvent on_event);
  // Gives up gaps that the receiver says it does not have: it acknowledged the
  // bytes up to this sequence number, as a segment of the other direction says.
  // Has an effect only if bytes behind a gap are held, or a FIN came.
  void Acknowledge(uint32_t acknowledgement, OnEvent on_event);
  // Gives up all gaps, as when the flow ends.
  void Flush(OnEvent on_event);

  // The bytes of the stream up to now, gaps included.
  uint64_t offset() const { return place_.offset; }
  bool has_begun() const { return (place_.flags & kBegun) != 0; }
  // True after the end or a reset.
  bool is_over() const { return (place_.flags & (kEnded | kReset)) != 0; }
  // The bytes of state that are held out of order; at most the bound.
  size_t held_bytes() const { return flow_.get(slots_.held).size(); }

 private:
  enum Flag : uint32_t { kBegun = 1, kHasEnd = 2, kEnded = 4, kReset = 8 };

  // A part of the stream, by offsets. `data` may end before it does.
  struct Part {
    int64_t begin;
    int64_t end;
    std::span<const std::byte> data;
    int64_t data_end() const {
      return begin + static_cast<int64_t>(data.size());
    }
  };
  // A part that is held; its data lie in the blob behind a header at `at`.
  struct Piece {
    int64_t begin;
    int64_t end;
    uint32_t at;
    uint32_t data_bytes;
  };

  int64_t now() const { return static_cast<int64_t>(place_.offset); }
  int64_t OffsetOf(uint32_t sequence) const {
    return now() + static_cast<int32_t>(sequence - place_.next);
  }
  uint32_t SequenceOf(int64_t offset) const {
    return place_.next + static_cast<uint32_t>(offset - now());
  }
  int64_t End() const;

  void Take(const TcpSegment& segment, OnEvent on_event);
  bool TakeSyn(const TcpSegment& segment, OnEvent on_event);
  void TakeReset(const TcpSegment& segment, OnEvent on_event);
  void TakeFin(int64_t end, OnEvent on_event);
  void TakePart(const Part& part, OnEvent on_event);
  void GiveUp(int64_t limit, OnEvent on_event);
  void Begin(uint32_t first, StreamEvent::Kind kind, OnEvent on_event);

  void Load();
  Part Of(const Piece& piece) const;
  void Compare(const Part& part, OnEvent on_event);
  template <typename Visit>
  void ForEachHole(const Part& part, const Visit& visit) const;
  bool Fits(const Part& part) const;
  void Store(const Part& part);
  void Compact();

  void Deliver(const Part& part, OnEvent on_event);
  void Emit(const Part& part, int64_t end, OnEvent on_event);
  void Skip(int64_t to, OnEvent on_event);
  void Tell(StreamEvent::Kind kind, int64_t bytes, OnEvent on_event) const;
  void Advance(int64_t bytes);

  FlowState& flow_;
  const StreamSlots& slots_;
  const StreamOverlap overlap_;
  StreamPlace place_;
  // The pieces held, in the order of the stream, none of which overlap; valid
  // after Load.
  std::array<Piece, kMaxPieces> pieces_;
  size_t count_ = 0;
};

}  // namespace snf

#endif  // SNF_RUNTIME_SDK_STREAM_STREAM_H_
