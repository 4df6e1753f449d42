// SPDX-License-Identifier: Apache-2.0
#include "platform/virtual_time/virtual_logger.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <utility>

#include "base/check.h"
#include "runtime/logger/delta.h"

namespace snf {
namespace {

PacketMeta MetaOf(FlowId flow, Clock clock) {
  PacketMeta meta;
  meta.flow = flow;
  meta.clock = clock;
  return meta;
}

}  // namespace

bool VirtualLogger::IsPart(UnitCommand::Kind kind) {
  using Kind = UnitCommand::Kind;
  switch (kind) {
    case Kind::kRelease:
    case Kind::kNfDrop:
    case Kind::kDrop:
    case Kind::kConsume:
    case Kind::kAdvance:
    case Kind::kEmit:
    case Kind::kSendNote:
    case Kind::kGivePieces:
      return true;
    default:
      return false;
  }
}

void VirtualLogger::Seal(const PacketMeta& meta, const Unit::Change& change) {
  Entry entry = {.meta = meta,
                 .is_whole = change.is_whole,
                 .link = change.link,
                 .timer = change.timer,
                 .change = {change.bytes.begin(), change.bytes.end()}};
  if (const auto open = open_.find(meta.flow); open != open_.end()) {
    entry.commands = std::move(open->second);
    open_.erase(open);
  }
  entries_.push_back(std::move(entry));
}

void VirtualLogger::SendAck(const UnitCommand& ack) {
  entries_.push_back(
      {.kind = Entry::Kind::kTakeoverAck,
       .meta = MetaOf(ack.takeover_ack.flow, ack.takeover_ack.clock),
       .commands = {ack}});
}

void VirtualLogger::SendEnd(const EndFlow& end) {
  entries_.push_back(
      {.kind = Entry::Kind::kEnd, .meta = MetaOf(end.flow, end.last)});
}

VirtualLogger::Entry VirtualLogger::Take(std::string& wrong) {
  SNF_CHECK(!entries_.empty());
  Entry entry = std::move(entries_.front());
  entries_.pop_front();
  const FlowId flow = entry.meta.flow;
  switch (entry.kind) {
    case Entry::Kind::kEntry:
      wrong = Apply(entry);
      break;
    case Entry::Kind::kTakeoverAck:
      if (const auto copy = copies_.find(flow);
          copy != copies_.end() && copy->second.applied < entry.meta.clock) {
        copies_.erase(copy);
      }
      break;
    case Entry::Kind::kEnd:
      over_[flow] = entry.meta.clock;
      break;
  }
  ForgetIfOver(flow);
  return entry;
}

std::string VirtualLogger::Apply(const Entry& entry) {
  Copy* copy = nullptr;
  if (entry.is_whole) {
    copy = &copies_[entry.meta.flow];
    copy->record.assign(schema_->record_bytes(), std::byte{0});
    std::ranges::copy(entry.change, copy->record.begin());
  } else {
    const auto found = copies_.find(entry.meta.flow);
    if (found == copies_.end()) return "was logged without a whole delta";
    copy = &found->second;
    if (copy->applied + 1 != entry.meta.clock) {
      return fmt::format("was logged as a delta to clock {}",
                         value(copy->applied));
    }
    if (!ApplyDelta(*schema_, entry.change, copy->record)) {
      return "was logged with a delta that does not fit";
    }
  }
  copy->applied = entry.meta.clock;
  copy->link = entry.link;
  copy->timer = entry.timer;
  return {};
}

void VirtualLogger::ForgetIfOver(FlowId flow) {
  const auto over = over_.find(flow);
  if (over == over_.end()) return;
  const auto copy = copies_.find(flow);
  if (copy == copies_.end() || copy->second.applied < over->second) return;
  copies_.erase(copy);
  over_.erase(over);
}

void VirtualLogger::Compare(
    const Unit& unit,
    absl::FunctionRef<void(const PacketMeta&, const std::string&)> differs)
    const {
  for (const auto& [flow, copy] : copies_) {
    const PacketMeta meta = MetaOf(flow, copy.applied);
    const Clock applied = unit.applied(flow);
    if (applied != copy.applied) {
      differs(meta, fmt::format("is kept by the logger; its unit has clock {}",
                                value(applied)));
    } else if (!std::ranges::equal(copy.record, unit.state_bytes(flow))) {
      differs(meta, "left another record at the logger than at its unit");
    }
  }
}

}  // namespace snf
