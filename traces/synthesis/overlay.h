// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_TRACES_SYNTHESIS_OVERLAY_H_
#define SNF_TRACES_SYNTHESIS_OVERLAY_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "base/rng.h"
#include "base/time.h"
#include "traces/synthesis/conversations.h"

namespace snf {

// Conversations laid over each other, each at its own pace, until they add up
// to a rate: a schedule of packets for a window of time, in the order of time.
//
// Theory of operation. Copies of conversation i begin as a Poisson process of
// rate λ·w_i from long before the window to its end, so the traffic has the
// same statistics at every moment of it. The copies that began before are not
// drawn one by one, for one may have gaps of years: a copy is seen in a window
// of length W if one of its packets lies in it. Let a gap g of the conversation
// lie across time 0, and the packet after it come at r ≥ 0: there are as many
// places for that as r has values below min(g, W). So copies that are under way
// in gap g number λ·w_i·min(g, W) on average, with r uniform; copies that begin
// within the window number λ·w_i·W. Both are drawn exactly, and memory is
// needed only for the copies that are alive at a time. Example: packets at 0,
// 10 ms and 20 s, W = 1 s, one copy begins a second. In the window 0.01 copies
// are expected in their first gap, 1 in their second, which send their last
// packet within the window, and 1 begins: 3 packets a second, as three packets
// and one copy a second make.
//
// With a `period` P the conversations come from a window of length P ≥ W, whose
// ends cut them already, and they must not be cut again: each lies on a circle
// of length P, at any place of it with the same probability. Its last gap, from
// its last packet around to its first, is P less its span.
//
// A few conversations may carry most of the bytes, and chance should not decide
// how often these are taken. So the next conversation is chosen by multiples of
// the golden ratio, which take each about as often as it should be at any time;
// and of those under way there is one in each stretch of gaps that expects one.
// Then λ, which is right on average, is corrected a few times by the rule of
// three.
//
// Deterministic by the seed, on every machine. Owner-thread only. Costs some
// 200 ns a packet.
class Overlay {
 public:
  // Every n-th copy sends a burst in addition, behind one of its packets that
  // lie in the window (SNF §9.3).
  struct Bursts {
    uint32_t every = 0;  // 0: none
    uint32_t packets = 20;
    uint32_t packet_bytes = 1'400;
    Nanos gap = {1'120};  // 10 Gbit/s
  };
  struct Options {
    int64_t rate_bps = 1'000'000'000;  // above 0
    Nanos duration = Seconds(1);       // above 0, and not above the period
    uint64_t seed = 1;
    Nanos period = Nanos::max();
    std::vector<double> weights = {};  // by conversation; empty: all the same
    Bursts bursts = {};
  };
  // The value of Packet::conversation for a packet of a burst.
  static constexpr uint32_t kBurst = std::numeric_limits<uint32_t>::max();

  struct Packet {
    Nanos time;         // since the window began
    uint64_t copy = 0;  // numbered from 0, those under way first
    // A number of the copy below copies_at_most(), which is used again after
    // the copy's last packet.
    uint32_t slot = 0;
    uint32_t conversation = 0;
    uint32_t number = 0;    // of the packet in its conversation
    bool is_first = false;  // the first that the window shows of the copy
    bool is_last = false;   // the last of the copy in the window
    // The window does not show how the copy began.
    bool is_under_way = false;
    bool is_end = false;  // it is_last, and also the last of its conversation
  };

  // Lays `conversations`, at least one, which must stay unchanged as long as
  // this object. Finds the λ that gives the rate, which costs some passes.
  Overlay(const Conversations& conversations, Options options);

  // Gives the next packet. Returns false at the end.
  bool Next(Packet& packet);

  // Totals of all packets that Next() will return, except for a burst that is
  // cut by the window's end.
  uint64_t total_bytes() const { return total_.bytes; }
  uint64_t total_copies() const { return total_.copies; }
  uint64_t total_under_way() const { return total_.under_way; }
  // The number of slots in use so far.
  uint32_t copies_at_most() const {
    return static_cast<uint32_t>(alive_.size());
  }

 private:
  // The next packet of a copy or of its burst.
  struct Pending {
    int64_t time;
    int64_t start;  // of the copy's packet 0, or of the burst
    uint64_t copy;
    uint32_t conversation;
    uint32_t number;
    uint32_t slot;
    uint32_t burst_of;  // conversation to which the burst belongs; kBurst: not
                        // a burst
    bool is_first;
    bool is_under_way;
  };
  struct Totals {
    uint64_t bytes = 0;
    uint64_t copies = 0;
    uint64_t under_way = 0;
  };
  // The part of a copy that lies in the window.
  struct Visible {
    uint64_t packets;
    uint64_t bytes;
  };
  struct Arrivals {
    Rng rng;
    double position = 0;  // of the last one drawn, in expected arrivals
    uint64_t mark = 0;    // its conversation, as a fraction of 2^64
  };

  void Calibrate();
  Totals Measure() const;
  template <typename Take>
  void DrawUnderWay(const Take& take) const;
  bool DrawArrival(Arrivals& arrivals, uint32_t& conversation,
                   int64_t& time) const;
  double WeightOf(size_t i) const;
  int64_t LastGapOf(size_t i) const;
  Visible VisibleOf(size_t i, size_t number, int64_t time) const;
  bool HasBurst(uint64_t copy) const;

  void Begin(uint32_t conversation, uint32_t number, int64_t time);
  bool Advance(Pending& next) const;
  static bool ComesAfter(const Pending& a, const Pending& b);
  void Push(const Pending& pending);

  const Conversations& conversations_;
  Options options_;
  std::vector<uint32_t> order_;        // of conversations: any
  std::vector<double> weight_before_;  // sums in this order, and in all
  double lambda_ = 0;  // copies a nanosecond of a conversation of weight 1
  Totals total_;

  std::vector<Pending> heap_;   // the earliest first
  std::vector<uint8_t> alive_;  // by slot: entries in the heap
  std::vector<uint32_t> free_slots_;
  uint64_t copies_ = 0;
  Arrivals arrivals_;
  bool has_arrival_ = false;
  uint32_t arrival_conversation_ = 0;
  int64_t arrival_time_ = 0;
};

}  // namespace snf

#endif  // SNF_TRACES_SYNTHESIS_OVERLAY_H_
