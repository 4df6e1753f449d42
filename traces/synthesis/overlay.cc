// SPDX-License-Identifier: Apache-2.0
#include "traces/synthesis/overlay.h"

#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>

#include "base/check.h"

namespace snf {
namespace {

constexpr uint64_t kArrivalStream = 1;
constexpr uint64_t kUnderWayStream = 2;
constexpr uint64_t kBurstStream = 3;
constexpr uint64_t kOrderStream = 4;

// 2^64 divided by the golden ratio: multiples of it, modulo 2^64, lie as evenly
// as can be, however many there are.
constexpr uint64_t kGoldenStep = 0x9e37'79b9'7f4a'7c15;

constexpr int kMostCorrections = 16;
constexpr double kCloseEnough = 0.001;

// Draws from the exponential distribution with mean 1.
double Exponential(Rng& rng) {
  constexpr double kUnit = 1.0 / 4'294'967'296.0;
  return static_cast<double>(NegativeLog(rng.Next())) * kUnit;
}

// In [0, 1).
double Fraction(uint64_t bits) {
  constexpr double kUnit = 1.0 / 9'007'199'254'740'992.0;
  return static_cast<double>(bits >> 11) * kUnit;
}

}  // namespace

Overlay::Overlay(const Conversations& conversations, Options options)
    : conversations_(conversations),
      options_(std::move(options)),
      arrivals_{Rng(options_.seed).Fork(kArrivalStream)} {
  SNF_CHECK(conversations_.size() > 0 && options_.rate_bps > 0);
  SNF_CHECK(options_.duration > Nanos{} &&
            options_.duration <= options_.period);
  SNF_CHECK(options_.weights.empty() ||
            options_.weights.size() == conversations_.size());
  for (size_t i = 0; i < conversations_.size(); ++i) {
    order_.push_back(static_cast<uint32_t>(i));
  }
  Rng(options_.seed).Fork(kOrderStream).Shuffle(std::span(order_));
  weight_before_ = {0};
  for (const uint32_t i : order_) {
    weight_before_.push_back(weight_before_.back() + WeightOf(i));
  }
  arrivals_.mark = arrivals_.rng.Next();
  Calibrate();
  DrawUnderWay([this](uint32_t conversation, uint32_t number, int64_t time) {
    Begin(conversation, number, time);
  });
  has_arrival_ = DrawArrival(arrivals_, arrival_conversation_, arrival_time_);
}

double Overlay::WeightOf(size_t i) const {
  return options_.weights.empty() ? 1.0 : options_.weights[i];
}

int64_t Overlay::LastGapOf(size_t i) const {
  return std::min(options_.duration.ns,
                  options_.period.ns - conversations_.SpanOf(i));
}

void Overlay::Calibrate() {
  double bytes = 0;  // of a copy, in expectation
  for (size_t i = 0; i < conversations_.size(); ++i) {
    bytes += WeightOf(i) * static_cast<double>(conversations_.BytesOf(i));
  }
  const double bytes_per_ns = static_cast<double>(options_.rate_bps) / 8e9;
  const double target =
      bytes_per_ns * static_cast<double>(options_.duration.ns);
  lambda_ = bytes_per_ns / bytes;
  double best = lambda_;
  double best_miss = std::numeric_limits<double>::infinity();
  for (int i = 0; i < kMostCorrections && best_miss > kCloseEnough; ++i) {
    const Totals drawn = Measure();
    const auto drawn_bytes = static_cast<double>(drawn.bytes);
    const double miss = std::abs(drawn_bytes / target - 1);
    if (miss < best_miss) {
      best = lambda_;
      best_miss = miss;
      total_ = drawn;
    }
    // Nothing drawn tells nothing of the rate, but that it is low.
    lambda_ *= drawn.bytes == 0 ? 2 : target / drawn_bytes;
  }
  lambda_ = best;
}

Overlay::Totals Overlay::Measure() const {
  Totals drawn;
  const auto take = [&](uint32_t conversation, uint32_t number, int64_t time) {
    drawn.bytes += VisibleOf(conversation, number, time).bytes;
    if (HasBurst(drawn.copies)) {
      drawn.bytes +=
          uint64_t{options_.bursts.packets} * options_.bursts.packet_bytes;
    }
    ++drawn.copies;
  };
  DrawUnderWay(take);
  drawn.under_way = drawn.copies;
  Arrivals arrivals = arrivals_;
  uint32_t conversation = 0;
  int64_t time = 0;
  while (DrawArrival(arrivals, conversation, time)) take(conversation, 0, time);
  return drawn;
}

// All gaps in a row, each as wide as copies under way in it are to be expected,
// make a line. A point in each unit of it finds a copy, and where it hits a gap
// says when the packet after the gap comes.
template <typename Take>
void Overlay::DrawUnderWay(const Take& take) const {
  Rng rng = Rng(options_.seed).Fork(kUnderWayStream);
  double unit = 0;
  double hit = Fraction(rng.Next());
  double begin = 0;
  for (const uint32_t i : order_) {
    const double per_ns = WeightOf(i) * lambda_;
    const std::span<const int64_t> offsets = conversations_.OffsetsOf(i);
    for (size_t k = 1; k < offsets.size(); ++k) {
      const int64_t gap =
          std::min(offsets[k] - offsets[k - 1], options_.duration.ns);
      const double end = begin + per_ns * static_cast<double>(gap);
      while (hit < end) {
        const auto time = static_cast<int64_t>((hit - begin) / per_ns);
        take(i, static_cast<uint32_t>(k),
             std::clamp(time, int64_t{0}, gap - 1));
        unit += 1;
        hit = unit + Fraction(rng.Next());
      }
      begin = end;
    }
  }
}

bool Overlay::DrawArrival(Arrivals& arrivals, uint32_t& conversation,
                          int64_t& time) const {
  const double weights = weight_before_.back();
  for (;;) {
    arrivals.position += Exponential(arrivals.rng);
    arrivals.mark += kGoldenStep;
    const double at = arrivals.position / (lambda_ * weights);
    if (at >= static_cast<double>(options_.duration.ns)) return false;
    time = static_cast<int64_t>(at);
    const auto above =
        std::upper_bound(weight_before_.begin() + 1, weight_before_.end() - 1,
                         Fraction(arrivals.mark) * weights);
    conversation =
        order_[static_cast<size_t>(above - weight_before_.begin()) - 1];
    // On a circle: later places lie in another gap.
    if (time < LastGapOf(conversation)) return true;
  }
}

Overlay::Visible Overlay::VisibleOf(size_t i, size_t number,
                                    int64_t time) const {
  const std::span<const int64_t> offsets = conversations_.OffsetsOf(i);
  const int64_t left = options_.duration.ns - time;
  const auto count_below = [&offsets](int64_t offset) {
    return static_cast<size_t>(
        std::lower_bound(offsets.begin(), offsets.end(), offset) -
        offsets.begin());
  };
  // Nothing overflows: `left` may be as far as a window, an offset is a span.
  const Instant end = Instant{offsets[number]} + Nanos{left};
  const size_t until = count_below(end.ns);
  Visible visible = {.packets = until - number,
                     .bytes = conversations_.BytesBetween(i, number, until)};
  if (until == offsets.size() && options_.period < Nanos::max()) {
    const size_t around = count_below(end.ns - options_.period.ns);
    visible.packets += around;
    visible.bytes += conversations_.BytesBetween(i, 0, around);
  }
  return visible;
}

bool Overlay::HasBurst(uint64_t copy) const {
  return options_.bursts.every != 0 && (copy + 1) % options_.bursts.every == 0;
}

void Overlay::Begin(uint32_t conversation, uint32_t number, int64_t time) {
  uint32_t slot = 0;
  if (free_slots_.empty()) {
    slot = static_cast<uint32_t>(alive_.size());
    alive_.push_back(0);
  } else {
    slot = free_slots_.back();
    free_slots_.pop_back();
  }
  const std::span<const int64_t> offsets =
      conversations_.OffsetsOf(conversation);
  const Pending first = {.time = time,
                         .start = time - offsets[number],
                         .copy = copies_++,
                         .conversation = conversation,
                         .number = number,
                         .slot = slot,
                         .burst_of = kBurst,
                         .is_first = true,
                         .is_under_way = number > 0};
  Push(first);
  if (!HasBurst(first.copy)) return;
  Rng rng = Rng(options_.seed).Fork(kBurstStream).Fork(first.copy);
  const uint64_t packets = VisibleOf(conversation, number, time).packets;
  uint64_t behind = number + rng.Below(packets);
  int64_t start = first.start;
  if (behind >= offsets.size()) {
    behind -= offsets.size();
    start += options_.period.ns;
  }
  start = std::min(
      start + offsets[behind] + 1,
      options_.duration.ns - options_.bursts.gap.ns * options_.bursts.packets);
  start = std::max(start, time + 1);
  if (start >= options_.duration.ns) return;
  Push({.time = start,
        .start = start,
        .copy = first.copy,
        .conversation = kBurst,
        .number = 0,
        .slot = slot,
        .burst_of = conversation,
        .is_first = false,
        .is_under_way = true});
}

bool Overlay::ComesAfter(const Pending& a, const Pending& b) {
  return std::tie(a.time, a.copy, a.conversation) >
         std::tie(b.time, b.copy, b.conversation);
}

void Overlay::Push(const Pending& pending) {
  ++alive_[pending.slot];
  heap_.push_back(pending);
  std::push_heap(heap_.begin(), heap_.end(), ComesAfter);
}

// Moves on to the packet after `next`; false when there is none in the window.
bool Overlay::Advance(Pending& next) const {
  next.is_first = false;
  ++next.number;
  if (next.conversation == kBurst) {
    next.time += options_.bursts.gap.ns;
    return next.number < options_.bursts.packets &&
           next.time < options_.duration.ns;
  }
  const std::span<const int64_t> offsets =
      conversations_.OffsetsOf(next.conversation);
  if (next.number == offsets.size()) {
    if (options_.period == Nanos::max()) return false;
    next.number = 0;
    next.start += options_.period.ns;
    next.is_under_way = true;
  }
  next.time = next.start + offsets[next.number];
  return next.time < options_.duration.ns;
}

bool Overlay::Next(Packet& packet) {
  while (has_arrival_ &&
         (heap_.empty() || arrival_time_ <= heap_.front().time)) {
    Begin(arrival_conversation_, 0, arrival_time_);
    has_arrival_ = DrawArrival(arrivals_, arrival_conversation_, arrival_time_);
  }
  if (heap_.empty()) return false;
  std::pop_heap(heap_.begin(), heap_.end(), ComesAfter);
  Pending& next = heap_.back();
  packet = {.time = {next.time},
            .copy = next.copy,
            .slot = next.slot,
            .conversation = next.conversation,
            .number = next.number,
            .is_first = next.is_first,
            .is_under_way = next.is_under_way};
  const bool was_last_of_conversation =
      next.conversation != kBurst &&
      next.number + 1 == conversations_.CountOf(next.conversation);
  if (Advance(next)) {
    std::push_heap(heap_.begin(), heap_.end(), ComesAfter);
    return true;
  }
  packet.is_last = --alive_[packet.slot] == 0;
  packet.is_end = packet.is_last && was_last_of_conversation;
  if (packet.is_last) free_slots_.push_back(packet.slot);
  heap_.pop_back();
  return true;
}

}  // namespace snf
