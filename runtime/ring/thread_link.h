// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RUNTIME_RING_THREAD_LINK_H_
#define SNF_RUNTIME_RING_THREAD_LINK_H_

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "runtime/ring/doorbell.h"
#include "runtime/ring/shared_region.h"
#include "runtime/ring/spsc_ring.h"

namespace snf {

// Theory of operation. A link carries messages one way between two event loops,
// in order, over a ring of cells. A message is a command of a core, which is
// one cell, and its payload, if that kind of command has one, in as many cells
// as it takes.
//
// No thread ever waits for room: messages that do not fit into the ring stay
// with the sender, in order, until a later Flush. So no two threads can wait
// for each other. The sender bounds the messages that stay; a sender that can
// do without a message asks has_room() first.
//
// Where both ends belong to one thread they may be joined: then nothing goes
// through the ring, and a Receive takes all sent messages.
//
// The sender is not trusted. A cell is copied out of the ring before it is
// looked at; at an impossible message, or on the receiver's request, the link
// closes: no more messages are taken from it.
//
// Worked example: Send(kRelease), Send(kSendAlias, 72 bytes) and Flush put
// 1 + 1 + 2 cells into the ring; the receiver's two messages are handled in
// this order once all cells of each have come.
struct Cell {
  alignas(8) std::array<std::byte, 64> bytes;

  // Leaves the bytes as they are: most are about to be written.
  Cell() {}

  // The first byte of a cell that is no command: its payload is a message about
  // a shared table.
  static constexpr std::byte kTable{0xff};
  static Cell OfTable() {
    Cell cell;
    cell.bytes = {kTable};
    return cell;
  }
  bool is_table() const { return bytes[0] == kTable; }

  // Returns how many cells a payload takes.
  static constexpr size_t CountFor(size_t bytes) {
    return (bytes + sizeof(Cell) - 1) / sizeof(Cell);
  }
  // Returns the command in the cell. Trivially copyable commands live where
  // their bytes are (C++20 [intro.object]/10).
  template <typename Command>
  const Command& As() const {
    return *reinterpret_cast<const Command*>(bytes.data());
  }
};
static_assert(sizeof(Cell) == 64);

using CellRing = SpscRing<Cell>;

// Holds the ends of a new ring of cells, for a LinkOut and a LinkIn.
struct LinkRing {
  CellRing::Producer producer;
  CellRing::Consumer consumer;

  // Makes a ring of `cells`, a power of two, from the next piece of a region.
  // `receiver`, which may be null, is rung after a push.
  static LinkRing Make(RegionCarver& carver, uint32_t cells,
                       Doorbell* receiver);
  // Returns how much of a region Make takes.
  static size_t BytesFor(uint32_t cells) {
    return RegionCarver::RoundUp(CellRing::BytesFor(cells));
  }
};

// The sender's end. Owner-thread only.
class LinkOut {
 public:
  // Up to `reserve` cells may stay here without an allocation.
  LinkOut(CellRing::Producer ring, size_t reserve);

  // Returns the message, which may be changed until the next call.
  template <typename Command>
  Command& Send(const Command& command) {
    ++sent_;
    staged_.push_back(std::bit_cast<Cell>(command));
    return *reinterpret_cast<Command*>(staged_.back().bytes.data());
  }
  template <typename Command>
  void Send(const Command& command, std::span<const std::byte> payload) {
    Send(command);
    AppendPayload(payload);
  }
  // Sends a message that consists of these bytes.
  template <typename Head>
  void SendBytes(const Head& head, std::span<const std::byte> bytes) {
    static_assert(std::is_trivially_copyable_v<Head>);
    ++sent_;
    const size_t at = staged_.size();
    staged_.resize(at + Cell::CountFor(sizeof head + bytes.size()));
    std::byte* const to = staged_[at].bytes.data();
    std::memcpy(to, &head, sizeof head);
    if (!bytes.empty()) {
      std::memcpy(to + sizeof head, bytes.data(), bytes.size());
    }
  }
  // Returns true if the messages that stay here and one more with such a
  // payload would fit into the ring.
  bool has_room(size_t payload_bytes) {
    return joined_ ||
           staged_.size() + 1 + Cell::CountFor(payload_bytes) <= ring_.room();
  }
  // Puts messages into the ring while there is room; returns true if none
  // stays.
  bool Flush() { return staged_.empty() || joined_ || Push(staged_.size()); }

