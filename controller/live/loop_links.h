// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_CONTROLLER_LIVE_LOOP_LINKS_H_
#define SNF_CONTROLLER_LIVE_LOOP_LINKS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/messages/controller_commands.h"
#include "base/messages/unit_commands.h"
#include "base/time.h"
#include "controller/live/controller_links.h"
#include "controller/live/packets_under_way.h"
#include "runtime/ring/buffer_pool.h"
#include "runtime/ring/thread_link.h"
#include "runtime/tables/table_homes.h"
#include "runtime/wire/decoder.h"
#include "runtime/wire/state_relay.h"

namespace snf {

// The controller's ends of all links to loops of units and of their loggers,
// with a decoder for each loop's words, and the packets that are under way.
//
// If loops of units have memory of their own, a packet is copied there before
// its handle is sent, and back at its end; and messages between units about
// state are relayed. Loops that are not trusted with each other's packets are
// heard only about those that they were sent.
//
// Owner-thread only. Nothing is allocated for a packet.
class LoopLinks {
 public:
  // The tables outlive the object.
  LoopLinks(ControllerLinks ends, const ControllerLoopOptions& options,
            const TableHomes& tables);

  // --- The ends. ---

  size_t size() const { return ends_.loops.size(); }
  size_t loop_of(UnitId unit) const { return value(unit) % size(); }
  std::vector<ControllerLinks::UnitLoopEnds>& loops() { return ends_.loops; }
  const std::vector<ControllerLinks::UnitLoopEnds>& loops() const {
    return ends_.loops;
  }
  std::vector<ControllerLinks::LoggerLoopEnd>& loggers() {
    return ends_.loggers;
  }
  const std::vector<ControllerLinks::LoggerLoopEnd>& loggers() const {
    return ends_.loggers;
  }
  LinkOut& to(UnitId unit) { return *link_to_[value(unit)]; }
  LinkIn& in(size_t loop, bool of_logger) {
    return of_logger ? ends_.loggers[loop].in : ends_.loops[loop].in;
  }
  const WordsToController& words(size_t loop, bool of_logger) const {
    return of_logger ? logger_words_[loop] : words_[loop];
  }
  BufferPool& buffers() { return *ends_.buffers; }
  // By loop, if loops have memory of their own; else empty.
  std::vector<BufferPool>& copies() { return ends_.copies; }
  ControllerEpoch& controllers() { return *ends_.controllers; }
  const std::vector<Doorbell*>& bells() const { return bells_; }
  std::optional<StateRelay>& relay() { return relay_; }
  const std::optional<StateRelay>& relay() const { return relay_; }

  // --- Messages. ---

  void Receive(LinkIn& in) const {
    if (keeps_words_) {
      in.ReceiveKept();
    } else {
      in.Receive();
    }
  }
  // Takes a burst from each link.
  void ReceiveAll();
  // Receives all that a loop of units had sent, which has ended: calls
  // handle(), which returns how many messages it took, until nothing is left.
  template <typename Handle>
  void ReceiveFromDead(size_t loop, const Handle& handle) {
    LinkIn& in = ends_.loops[loop].in;
    // No more than a ring holds: another process that has mapped it may lie.
    const uint64_t most = in.received() + in.capacity();
    do {
      Receive(in);
    } while ((handle() > 0 || in.has_items()) && in.received() < most);
  }
  // Releases the words that were handled, if these stay in their rings until
  // then. While not `is_flushed`, only those of rings that are half full.
  void ReleaseHandled(bool is_flushed) {
    if (keeps_words_) ReleaseKept(is_flushed);
  }
  // Send what waits for it; return false if there is no room for some of it.
  bool Flush();
  bool FlushToLoggers();
  // Resumes links that were paused.
  void Resume();
  // Closes links whose ring has an invalid position at either end.
  void CloseBroken();
  // Opens the loggers' links, which another process has now.
  void ReopenLoggers();
  // A word of a unit, or of its logger if it has one, is false: closes its
  // link.
  void Refuse(UnitId unit, std::string_view kind, std::string_view field,
              uint64_t value);

  bool has_items();
  // Count messages at both ends, those of the relay included. If received is
  // read first and both are the same, no message is under way (LoopProgress).
  uint64_t received() const;
  uint64_t sent() const;
  // Returns when something is due in a loop of units; Instant::max() for never.
  Instant next_due() const;
  // Returns true if loggers have updates of tables that no home has merged.
  bool have_updates() const;
  // Returns true if updates of a process of units that has ended may be with
  // its loggers alone.
  bool have_undrained() const;
  // Returns true if nothing is under way to or from the loop of units, and no
  // packet lies in a buffer of its share.
  bool IsIdle(size_t loop);

  // --- Packets under way. ---

  bool knows_packets() const { return packets_.has_value(); }
  // Requires knows_packets().
  PacketsUnderWay& packets() { return *packets_; }
  // Returns the packet, with what the controller sent with it, if it is in a
  // unit of the loop; else null. Any handle will do.
  const PacketsUnderWay::Sent* FindIn(size_t loop, PacketHandle packet) const;
  // Forgets all packets.
  void ForgetPackets() { packets_.emplace(*ends_.buffers); }
  // A packet goes to a unit, and a word about a packet has come. Take returns
  // false if the unit does not have that packet. Both require knows_packets().
  void Give(const ControllerCommand& command);
  bool Take(size_t loop, const UnitCommand& command);
  // A buffer goes back to a loop of units, whose share it belongs to.
  void Disclaim(size_t loop, PacketHandle packet);

 private:
  void ReleaseKept(bool is_flushed);

  ControllerLinks ends_;
  bool recovers_;     // loops of units may end
  bool sends_whole_;  // or the controller may fail amid its messages
  bool keeps_words_;  // in their rings, for a loop that inherits
  bool logs_tables_;
  std::vector<WordsToController> words_;         // by loop
  std::vector<WordsToController> logger_words_;  // by loop, if there are any
  std::vector<LinkOut*> link_to_;                // by unit
  std::vector<Doorbell*> bells_;  // at which the controller waits
  std::optional<PacketsUnderWay> packets_;
  std::optional<StateRelay> relay_;
};

}  // namespace snf

#endif  // SNF_CONTROLLER_LIVE_LOOP_LINKS_H_
