// SPDX-License-Identifier: Apache-2.0
#include "controller/live/loop_links.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "runtime/wire/link_payload.h"

namespace snf {

LoopLinks::LoopLinks(ControllerLinks ends, const ControllerLoopOptions& options,
                     const TableHomes& tables)
    : ends_(std::move(ends)),
      recovers_(options.recovers),
      sends_whole_(options.fails),
      keeps_words_(options.fails && !ends_.copies.empty()),
      logs_tables_(options.recovers && tables.size() > 0),
      bells_(ends_.other_bells) {
  SNF_CHECK(!ends_.loops.empty());
  const uint32_t max_units = options.controller.max_units;
  const auto loops = static_cast<uint32_t>(size());
  using Sender = WordsToController::Sender;
  const auto add_words = [&](std::vector<WordsToController>& words,
                             uint32_t loop, Sender sender) {
    words.emplace_back(
        UnitsOfLoop(loop, loops, max_units),
        WordsToController::Limits{.max_flows = options.controller.max_flows,
                                  .nf_reasons = options.nf_reasons,
                                  .pools = options.pools,
                                  .sender = sender,
                                  .logs_tables = logs_tables_},
        *ends_.buffers, tables, *ends_.faults);
  };
  const bool has_loggers = !ends_.loggers.empty();
  SNF_CHECK(!has_loggers || ends_.loggers.size() == loops);
  SNF_CHECK(has_loggers || !(options.recovers || options.fails));
  for (uint32_t loop = 0; loop < loops; ++loop) {
    add_words(words_, loop,
              has_loggers ? Sender::kUnitsWithLoggers : Sender::kUnits);
    if (has_loggers) add_words(logger_words_, loop, Sender::kLoggers);
  }
  for (uint32_t unit = 0; unit < max_units; ++unit) {
    link_to_.push_back(&ends_.loops[unit % loops].out);
  }
  bells_.push_back(ends_.bell);
  if (!ends_.relayed.empty()) {
    relay_.emplace(std::move(ends_.relayed), max_units, ends_.record_bytes,
                   *ends_.faults);
  }
  SNF_CHECK(ends_.copies.empty() || ends_.copies.size() == loops);
  if (options.recovers || !ends_.copies.empty()) ForgetPackets();
  SNF_CHECK(!options.fails || ends_.controllers != nullptr);
  SNF_CHECK(keeps_words_ || !options.inherits);
}

void LoopLinks::ReceiveAll() {
  for (ControllerLinks::UnitLoopEnds& loop : ends_.loops) Receive(loop.in);
  for (ControllerLinks::LoggerLoopEnd& loop : ends_.loggers) Receive(loop.in);
  if (!keeps_words_) return;
  for (const ControllerLinks::LoggerLoopEnd& loop : ends_.loggers) {
    loop.note->taken.store(loop.in.taken(), std::memory_order_release);
  }
}

// A unit whose ring gets full may take nothing itself before there is room.
void LoopLinks::ReleaseKept(bool is_flushed) {
  const auto release = [is_flushed](LinkIn& in) {
    if (is_flushed || in.is_half_full()) in.Release();
  };
  for (ControllerLinks::UnitLoopEnds& loop : ends_.loops) release(loop.in);
  for (ControllerLinks::LoggerLoopEnd& loop : ends_.loggers) release(loop.in);
}

bool LoopLinks::Flush() {
  bool is_all = true;
  for (ControllerLinks::UnitLoopEnds& loop : ends_.loops) {
    is_all &= sends_whole_ ? loop.out.FlushWhole(PayloadFromController)
                           : loop.out.Flush();
  }
  return is_all;
}

bool LoopLinks::FlushToLoggers() {
  bool is_all = true;
  if (!recovers_) return is_all;
  for (ControllerLinks::LoggerLoopEnd& loop : ends_.loggers) {
    is_all &= loop.out->FlushWhole(PayloadFromController);
  }
  return is_all;
}

void LoopLinks::Resume() {
  for (ControllerLinks::UnitLoopEnds& loop : ends_.loops) loop.in.GoOn();
  for (ControllerLinks::LoggerLoopEnd& loop : ends_.loggers) loop.in.GoOn();
}

void LoopLinks::CloseBroken() {
  for (size_t i = 0; i < ends_.loops.size(); ++i) {
    LinkIn& in = ends_.loops[i].in;
    if (in.faults() + ends_.loops[i].out.faults() == 0 || in.is_closed())
        [[likely]]
      continue;
    words_[i].Refuse(kNoUnit, "ring", "position", in.received());
    in.Close();
  }
  for (size_t i = 0; i < ends_.loggers.size(); ++i) {
    LinkIn& in = ends_.loggers[i].in;
    if (in.faults() == 0 || in.is_closed()) [[likely]]
      continue;
    logger_words_[i].Refuse(kNoUnit, "ring", "position", in.received());
    in.Close();
  }
}

void LoopLinks::ReopenLoggers() {
  for (ControllerLinks::LoggerLoopEnd& loop : ends_.loggers) loop.in.Reopen();
}

void LoopLinks::Refuse(UnitId unit, std::string_view kind,
                       std::string_view field, uint64_t value) {
  const size_t loop = loop_of(unit);
  ends_.loops[loop].in.Close();
  if (logger_words_.empty() || recovers_) {
    // Loggers forward words of units. If loops of units may end alone, the
    // units are to blame, and the loggers' link stays open.
    words_[loop].Refuse(unit, kind, field, value);
    return;
  }
  logger_words_[loop].Refuse(unit, kind, field, value);
  ends_.loggers[loop].in.Close();
}

bool LoopLinks::has_items() {
  const auto has = [](auto& loop) { return loop.in.has_items(); };
  return std::ranges::any_of(ends_.loops, has) ||
         std::ranges::any_of(ends_.loggers, has) ||
         (relay_.has_value() && relay_->has_items());
}

uint64_t LoopLinks::received() const {
  uint64_t received = relay_.has_value() ? relay_->handled() : 0;
  for (const ControllerLinks::UnitLoopEnds& loop : ends_.loops) {
    received += loop.in.handled() + loop.progress->received.load();
  }
  for (const ControllerLinks::LoggerLoopEnd& loop : ends_.loggers) {
    received += loop.in.handled() + loop.progress->received.load();
  }
  return received;
}

uint64_t LoopLinks::sent() const {
  uint64_t sent = relay_.has_value() ? relay_->sent() : 0;
  for (const ControllerLinks::UnitLoopEnds& loop : ends_.loops) {
    sent += loop.out.sent_in_all() + loop.progress->sent.load();
  }
  for (const ControllerLinks::LoggerLoopEnd& loop : ends_.loggers) {
    sent += loop.progress->sent.load();
    if (loop.out.has_value()) sent += loop.out->sent_in_all();
  }
  return sent;
}

Instant LoopLinks::next_due() const {
  Instant due = Instant::max();
  for (const ControllerLinks::UnitLoopEnds& loop : ends_.loops) {
    due = std::min(due, Instant{loop.progress->next_due.load()});
  }
  return due;
}

bool LoopLinks::have_updates() const {
  return std::ranges::any_of(ends_.loggers, [](const auto& loop) {
    return loop.progress->has_updates.load(std::memory_order_acquire);
  });
}

bool LoopLinks::have_undrained() const {
  return logs_tables_ && std::ranges::any_of(ends_.loggers, [](auto& loop) {
           return loop.control->ends.load() != loop.control->drained.load();
         });
}

bool LoopLinks::IsIdle(size_t loop) {
  ControllerLinks::UnitLoopEnds& ends = ends_.loops[loop];
  return ends.out.released() == ends.out.cells() && !ends.in.has_items() &&
         ends.progress->buffers.load() == 0;
}

const PacketsUnderWay::Sent* LoopLinks::FindIn(size_t loop,
                                               PacketHandle packet) const {
  if (!packets_.has_value()) return nullptr;
  const PacketsUnderWay::Sent* const sent = packets_->Find(packet);
  return sent != nullptr && loop_of(sent->unit) == loop ? sent : nullptr;
}

void LoopLinks::Give(const ControllerCommand& command) {
  packets_->Add(command);
  if (ends_.copies.empty() || command.packet == kNoPacket) return;
  ends_.buffers->CopyTo(ends_.copies[loop_of(command.unit)], command.packet);
}

// The buffer of a packet that an NF made belongs to the share of its loop,
// whose process may die before the buffer comes back.
bool LoopLinks::Take(size_t loop, const UnitCommand& command) {
  using Kind = UnitCommand::Kind;
  if (!packets_->On(command)) return false;
  if (ends_.copies.empty() || command.kind == Kind::kAdvance) return true;
  BufferPool& copies = ends_.copies[loop];
  copies.CopyTo(*ends_.buffers, command.packet);
  if (command.kind == Kind::kEmit) copies.Claim(command.packet);
  return true;
}

void LoopLinks::Disclaim(size_t loop, PacketHandle packet) {
  if (!ends_.copies.empty()) {
    ends_.copies[loop].Disclaim(packet);
  } else if (recovers_) {
    ends_.buffers->Disclaim(packet);
  }
}

}  // namespace snf
