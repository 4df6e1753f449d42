// SPDX-License-Identifier: Apache-2.0
// A unit as its logger sees it: it makes entries, and remembers in plain maps
// what the logger should then have.
#ifndef SNF_RUNTIME_LOGGER_TEST_LOGGED_UNIT_H_
#define SNF_RUNTIME_LOGGER_TEST_LOGGED_UNIT_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "runtime/logger/delta.h"
#include "runtime/logger/log_entry.h"
#include "runtime/logger/output_logger.h"
#include "runtime/sdk/nf.h"
#include "runtime/sdk/test_state.h"

namespace snf {

using Bytes = std::vector<std::byte>;

class LoggedNf final : public NetworkFunction {
 public:
  Slot<uint64_t> digest = declare<uint64_t>("digest");
  Blob name = declare_blob("name", 20);
  PoolId ports = declare_pool("ports", 0, 255);
  Verdict process_packet(Packet&, FlowState&) override {
    return Verdict::forward();
  }
};

class LoggedUnit {
 public:
  static constexpr uint32_t kIncarnation = 3;

  // Makes the entry of the flow's next clock, whose packet has the handle of
  // its number.
  const Bytes& Advance(uint64_t flow, uint64_t value_to_put, bool whole = false,
                       std::vector<PieceUse> pieces = {}, uint8_t flags = 0) {
    Bytes& record = records_[flow];
    if (record.empty()) {
      record.resize(nf.schema().record_bytes());
      whole = true;
    }
    TestFlow test(record);
    test.flow.put(nf.digest, value_to_put);
    Bytes delta(MaxDeltaBytes(nf.schema()));
    delta.resize(EncodeDelta(nf.schema(), test.view, delta));
    const uint64_t clock = ++clocks[flow];
    history[flow].push_back(record);
    LogEntry entry = Header(flow, clock, whole ? record : delta);
    entry.flags = static_cast<uint8_t>(flags | (whole ? LogEntry::kWhole : 0));
    entry.packet = PacketHandle{static_cast<uint32_t>(entry.number)};
    entry.outcome = LogEntry::Outcome::kRelease;
    entry.pieces = static_cast<uint8_t>(pieces.size());
    for (const PieceUse& use : pieces) Use(use);
    return Keep(entry, pieces, whole ? record : delta);
  }
  // A clock of the flow runs at another unit; the state comes back.
  void AdvanceElsewhere(uint64_t flow, std::span<const std::byte> name) {
    TestFlow(records_[flow]).flow.put(nf.name, name);
    ++clocks[flow];
    history[flow].push_back(records_[flow]);
  }
  const Bytes& Grant(uint32_t word, uint64_t mask) {
    LogEntry entry = Header(0, 0, {});
    entry.kind = LogEntry::Kind::kGrant;
    entry.block = {.word = word, .mask = mask};
    entry.argument = ++grants_;
    for (uint32_t bit = 0; bit < 64; ++bit) {
      if ((mask >> bit & 1) != 0) free.insert(word * 64 + bit);
    }
    return Keep(entry, {}, {});
  }
  const Bytes& Return(uint32_t word, uint64_t mask) {
    LogEntry entry = Header(0, 0, {});
    entry.kind = LogEntry::Kind::kReturn;
    entry.block = {.word = word, .mask = mask};
    for (uint32_t bit = 0; bit < 64; ++bit) {
      if ((mask >> bit & 1) != 0) free.erase(word * 64 + bit);
    }
    return Keep(entry, {}, {});
  }
  const Bytes& Forget(uint64_t flow, uint64_t clock) {
    LogEntry entry = Header(flow, clock, {});
    entry.kind = LogEntry::Kind::kForget;
    return Keep(entry, {}, {});
  }
  // Another entry in place of one that was lost: with the present record, and
  // without its packet where that is lost too.
  Bytes Instead(uint64_t number, bool packet_lost) const {
    const Bytes& bytes = entries[number];
    auto entry = LoadAs<LogEntry>(bytes.data());
    if (entry.kind != LogEntry::Kind::kClock) return bytes;
    const uint64_t flow = value(entry.meta.flow);
    const Bytes& record = history.at(flow).back();
    std::vector<PieceUse> pieces;
    for (size_t i = 0; i < entry.pieces; ++i) {
      pieces.push_back(LoadAs<PieceUse>(&bytes[sizeof entry + i * 8]));
    }
    entry.flags |= LogEntry::kWhole;
    entry.state = Clock{history.at(flow).size()};
    entry.delta_bytes = static_cast<uint32_t>(record.size());
    if (packet_lost) {
      entry.flags |= LogEntry::kPacketsLost;
      entry.packet = kNoPacket;
      entry.outcome = LogEntry::Outcome::kNone;
    }
    return Write(entry, pieces, record);
  }
  static Bytes Write(const LogEntry& entry, const std::vector<PieceUse>& pieces,
                     const Bytes& delta) {
    Bytes bytes(4'096);
    bytes.resize(WriteLogEntry(entry, pieces, {}, nullptr, delta, bytes));
    return bytes;
  }

  LoggedNf nf;
  std::vector<Bytes> entries{1};  // by number
  std::map<uint64_t, uint64_t> clocks;
  std::map<uint64_t, std::vector<Bytes>> history;  // [flow][clock - 1]
  std::set<uint32_t> free;                         // pieces
  std::vector<std::set<uint32_t>> free_at{1};      // by number

 private:
  LogEntry Header(uint64_t flow, uint64_t clock, const Bytes& delta) const {
    LogEntry entry;
    entry.number = entries.size();
    entry.meta.flow = FlowId{flow};
    entry.meta.clock = entry.state = Clock{clock};
    entry.base = clock > 0 ? Clock{clock - 1} : Clock{};
    entry.schema = nf.schema().hash();
    entry.incarnation = kIncarnation;
    entry.delta_bytes = static_cast<uint32_t>(delta.size());
    return entry;
  }
  void Use(const PieceUse& use) {
    if (use.gives != 0) {
      free.insert(use.piece);
    } else {
      free.erase(use.piece);
    }
  }
  const Bytes& Keep(const LogEntry& entry, const std::vector<PieceUse>& pieces,
                    const Bytes& delta) {
    entries.push_back(Write(entry, pieces, delta));
    free_at.push_back(free);
    return entries.back();
  }

  std::map<uint64_t, Bytes> records_;
  uint64_t grants_ = 0;
};

}  // namespace snf

#endif  // SNF_RUNTIME_LOGGER_TEST_LOGGED_UNIT_H_
