// SPDX-License-Identifier: Apache-2.0
#include "platform/drivers/real_time/paced_intake.h"

#include <utility>

namespace snf {

PacedIntake::PacedIntake(const RunOptions& options, const RealOptions& real,
                         Nanos patience, const Run& run)
    : run_(run),
      waits_for_room_(real.wait_for_room),
      patience_(patience),
      pace_(real.speed) {
  const auto most = [&options](uint32_t of_size) {
    return std::max(std::min({options.controller.unit_queue_packets,
                              options.controller.start_buffer_packets,
                              options.hold_packets, of_size}),
                    1u);
  };
  most_under_way_ = {most(real.buffers.small), most(real.buffers.medium),
                     most(real.buffers.large)};
}

void PacedIntake::Offer(const CapturedPacket& captured) {
  ControllerLoop& loop = run_.loop;
  RunResult& result = run_.result;
  if (captured.time < last_captured_) ++result.late_packets;
  if (run_.parts.unit_faults != nullptr) run_.parts.unit_faults->on_arrival();
  if (run_.parts.controller_faults != nullptr) {
    run_.parts.controller_faults->on_arrival();
  }
  last_captured_ = std::max(last_captured_, captured.time);
  Instant arrival = loop.now();
  if (pace_.has_schedule()) {
    arrival = pace_.Due(captured.time, captured.original_bytes);
    if (arrival > loop.now()) loop.ReadClock();
    if (arrival > loop.now()) WaitUntil(arrival);
    if (arrival > loop.now()) arrival = loop.now();  // interrupted
    result.real.schedule_error_ns.Record((loop.now() - arrival).ns);
  }
  Come(arrival, captured);
  TakeKept(arrival);
}

void PacedIntake::TakeKept(Instant until) {
  while (const CapturedPacket* const kept = run_.ingress.NextKept(until)) {
    Come(std::min(until, run_.loop.now()), *kept);
  }
}

void PacedIntake::Come(Instant arrival, const CapturedPacket& captured) {
  ControllerLoop& loop = run_.loop;
  RunResult& result = run_.result;
  if (waits_for_room_) {
    WaitForRoom(captured);
    if (!pace_.has_schedule()) arrival = loop.now();
  }
  ++result.packets_in;
  result.bytes_in += captured.original_bytes;
  result.last_packet = arrival;
  if (run_.failure.has_failed()) [[unlikely]] {
    run_.egress.Drop(loop.now(), captured, run_.failure.WhyDropped());
    return;
  }
  Take(arrival, captured);
  const bool is_full = loop.batch_size() >= ControllerLoop::kBatch;
  if (!is_full && loop.is_led()) return;
  loop.HandleBatch(run_.egress);
  run_.turns.Turn();
}

void PacedIntake::WaitUntil(Instant due) {
  ControllerLoop& loop = run_.loop;
  loop.HandleBatch(run_.egress);
  while (true) {
    const bool did = run_.turns.Turn();
    const Nanos left = due - loop.now();
    if (left.ns <= 0 || run_.failure.is_interrupted()) return;
    // A signal does not end the wait, so it is cut into short ones.
    if (!did) loop.IdleWait(std::min(left, run_.turns.LongestWait()));
  }
}

void PacedIntake::WaitForRoom(const CapturedPacket& captured) {
  ControllerLoop& loop = run_.loop;
  const auto& sizes = BufferPool::kBufferBytes;
  const size_t length = captured.bytes.size();
  const size_t buffer = length <= sizes[0] ? 0 : length <= sizes[1] ? 1 : 2;
  // Packets that survive a unit have no place until recovery gives them one.
  const auto is_full = [&] {
    return controller().is_recovering() ||
           loop.in_channels() + loop.batch_size() >= most_under_way_[buffer];
  };
  if (!is_full()) return;
  loop.HandleBatch(run_.egress);
  const Instant begin = run_.clock.Now();
  while (is_full() && loop.now() - begin < patience_ &&
         !run_.failure.is_interrupted()) {
    if (!run_.turns.Turn()) loop.IdleWait(Nanos{});
  }
}

void PacedIntake::Take(Instant arrival, const CapturedPacket& captured) {
  using Fate = Ingress::Taken::Fate;
  ControllerLoop& loop = run_.loop;
  RealFaults* const faults = run_.parts.unit_faults;
  // TakeAgain changes the referenced value.
  const Ingress::Taken& taken = run_.ingress.Take(arrival, captured);
  if (taken.fate == Fate::kKept) [[unlikely]] {  // it comes later
    --run_.result.packets_in;
    run_.result.bytes_in -= captured.original_bytes;
    return;
  }
  if (taken.fate == Fate::kPassesThrough) {
    run_.egress.PassThrough(loop.now(), captured);
    return;
  }
  if (taken.fate == Fate::kDropped && waits_for_room_ && WaitForCause(taken)) {
    // A unit may have failed meanwhile, and its packets fill another one.
    WaitForRoom(captured);
    run_.ingress.TakeAgain(arrival, captured);
  }
  run_.egress.on_offered(loop.now(), captured.original_bytes);
  if (taken.fate == Fate::kPacket && faults != nullptr &&
      faults->has_blocked() &&
      faults->IsBlocked(taken.flow != nullptr ? *taken.flow : *taken.key))
      [[unlikely]] {
    run_.egress.on_drop(loop.now(), taken.packet, DropReason::kNfFailed);
    return;
  }
  if (taken.fate == Fate::kDropped) {
    run_.egress.Drop(loop.now(), captured, taken.reason);
    return;
  }
  loop.Arrive(*taken.key, arrival, captured.original_bytes, taken.packet,
              taken.by_alias);
}

// A packet was dropped for what packets under way may change: for want of a
// buffer, or of an alias that its flow may be about to get. Waits until they
// are through; returns false if there are none.
bool PacedIntake::WaitForCause(const Ingress::Taken& taken) {
  ControllerLoop& loop = run_.loop;
  const bool wants_alias = taken.reason == DropReason::kNotTranslated;
  if (!wants_alias && taken.reason != DropReason::kBufferPoolEmpty)
    return false;
  loop.HandleBatch(run_.egress);
  // A successor knows flows again once it leads.
  while (!loop.is_led() && !run_.failure.is_interrupted()) run_.turns.Turn();
  uint32_t slot = FlowTable::kNone;
  if (wants_alias) {
    const FlowTable& flows = controller().flows();
    slot = flows.Find(*taken.flow, flows.HashOf(*taken.flow));
    if (slot == FlowTable::kNone) return false;
  }
  const auto under_way = [&] {
    const uint64_t survive = controller().is_recovering() ? 1 : 0;
    return survive + (wants_alias ? loop.under_way(slot) : loop.in_channels());
  };
  uint64_t left = under_way();
  if (left == 0) return false;
  Instant last_move = run_.clock.Now();  // the loop's time may be long ago
  while (left > 0 && loop.now() - last_move < patience_ &&
         !run_.failure.is_interrupted()) {
    if (!run_.turns.Turn()) loop.IdleWait(Nanos{});
    const uint64_t before = std::exchange(left, under_way());
    if (left != before) last_move = loop.now();
  }
  return true;
}

}  // namespace snf
