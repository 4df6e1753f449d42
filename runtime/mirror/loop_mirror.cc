// SPDX-License-Identifier: Apache-2.0
#include "runtime/mirror/loop_mirror.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/byte_order.h"
#include "base/check.h"
#include "base/messages/controller_commands.h"
#include "base/messages/unit_commands.h"
#include "base/packet/packet_info.h"
#include "runtime/logger/log_entry.h"
#include "runtime/wire/kept_word.h"
#include "runtime/wire/link_payload.h"
#include "runtime/wire/log_word.h"

namespace snf {
namespace {

constexpr int kCutAttempts = 16;

constexpr bool IsToUnits(MirroredRing ring) {
  return ring <= MirroredRing::kAnswers;
}

absl::Status Bad(const char* what, uint64_t position) {
  return absl::InvalidArgumentError(absl::StrCat(what, " ", position));
}

absl::Status BadRing(MirroredRing ring, const char* what, uint64_t position) {
  return absl::InvalidArgumentError(
      absl::StrCat("ring ", static_cast<int>(ring), ": ", what, " ", position));
}

// --- Which packets a message names. ---

using Packets = std::vector<PacketHandle>;

void NameOfController(const Cell& cell, Packets& packets) {
  const auto& command = cell.As<ControllerCommand>();
  if (command.kind == ControllerCommand::Kind::kEnqueue &&
      command.packet != kNoPacket) {
    packets.push_back(command.packet);
  }
}

void NameOfUnit(const Cell& cell, Packets& packets) {
  const auto& command = cell.As<UnitCommand>();
  if (command.kind == UnitCommand::Kind::kRelease ||
      command.kind == UnitCommand::Kind::kEmit) {
    packets.push_back(command.packet);
  }
}

// The entry comes from a process that is not trusted: it may be too short.
void NameOfEntry(std::span<const std::byte> bytes, Packets& packets) {
  if (bytes.size() < sizeof(LogEntry)) return;
  const auto entry = LoadAs<LogEntry>(bytes.data());
  if (entry.outcome == LogEntry::Outcome::kRelease &&
      entry.packet != kNoPacket) {
    packets.push_back(entry.packet);
  }
  const size_t first =
      sizeof(LogEntry) + size_t{entry.pieces} * sizeof(PieceUse);
  for (size_t i = 0; i < entry.emitted; ++i) {
    const size_t at = first + i * sizeof(PacketHandle);
    if (at + sizeof(PacketHandle) > bytes.size()) return;
    packets.push_back(LoadAs<PacketHandle>(&bytes[at]));
  }
}

}  // namespace

LoopMirror::LoopMirror(const Options& options, MirrorParts parts)
    : options_(options), parts_(std::move(parts)) {
  for (size_t i = 0; i < kRings; ++i) {
    Ring& ring = rings_[i];
    ring.name = static_cast<MirroredRing>(i);
    ring.is_source = IsToUnits(ring.name) == is_home();
    if (parts_.rings[i].empty()) continue;
    ring.header =
        std::launder(reinterpret_cast<RingHeader*>(parts_.rings[i].data()));
    ring.cells = parts_.rings[i].data() + sizeof(RingHeader);
    ring.capacity = ring.header->capacity;
    SNF_CHECK(CellRing::BytesFor(ring.capacity) <= parts_.rings[i].size());
    const uint64_t pushed = ring.header->pushed.load();
    const uint64_t released = ring.header->released.load();
    ring.done = ring.is_source ? released : pushed;
    ring.released = released;
    if (ring.is_source) continue;
    ring.bell =
        IsToUnits(ring.name) ? parts_.units_bell
        : ring.name == MirroredRing::kLog || ring.name == MirroredRing::kKept
            ? parts_.loggers_bell
            : parts_.controller_bell;
  }
}

// --- The begin. ---

void LoopMirror::WriteBegin(std::vector<std::byte>& frame) {
  MirrorWriter writer(frame);
  sent_.units = ReadTold();
  writer.AddValue(MirrorItem::Kind::kTold, sent_.units);
  for (size_t i = 0; i < kRings; ++i) {
    const Ring& ring = rings_[i];
    if (ring.header == nullptr) continue;
    sent_.positions[i] = ring.is_source ? ring.done : ring.released;
    const uint64_t released = ring.released;
    writer.Add({.kind = MirrorItem::Kind::kRing,
                .ring = static_cast<uint8_t>(i),
                .bytes = sizeof(released),
                .position = ring.done});
    writer.Append(&released, sizeof(released));
  }
  const auto claimed = [&writer](PacketHandle packet) {
    writer.Add({.kind = MirrorItem::Kind::kClaimed, .position = value(packet)});
  };
  for (uint8_t party = 1; party < BufferPool::kMaxParties; ++party) {
    parts_.pool.ForEachClaimed(BufferPool::Party{party}, claimed);
  }
}

absl::Status LoopMirror::ReadBegin(std::span<const std::byte> frame) {
  MirrorReader reader(frame);
  while (reader.Next()) {
    if (absl::Status s = TakeBegin(reader.item(), reader.bytes()); !s.ok()) {
      return s;
    }
  }
  if (reader.is_bad()) return Bad("no item behind byte", frame.size());
  sent_ = Read();  // the units have not begun
  return absl::OkStatus();
}

absl::Status LoopMirror::TakeBegin(const MirrorItem& item,
                                   std::span<const std::byte> bytes) {
  if (item.kind == MirrorItem::Kind::kTold) return TakeItem(item, bytes);
  if (item.kind == MirrorItem::Kind::kClaimed) {
    const PacketHandle packet{static_cast<uint32_t>(item.position)};
    if (item.position > value(kNoPacket) || !parts_.pool.Claim(packet)) {
      return Bad("claimed packet", item.position);
    }
    return absl::OkStatus();
  }
  uint64_t released = 0;
  if (item.kind != MirrorItem::Kind::kRing || item.ring >= kRings ||
      rings_[item.ring].header == nullptr || bytes.size() != sizeof(released)) {
    return Bad("no ring", item.ring);
  }
  Ring& ring = rings_[item.ring];
  released = LoadAs<uint64_t>(bytes.data());
  if (item.position - released > ring.capacity) {
    return BadRing(ring.name, "released", released);
  }
  ring.done = item.position;
  ring.released = released;
  ring.header->released.store(released);
  ring.header->pushed.store(item.position);
  return absl::OkStatus();
}

// --- What is sent. ---

TellUnits LoopMirror::ReadTold() const {
  TellUnits told;
  if (!is_home()) return told;
  told.stops = parts_.control->stops.load() ? 1 : 0;
  told.stops_timers = parts_.control->stops_timers.load() ? 1 : 0;
  told.logger_process = parts_.control->logger_process.load();
  told.ends = parts_.control->ends.load();
  told.newest_controller = parts_.controllers->newest.load();
  told.begun_controller = parts_.controllers->begun.load();
  told.clock_offset = parts_.clock->offset().ns;
  return told;
}

// A reader takes `received` first (LoopProgress).
TellDaemon LoopMirror::ReadProgress() const {
  TellDaemon told;
  if (is_home()) return told;
  const LoopProgress& progress = *parts_.progress;
  told.next_due = progress.next_due.load();
  told.received = progress.received.load();
  told.sent = progress.sent.load();
  told.buffers = progress.buffers.load();
  told.seamless = progress.seamless.load();
  told.pulled = progress.pulled.load();
  told.busy_ns = progress.busy_ns.load();
  const int64_t started = progress.started.load();
  told.started =
      started == Instant::min().ns ? started : started + options_.ahead.ns;
  return told;
}

LoopMirror::Cut LoopMirror::Read() const {
  Cut cut;
  for (size_t i = 0; i < kRings; ++i) {
    const Ring& ring = rings_[i];
    if (ring.header == nullptr) continue;
    cut.positions[i] = ring.is_source ? ring.header->pushed.load()
                                      : ring.header->released.load();
  }
  cut.daemon = ReadProgress();
  cut.units = ReadTold();
  return cut;
}

bool LoopMirror::ReadConsistent(Cut& cut) const {
  Cut first = Read();
  for (int i = 0; i < kCutAttempts; ++i) {
    cut = Read();
    if (cut == first) return true;
    std::swap(first, cut);
  }
  return false;
}

bool LoopMirror::has_news() { return Read() != sent_; }

bool LoopMirror::awaits_release() const {
  return std::ranges::any_of(rings_, [](const Ring& ring) {
    return !ring.is_source && ring.header != nullptr &&
           ring.done.load() != ring.released.load();
  });
}

bool LoopMirror::Collect(std::vector<std::byte>& frame) {
  Cut cut;
  if (!ReadConsistent(cut) || cut == sent_) return false;
  MirrorWriter writer(frame);
  if (cut.units != sent_.units) {
    writer.AddValue(MirrorItem::Kind::kTold, cut.units);
  }
  if (cut.daemon != sent_.daemon) {
    writer.AddValue(MirrorItem::Kind::kProgress, cut.daemon);
  }
  for (size_t i = 0; i < kRings; ++i) {
    if (rings_[i].is_source && cut.positions[i] != sent_.positions[i]) {
      AppendCells(rings_[i], cut.positions[i], frame);
    }
  }
  for (size_t i = 0; i < kRings; ++i) {
    Ring& ring = rings_[i];
    const uint64_t position = cut.positions[i];
    if (ring.is_source || position == sent_.positions[i]) continue;
    // If a consumer writes nonsense, the producer finds no more room.
    const uint64_t told = ring.released;
    if (position - told > ring.done - told) continue;
    ring.released = position;
    writer.Add({.kind = MirrorItem::Kind::kReleased,
                .ring = static_cast<uint8_t>(i),
                .position = position});
  }
  sent_ = cut;
  return !frame.empty();
}

// Copies out the cells first: another process may change them.
void LoopMirror::AppendCells(Ring& ring, uint64_t pushed,
                             std::vector<std::byte>& frame) {
  const uint64_t from = ring.done;
  const uint64_t released = ring.released;
  if (pushed - from > ring.capacity || pushed - released > ring.capacity) {
    return;  // nonsense of a producer
  }
  scanned_.resize(pushed - from);
  for (uint64_t at = from; at < pushed; ++at) {
    std::memcpy(scanned_[at - from].bytes.data(),
                ring.cells + (at & (ring.capacity - 1)) * sizeof(Cell),
                sizeof(Cell));
  }
  packets_.clear();
  const size_t cells = Scan(ring, scanned_, packets_);
  if (cells == 0) return;
  for (const PacketHandle packet : packets_) AppendPacket(packet, frame);
  const size_t bytes = cells * sizeof(Cell);
  MirrorWriter writer(frame);
  writer.Add({.kind = MirrorItem::Kind::kCells,
              .ring = static_cast<uint8_t>(ring.name),
              .bytes = static_cast<uint32_t>(bytes),
              .position = from});
  writer.Append(scanned_.data(), bytes);
  ring.done = from + cells;
}

// Returns how many of the cells are whole messages, and adds the packets that
// these name. Where a message cannot be, its receiver finds that as well: from
// there on, cells are sent as they are.
size_t LoopMirror::Scan(Ring& ring, std::span<const Cell> cells,
                        std::vector<PacketHandle>& packets) const {
  const size_t longest =
      std::max({options_.longest_entry + sizeof(KeptWord),
                kMaxPayloadFromController, kMaxPayloadToController});
  size_t at = 0;
  while (!ring.is_raw && at < cells.size()) {
    const Cell& first = cells[at];
    size_t payload = 0;
    switch (ring.name) {
      case MirroredRing::kDown:
        payload = PayloadFromController(first);
        break;
      case MirroredRing::kUp:
        payload = PayloadToController(first);
        break;
      case MirroredRing::kLog:
        payload = LogWord::Of(first).payload_bytes();
        break;
      case MirroredRing::kKept:
        payload = KeptWord::Of(first).payload_bytes();
        break;
      default:
        return cells.size();  // names no packet
    }
    if (payload > longest) {
      ring.is_raw = true;
      break;
    }
    const size_t end = at + 1 + Cell::CountFor(payload);
    if (end > cells.size()) return at;
    if (ring.name == MirroredRing::kDown && !first.is_table()) {
      NameOfController(first, packets);
    } else if (ring.name == MirroredRing::kUp && !first.is_table()) {
      NameOfUnit(first, packets);
    } else if (ring.name == MirroredRing::kLog &&
               LogWord::Of(first).kind == LogWord::Kind::kEntry) {
      NameOfEntry(LogWord::Of(first).entry(first), packets);
    } else if (ring.name == MirroredRing::kKept &&
               KeptWord::Of(first).kind == KeptWord::Kind::kEntry) {
      NameOfEntry(KeptWord::Of(first).entry(first), packets);
    }
    at = end;
  }
  return ring.is_raw ? cells.size() : at;
}

void LoopMirror::AppendPacket(PacketHandle packet,
                              std::vector<std::byte>& frame) {
  if (!parts_.pool.IsHandle(packet)) return;  // its receiver refuses that
  const BufferPool::View view = parts_.pool.view(packet);
  MirrorWriter writer(frame);
  writer.Add(
      {.kind = MirrorItem::Kind::kPacket,
       .bytes = static_cast<uint32_t>(sizeof(PacketInfo) + view.bytes.size()),
       .position = value(packet)});
  writer.Append(&view.info, sizeof(PacketInfo));
  writer.Append(view.bytes.data(), view.bytes.size());
  packets_sent_.fetch_add(1, std::memory_order_relaxed);
}

// --- What is received. ---

void LoopMirror::Store(const TellUnits& told) {
  parts_.clock->SetOffset(Nanos{told.clock_offset + options_.ahead.ns});
  parts_.controllers->begun.store(told.begun_controller);
  parts_.controllers->newest.store(told.newest_controller);
  parts_.control->ends.store(told.ends);
  parts_.control->logger_process.store(told.logger_process);
  parts_.control->stops_timers.store(told.stops_timers != 0);
  parts_.control->stops.store(told.stops != 0);
}

void LoopMirror::Store(const TellDaemon& told) {
  LoopProgress& progress = *parts_.progress;
  progress.seamless.store(told.seamless);
  progress.pulled.store(told.pulled);
  progress.buffers.store(told.buffers);
  progress.busy_ns.store(told.busy_ns);
  progress.started.store(told.started);
  progress.sent.store(told.sent);
  progress.received.store(told.received);
  progress.next_due.store(told.next_due);
}

absl::Status LoopMirror::Apply(std::span<const std::byte> frame) {
  MirrorReader reader(frame);
  while (reader.Next()) {
    if (absl::Status s = TakeItem(reader.item(), reader.bytes()); !s.ok()) {
      return s;
    }
  }
  if (reader.is_bad()) return Bad("no item behind byte", frame.size());
  RingBells();
  return absl::OkStatus();
}

// Wakes the consumers of new cells, the units for any other news, and the
// thread that calls Collect: it has to look for releases from now on.
void LoopMirror::RingBells() {
  bool has_cells = false;
  for (Ring& ring : rings_) {
    if (!std::exchange(ring.has_new_cells, false)) continue;
    ring.bell->Ring();
    has_cells = true;
  }
  if (!is_home()) parts_.units_bell->Ring();
  if (!has_cells) return;
  (is_home() ? parts_.units_bell : parts_.controller_bell)->Ring();
}

absl::Status LoopMirror::TakeItem(const MirrorItem& item,
                                  std::span<const std::byte> bytes) {
  const auto load = [&]<typename Value>(std::optional<Value>& told) {
    if (bytes.size() == sizeof(Value)) told = LoadAs<Value>(bytes.data());
    return told.has_value();
  };
  std::optional<TellUnits> units;
  std::optional<TellDaemon> daemon;
  switch (item.kind) {
    case MirrorItem::Kind::kTold:
      if (is_home() || !load(units)) break;
      Store(*units);
      return absl::OkStatus();
    case MirrorItem::Kind::kProgress:
      if (!is_home() || !load(daemon)) break;
      Store(*daemon);
      return absl::OkStatus();
    case MirrorItem::Kind::kPacket:
      return TakePacket(item.position, bytes);
    case MirrorItem::Kind::kCells:
    case MirrorItem::Kind::kReleased: {
      if (item.ring >= kRings || rings_[item.ring].header == nullptr) {
        return Bad("no ring", item.ring);
      }
      Ring& ring = rings_[item.ring];
      return item.kind == MirrorItem::Kind::kCells
                 ? TakeCells(ring, item.position, bytes)
                 : TakeReleased(ring, item.position);
    }
    default:
      break;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("item of kind ", static_cast<int>(item.kind), " with ",
                   bytes.size(), " bytes"));
}

absl::Status LoopMirror::TakePacket(uint64_t handle,
                                    std::span<const std::byte> bytes) {
  const PacketHandle packet{static_cast<uint32_t>(handle)};
  if (handle > value(kNoPacket) || !parts_.pool.IsHandle(packet)) {
    return Bad("packet", handle);
  }
  if (bytes.size() < sizeof(PacketInfo)) {
    return Bad("packet of bytes", bytes.size());
  }
  const auto payload = bytes.subspan(sizeof(PacketInfo));
  const BufferPool::View to = parts_.pool.whole(packet);
  if (payload.size() > to.bytes.size()) {
    return Bad("packet of bytes", bytes.size());
  }
  std::memcpy(&to.info, bytes.data(), sizeof(PacketInfo));
  to.info.length = static_cast<uint32_t>(payload.size());
  if (!payload.empty()) {
    std::memcpy(to.bytes.data(), payload.data(), payload.size());
  }
  packets_received_.fetch_add(1, std::memory_order_relaxed);
  return absl::OkStatus();
}

absl::Status LoopMirror::TakeCells(Ring& ring, uint64_t position,
                                   std::span<const std::byte> bytes) {
  const uint64_t written = ring.done;
  const uint64_t cells = bytes.size() / sizeof(Cell);
  if (ring.is_source) return BadRing(ring.name, "cells at", position);
  if (position != written) return BadRing(ring.name, "position", position);
  if (bytes.size() % sizeof(Cell) != 0) {
    return BadRing(ring.name, "bytes", bytes.size());
  }
  if (cells > ring.capacity - (written - ring.released)) {
    return BadRing(ring.name, "cells", cells);
  }
  for (uint64_t i = 0; i < cells; ++i) {
    std::memcpy(
        ring.cells + ((position + i) & (ring.capacity - 1)) * sizeof(Cell),
        &bytes[i * sizeof(Cell)], sizeof(Cell));
  }
  ring.header->pushed.store(position + cells, std::memory_order_seq_cst);
  ring.done = position + cells;
  ring.has_new_cells = true;
  return absl::OkStatus();
}

absl::Status LoopMirror::TakeReleased(Ring& ring, uint64_t position) {
  const uint64_t released = ring.released;
  if (!ring.is_source || position - released > ring.done - released) {
    return BadRing(ring.name, "released", position);
  }
  ring.released = position;
  ring.header->released.store(position, std::memory_order_seq_cst);
  return absl::OkStatus();
}

}  // namespace snf
