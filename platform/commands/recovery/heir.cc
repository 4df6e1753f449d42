// SPDX-License-Identifier: Apache-2.0
#include "platform/commands/recovery/heir.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "runtime/logger/delta.h"

namespace snf {
namespace {

// An heir frees its packets at once.
constexpr BufferPool::Options kHeirBuffers = {
    .small = 1'024, .medium = 256, .large = 64};

}  // namespace

LogEntryLimits LimitsOf(const NetworkFunction& nf) {
  const StateSchema& schema = nf.schema();
  return {
      .schema = schema.hash(),
      .max_delta_bytes = std::max(schema.record_bytes(), MaxDeltaBytes(schema)),
      .packets = ~uint32_t{0},
      .pools = static_cast<uint16_t>(nf.pools().size())};
}

Heir::Heir(const NfSpec& nf, uint32_t max_flows, const FreePieces& free)
    : unit_(nf, max_flows, true, kHeirBuffers),
      limits_(LimitsOf(unit_.nf())),
      asks_anew_(true),
      free_(free),
      at_store_(free) {}

Heir::Heir(const NfSpec& nf, Unit copy)
    : unit_(nf, std::move(copy), kHeirBuffers),
      limits_(LimitsOf(unit_.nf())),
      asks_anew_(false),
      free_(unit_.nf().pools()),
      at_store_(free_) {}

bool Heir::Take(Instant now, State state, std::span<const std::byte> record) {
  state.pushed = true;  // nothing waits for it here
  return unit_.unit().on_handed_over(now, state, record);
}

void Heir::Replay(const KeptStep& step, IsReleased is_released) {
  step_ = &step;
  is_released_ = &is_released;
  for (const KeptStep::Input& kept : step.inputs) {
    UnitInput input = kept.input;
    using Kind = UnitInput::Kind;
    if (asks_anew_ && input.kind != Kind::kPacket && input.kind != Kind::kEnd) {
      continue;
    }
    if (kept.has_packet()) {
      BufferPool& buffers = unit_.buffers();
      input.packet = buffers.Allocate(static_cast<uint32_t>(kept.bytes.size()));
      SNF_CHECK(input.packet != kNoPacket);
      buffers.info(input.packet) = kept.info;
      std::memcpy(buffers.room(input.packet).data(), kept.bytes.data(),
                  kept.bytes.size());
      ++figures_.packets;
    }
    Run(input);
    while (!answers_.empty()) {
      const UnitInput answer = answers_.front();
      answers_.pop_front();
      Run(answer);
    }
  }
  step_ = nullptr;
}

void Heir::Run(const UnitInput& input) {
  now_ = input.now;
  unit_.Apply(input, *this);
  while (!released_.empty()) {
    const Released released = std::move(released_.front());
    released_.pop_front();
    unit_.on_released(now_, released.meta, released.uses, *this);
  }
}

void Heir::on_command(const UnitCommand& command) {
  using Kind = UnitCommand::Kind;
  if (command.kind == Kind::kDrop) {  // the clock is in the record already
    unit_.buffers().Free(command.packet);
  }
  if (!asks_anew_) return;
  if (command.kind == Kind::kRequestPieces) {
    UnitInput answer = {.kind = UnitInput::Kind::kPieces,
                        .now = now_,
                        .pieces = at_store_.TakeWord(command.request.pool)};
    answer.pieces.unit = unit_.unit().id();
    answers_.push_back(answer);
  }
  if (command.kind == Kind::kSendAlias) {
    UnitInput answer = {
        .kind = UnitInput::Kind::kAliasAck,
        .now = now_,
        .alias_ack = {.flow = command.meta.flow, .clock = command.meta.clock}};
    answers_.push_back(answer);
  }
}

void Heir::on_entry(std::span<const std::byte> bytes) {
  const auto entry = LogEntryView::Parse(limits_, bytes);
  SNF_CHECK(entry.has_value());
  // Granted pieces come from `free_`, so a grant changes nothing.
  if ((*entry)->kind != LogEntry::Kind::kGrant) free_.Take(*entry);
  if ((*entry)->kind != LogEntry::Kind::kClock) return;
  const PacketMeta& meta = (*entry)->meta;
  const bool is_again =
      step_ != nullptr && (*is_released_)(meta.flow, meta.clock);
  ++(is_again ? figures_.suppressed : figures_.released);
  for (size_t i = 0; is_again && i < step_->outputs.size(); ++i) {
    const KeptStep::Output& output = step_->outputs[i];
    if (output.flow != meta.flow || output.clock != meta.clock) continue;
    const uint64_t digest = DigestOf(*entry, unit_.buffers());
    figures_.outputs_differ += digest == output.digest ? 0 : 1;
  }
  for (size_t i = 0; i < (*entry)->emitted; ++i) {
    unit_.buffers().Free(entry->emitted(i));
  }
  if ((*entry)->packet != kNoPacket) unit_.buffers().Free((*entry)->packet);
  Released& released =
      released_.emplace_back(Released{.meta = meta, .uses = {}});
  for (size_t i = 0; i < (*entry)->pieces; ++i) {
    released.uses.push_back(entry->piece(i));
  }
}

}  // namespace snf
