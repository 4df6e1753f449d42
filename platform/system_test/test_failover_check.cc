// SPDX-License-Identifier: Apache-2.0
#include "platform/system_test/test_failover_check.h"

#include <algorithm>

namespace snf {
namespace {

std::string Of(FlowId flow, Clock clock) {
  return " (flow " + std::to_string(slot_of(flow)) + "." +
         std::to_string(generation_of(flow)) + ", clock " +
         std::to_string(value(clock)) + ")";
}

}  // namespace

void FailoverCheck::on_enqueue(const PacketMeta& meta, uint64_t packet) {
  Flow& flow = flows_[meta.flow];
  if (flow.has_ended) {
    Fail("U11: behind the flow's end" + Of(meta.flow, meta.clock));
  }
  auto& clocks = flow.clocks;
  if (value(meta.clock) > clocks.size()) {
    clocks.resize(value(meta.clock));
    clocks.back().packet = packet;
    return;
  }
  Flow::ClockStory& story = clocks[value(meta.clock) - 1];
  if (story.is_done) {
    Fail("I5: a clock that is done is lost" + Of(meta.flow, meta.clock));
  }
  if ((meta.flags & PacketMeta::kTombstone) != 0) story.is_lost = true;
}

void FailoverCheck::on_done(const LogEntryView& entry,
                            const FailoverNf::Did& did,
                            bool is_lost_with_logger) {
  const PacketMeta& meta = entry->meta;
  Flow& flow = flows_[meta.flow];
  const std::string of = Of(meta.flow, meta.clock);
  const bool is_tombstone = (meta.flags & PacketMeta::kTombstone) != 0;
  if (flow.has_ended) Fail("U11: behind the flow's end" + of);
  // The end of a flow has a clock of the unit's own.
  const bool is_end = (meta.flags & PacketMeta::kEnd) != 0;
  if (is_end && value(meta.clock) == flow.clocks.size() + 1) {
    flow.clocks.emplace_back();
  }
  if (value(meta.clock) > flow.clocks.size()) {
    return Fail("I1: a clock that nobody gave" + of);
  }
  Flow::ClockStory& story = flow.clocks[value(meta.clock) - 1];
  if (story.is_lost_with_logger) Fail("F8: again, after it was kept" + of);
  if (story.is_done) Fail("I1: done twice" + of);
  if (story.is_lost && !is_tombstone) Fail("I1: done after it was lost" + of);
  CheckOrder(flow, entry);
  uint64_t digest = 0;
  for (uint64_t clock = 0; clock + 1 < value(meta.clock); ++clock) {
    const uint64_t adds = flow.clocks[clock].adds;
    if (adds != 0) digest = FailoverNf::Extended(digest, adds);
  }
  const bool has_run = did.adds != 0 || did.has_ended;
  if (has_run && digest != did.seen) Fail("I2: ran on another state" + of);
  if (did.adds != 0 && did.adds != FailoverNf::kFired &&
      did.adds != story.packet) {
    Fail("I6: another packet" + of);
  }
  if (meta.has_payload() && did.adds != story.packet) {
    Fail("I6: the packet is not in the state" + of);
  }
  story.is_done = true;
  story.is_lost_with_logger = is_lost_with_logger;
  story.adds = did.adds;
  UsePieces(meta.flow, entry);
  if (!has_run) return;
  flow.alias = did.alias;
  flow.pieces = did.pieces;
  flow.is_armed = did.is_armed;
  flow.has_ended = did.has_ended;
  uint32_t held = 0;
  for (const auto& [piece, holder] : holders_) {
    if (holder == meta.flow) held |= 1u << piece;
  }
  if (held != flow.pieces) Fail("I8: has other pieces than it took" + of);
}

void FailoverCheck::CheckOrder(const Flow& flow, const LogEntryView& entry) {
  const PacketMeta& meta = entry->meta;
  for (uint64_t clock = 1; clock <= flow.clocks.size(); ++clock) {
    const bool is_done = flow.clocks[clock - 1].is_done;
    if (clock < value(meta.clock) && !is_done) {
      Fail("I3: overtook" + Of(meta.flow, meta.clock));
    } else if (clock > value(meta.clock) && is_done) {
      Fail("I3: out of order" + Of(meta.flow, meta.clock));
    }
  }
}

void FailoverCheck::UsePieces(FlowId flow, const LogEntryView& entry) {
  for (size_t i = 0; i < entry->pieces; ++i) {
    const PieceUse use = entry.piece(i);
    const auto holder = holders_.find(use.piece);
    const bool is_held = holder != holders_.end();
    const bool is_mine = is_held && holder->second == flow;
    if (use.gives == 0) {
      if (is_held) {
        Fail("I8: another flow has the piece" + Of(flow, entry->meta.clock));
      }
      holders_[use.piece] = flow;
    } else if (!is_mine) {
      Fail("I8: gave what it has not" + Of(flow, entry->meta.clock));
    } else {
      holders_.erase(holder);
    }
  }
}

bool FailoverCheck::IsAwaitingTimer() const {
  return std::ranges::any_of(flows_, [](const auto& flow) {
    return flow.second.is_armed && !flow.second.is_given_up;
  });
}

void FailoverCheck::CheckEnd() {
  for (const auto& [id, flow] : flows_) {
    if (flow.is_given_up) continue;
    for (size_t i = 0; i < flow.clocks.size(); ++i) {
      if (!flow.clocks[i].is_done) Fail("I7: not done" + Of(id, Clock{i + 1}));
    }
  }
}

}  // namespace snf