  // Does the same with whole messages only, so that the receiver never finds a
  // part of a message, even if the sender dies. `payload_bytes` as for
  // LinkIn::Handle. All flushes of a link must be of this kind.
  template <typename PayloadBytes>
  bool FlushWhole(const PayloadBytes& payload_bytes) {
    if (staged_.empty() || joined_) return true;
    const size_t room = ring_.room();
    if (room >= staged_.size()) [[likely]]
      return Push(staged_.size());
    size_t cells = 0;
    for (size_t next = 0; next <= room;) {
      cells = next;
      next += 1 + Cell::CountFor(payload_bytes(staged_[next]));
    }
    return Push(cells);
  }
  // The sender dies: of the messages that stay here, whole ones, all but the
  // first `kept` are taken out; calls cut(cell) with the first cell of each.
  template <typename PayloadBytes, typename CutOne>
  void Cut(const PayloadBytes& payload_bytes, size_t kept, const CutOne& cut) {
    size_t end = 0;
    for (size_t at = 0; at < staged_.size();) {
      const Cell& cell = staged_[at];
      at += 1 + Cell::CountFor(payload_bytes(cell));
      if (kept > 0) {
        --kept;
        end = at;
        continue;
      }
      cut(cell);
      --sent_;
    }
    staged_.resize(end);
  }
  // Counts the messages that stay here, whole ones.
  template <typename PayloadBytes>
  size_t CountStaged(const PayloadBytes& payload_bytes) const {
    size_t messages = 0;
    for (size_t at = 0; at < staged_.size(); ++messages) {
      at += 1 + Cell::CountFor(payload_bytes(staged_[at]));
    }
    return messages;
  }

  bool has_staged() const { return !staged_.empty(); }

  uint64_t sent() const { return sent_; }  // messages
  // Return the cells of all messages sent so far, and the cells that the
  // receiver has released. Not for a joined link.
  uint64_t cells() const { return ring_.pushed() + staged_.size(); }
  uint64_t released() { return ring_.released(); }
  // Returns the total sent: cells, or messages of a joined link, as
  // LinkIn::handled() counts. Continues the count of the previous sender.
  uint64_t sent_in_all() const { return joined_ ? sent_ : cells(); }
  // Call after the receiver has died: all messages that it has not taken are
  // dropped, and the ring is repaired.
  void SkipAll() {
    staged_.clear();
    ring_.SkipAll();
  }
  void Restore() { ring_.Restore(); }
  // Counts the positions of the receiver that cannot be.
  uint64_t faults() const { return ring_.faults(); }

 private:
  friend class LinkIn;
  void AppendPayload(std::span<const std::byte> payload);
  bool Push(size_t cells);

  CellRing::Producer ring_;
  std::vector<Cell> staged_;
  uint64_t sent_ = 0;
  bool joined_ = false;
};

// The receiver's end. Owner-thread only.
class LinkIn {
 public:
  static constexpr size_t kNoMessage = ~size_t{0};
  // Added to the length of a payload: the message is skipped, and the next one
  // handled.
  static constexpr size_t kPassOver = size_t{1} << 32;

  // No payload may be longer than `max_payload_bytes`.
  LinkIn(CellRing::Consumer ring, size_t max_payload_bytes);

  // Joins this end to the other one, which must belong to the same thread and
  // keep its address. Call once, before anything is sent.
  void Join(LinkOut& out);
  // Takes a burst out of the ring, or everything from a joined end; a call of
  // Handle must follow.
  void Receive();
  // Does the same, but keeps it in the ring, which must have room for the
  // longest message, until Release. Not of a joined link.
  void ReceiveKept();
  // Gives the cells of handled messages back to the sender, and nudges it,
  // which learns by this that they are handled. Messages that wait after a
  // Pause stay.
  void Release(Doorbell& sender);
  // The same, for a sender that does not wait for it.
  void Release();
  // Calls handle(cell, payload) for each message that is here, in order, and
  // returns how many there were. payload_bytes(cell) says how long the payload
  // of a message is, which is valid during the call. A payload that is too long
  // closes the link, as does kNoMessage, which says that this is no message.
  template <typename PayloadBytes, typename HandleOne>
  size_t Handle(const PayloadBytes& payload_bytes, const HandleOne& handle) {
    size_t messages = 0;
    while (begin_ < end_) {
      const Cell& first = cells_[begin_];
      size_t bytes = payload_bytes(first);
      bool is_handled = true;
      if (bytes > max_payload_bytes_) [[unlikely]] {
        if (bytes - kPassOver > max_payload_bytes_) {
          Close();
          break;
        }
        bytes -= kPassOver;
        is_handled = false;
      }
      const size_t cells = 1 + Cell::CountFor(bytes);
      if (end_ - begin_ < cells) break;
      const auto* payload = reinterpret_cast<const std::byte*>(&first + 1);
      begin_ += cells;
      if (is_handled) [[likely]]
        handle(first, std::span(payload, bytes));
      ++messages;
    }
    received_ += messages;
    return messages;
  }
  // Takes no message any more. handle() may call it.
  void Close() {
    if (!is_closed_) closed_at_ = handled();
    is_closed_ = true;
    begin_ = end_ = paused_end_ = 0;
  }
  bool is_closed() const { return is_closed_; }
  // Makes the following messages wait until GoOn; Receive must not be called
  // until then. handle() may call this.
  void Pause() {
    paused_end_ = end_;
    end_ = begin_;
  }
  void GoOn() {
    if (!is_closed_ && paused_end_ > end_) end_ = paused_end_;
    paused_end_ = 0;
  }
  bool has_items() {
    if (is_closed_) return false;
    return joined_ != nullptr ? !joined_->staged_.empty() : ring_.has_items();
  }
  uint32_t capacity() const { return ring_.capacity(); }  // cells
  // Counts the positions of the sender that cannot be.
  uint64_t faults() const { return ring_.faults(); }

  uint64_t taken() const { return ring_.read(); }  // cells, also unhandled
  bool is_half_full() const {
    return ring_.read() - ring_.released() > ring_.capacity() / 2;
  }
  uint64_t received() const { return received_; }  // messages handled
  // Counts them as LinkOut::sent_in_all() does.
  uint64_t handled() const {
    const size_t end = std::max(end_, paused_end_);
    return joined_ != nullptr ? received_ : ring_.read() - (end - begin_);
  }
  // The receiver before this one was done with all cells in front of
  // `position`, and may not have given them back. Call it before anything is
  // received. Returns false if that cannot be.
  bool SkipTo(uint64_t position) {
    return position < ring_.released() || ring_.SkipTo(position);
  }
  // Call after the sender has died: published messages that are not handled are
  // dropped, a closed link is open again, and the ring is repaired.
  void SkipAll() {
    is_closed_ = false;
    begin_ = end_ = paused_end_ = 0;
    ring_.SkipAll();
  }
  // Does the same, but drops nothing if the link was not closed. If it was
  // closed, drops the messages from the point where it closed; the next sender
  // continues there. Not for a joined link.
  void Reopen() {
    if (!std::exchange(is_closed_, false)) return ring_.Restore();
    ring_.SkipFrom(closed_at_);
  }

 private:
  static constexpr size_t kBurst = 64;

  void ReceiveJoined();
  // Returns where the cells of the next burst go.
  std::span<Cell> Room();

  CellRing::Consumer ring_;
  size_t max_payload_bytes_;
  bool is_closed_ = false;
  uint64_t closed_at_ = 0;  // as handled() counts
  LinkOut* joined_ = nullptr;
  std::vector<Cell> cells_;
  size_t begin_ = 0;  // first cell that is not handled
  size_t end_ = 0;
  size_t paused_end_ = 0;  // end of the cells that were here at Pause
  uint64_t received_ = 0;
};

}  // namespace snf

#endif  // SNF_RUNTIME_RING_THREAD_LINK_H_
