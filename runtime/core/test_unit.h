// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RUNTIME_CORE_TEST_UNIT_H_
#define SNF_RUNTIME_CORE_TEST_UNIT_H_

#include <cstring>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/core/test_inputs.h"
#include "runtime/core/unit.h"
#include "runtime/shell/entry_maker.h"

namespace snf {

// TestUnit is a unit with its NF and its buffers. It takes packets and messages
// and returns the unit's commands as text, in which a packet is its flow and
// clock, "3/7". Buffers of packets that leave are freed. Calls without a time
// happen at the time of the call before.
class TestUnit {
 public:
  using Lines = std::vector<std::string>;

  explicit TestUnit(uint16_t id, const UnitOptions& options = kSmallUnit,
                    std::span<const NetworkFunction::Pool> pools = {})
      : unit(UnitId{id}, options, ScriptedNf::Schema(), pools) {
    if (options.has_logger) maker.emplace(kIncarnation, ScriptedNf::Schema());
  }

  void Send(const PacketMeta& meta, std::string_view bytes = "packet") {
    PacketHandle packet = kNoPacket;
    if (meta.has_payload()) {
      packet = pool.Allocate(static_cast<uint32_t>(bytes.size()));
      std::memcpy(pool.room(packet).data(), bytes.data(), bytes.size());
      pool.info(packet).length = static_cast<uint32_t>(bytes.size());
      pool.info(packet).link = link;
    }
    unit.on_packet(packet, meta);
  }
  void Replicate(uint64_t flow, std::initializer_list<uint16_t> units,
                 uint32_t flowlet = 0) {
    ReplicaSet set = {.flow = FlowId{flow}, .flowlet = flowlet};
    for (const uint16_t id : units) set.units.at(set.count++) = UnitId{id};
    unit.on_replicas(set);
  }

  // Calls begin once; "service 3/7", "more" or nothing ends the lines.
  Lines Begin() { return AfterBegin(unit.begin(now, out_)); }
  // Goes on once with what is left of the last call; the lines end like those
  // of Begin.
  Lines Resume() { return AfterBegin(unit.Resume(now, out_)); }
  Lines Finish() {
    unit.finish(now, {nf, pool}, out_);
    return Drain();
  }
  Lines Finish(Instant at) {
    now = at;
    return Finish();
  }
  // Serves packets until none can run.
  Lines Serve() {
    Lines lines;
    const auto add = [&](const Lines& more) {
      lines.insert(lines.end(), more.begin(), more.end());
    };
    for (bool has_more = true; has_more;) {
      const bool serves = unit.begin(now, out_);
      add(Drain());
      if (serves) add(Finish());
      has_more = serves || unit.has_more();
    }
    return lines;
  }
  Lines Serve(Instant at) {
    now = at;
    return Serve();
  }

  Lines on_pull(uint64_t flow, uint64_t need, uint16_t requester) {
    unit.on_pull(now, {FlowId{flow}, Clock{need}, UnitId{requester}}, out_);
    return Drain();
  }
  Lines on_state(const SentState& sent) {
    unit.on_state(now, sent.state, sent.record, out_);
    return Drain();
  }
  Lines on_state(uint64_t flow, uint64_t applied,
                 Instant timer = Instant::max()) {
    SentState sent = StateOf(flow, applied);
    sent.state.timer = timer;
    return on_state(sent);
  }
  Lines on_push(uint64_t flow, uint64_t applied) {
    return on_state(PushOf(flow, applied));
  }
  Lines on_takeover(uint64_t flow, uint64_t clock, uint16_t taker) {
    unit.on_takeover(now, {FlowId{flow}, Clock{clock}, UnitId{taker}}, out_);
    return Drain();
  }
  Lines on_takeover_ack(uint64_t flow, uint64_t clock, uint16_t sender) {
    unit.on_takeover_ack(now, {FlowId{flow}, Clock{clock}, UnitId{sender}},
                         out_);
    return Drain();
  }
  Lines on_end_flow(uint64_t flow, uint64_t last) {
    unit.on_end_flow(now, {FlowId{flow}, Clock{last}}, {nf, pool}, out_);
    return Drain();
  }
  Lines on_alias_ack(uint64_t flow, uint64_t clock,
                     AliasResult result = AliasResult::kGranted) {
    const AliasAck ack = {FlowId{flow}, Clock{clock}, result};
    if (maker.has_value()) maker->on_alias_ack(ack);
    unit.on_alias_ack(now, ack, {nf, pool}, out_);
    return Drain();
  }
  Lines on_pieces(uint16_t piece_pool, uint32_t word, uint64_t mask) {
    unit.on_pieces(now, {.word = word, .pool = piece_pool, .mask = mask}, out_);
    return Drain();
  }
  Lines on_reclaim(uint16_t piece_pool) {
    unit.on_reclaim(piece_pool, out_);
    return Drain();
  }
  // The logger lets out the entry of the packet with this metadata.
  Lines on_released(const PacketMeta& meta) {
    unit.on_released(now, meta, {nf, pool}, out_);
    return Drain();
  }
  Lines on_pieces_released(const PieceBlock& pieces) {
    unit.on_pieces_released(pieces, out_);
    return Drain();
  }
  Lines on_stop() {
    unit.on_stop(out_);
    return Drain();
  }
  Lines on_timers_once(Instant at) {
    now = at;
    unit.on_timers(now, out_);
    return Drain();
  }
  // Sends the timer packet that was asked for last and serves all packets.
  Lines RunTimer(uint64_t flow, uint64_t clock) {
    Send(TimerPacket(flow, clock, now));
    return Serve();
  }
  // Does all that is due.
  Lines on_timers(Instant at) {
    Lines lines;
    do {
      const Lines more = on_timers_once(at);
      lines.insert(lines.end(), more.begin(), more.end());
    } while (unit.next_wakeup() <= now);
    return lines;
  }

  // Returns the count in the state of a flow that is kept here.
  uint64_t CountOf(uint64_t flow) const {
    uint64_t count = 0;
    std::memcpy(&count, &unit.state_bytes(FlowId{flow})[nf.count.offset()],
                sizeof count);
    return count;
  }
  uint64_t refused(StateRefusal refusal) const {
    return unit.counters().refused[static_cast<size_t>(refusal)];
  }
  uint64_t refused() const {
    uint64_t sum = 0;
    for (const uint64_t count : unit.counters().refused) sum += count;
    return sum;
  }

  Unit unit;
  ScriptedNf nf;
  BufferPool pool{{.small = 256, .medium = 1, .large = 1}};
  Instant now;
  LinkType link = LinkType::kEthernet;  // is that of the packets that come
  std::vector<std::string> released;    // has bytes of those that left
  std::vector<SentState> states;        // has those that were sent or pushed
  std::vector<Alias> aliases;           // has those that were asked for
  std::vector<FlowNote> notes;
  std::vector<PieceBlock> returned;
  std::vector<std::vector<std::byte>> changes;  // has those of entries
  // With a logger.
  static constexpr uint32_t kIncarnation = 3;
  std::optional<EntryMaker> maker;
  std::vector<std::vector<std::byte>> entries;

 private:
  // Names a packet, or a message about one.
  static std::string Name(const auto& of) {
    return std::to_string(value(of.flow)) + "/" +
           std::to_string(value(of.clock));
  }

  Lines AfterBegin(bool serves) {
    Lines lines = Drain();
    if (serves) {
      lines.push_back("service " + Name(unit.in_service()));
    } else if (unit.has_more()) {
      lines.push_back("more");
    }
    return lines;
  }

  void Leave(PacketHandle packet, bool is_kept) {
    if (is_kept) {
      const std::span<std::byte> bytes = pool.bytes(packet);
      released.emplace_back(reinterpret_cast<const char*>(bytes.data()),
                            bytes.size());
    }
    pool.Free(packet);
  }

  std::string Execute(const UnitCommand& command) {
    using Kind = UnitCommand::Kind;
    const std::string unit_name = std::to_string(value(command.unit));
    switch (command.kind) {
      case Kind::kRelease:
        Leave(command.packet, true);
        return "release " + Name(command.meta);
      case Kind::kNfDrop:
        Leave(command.packet, false);
        return "nf_drop " + Name(command.meta) + " for " +
               std::string(nf.drop_reasons()[command.nf_reason]);
      case Kind::kDrop:
        Leave(command.packet, false);
        return "drop " + Name(command.meta) + " for " +
               std::string(ToString(command.reason));
      case Kind::kDropPayload:
        Leave(command.packet, false);
        return "drop payload " + Name(command.meta) + " for " +
               std::string(ToString(command.reason));
      case Kind::kAdvance:
        return "advance " + Name(command.meta);
      case Kind::kConsume:
        Leave(command.packet, false);
        return "consume " + Name(command.meta);
      case Kind::kEmit:
        Leave(command.packet, true);
        return "emit at " + Name(command.meta);
      case Kind::kSendPull:
        return "pull " + std::to_string(value(command.pull.flow)) + " need " +
               std::to_string(value(command.pull.need)) + " from " + unit_name;
      case Kind::kSendState: {
        const std::span<const std::byte> record = unit.bytes_of(command.state);
        states.push_back({command.state, {record.begin(), record.end()}});
        return (command.state.pushed ? "push " : "state ") +
               std::to_string(value(command.state.flow)) + " applied " +
               std::to_string(value(command.state.applied)) + " to " +
               unit_name;
      }
      case Kind::kShowState:
        return "show " + std::to_string(value(command.state.flow));
      case Kind::kSendTakeover:
        return "took " + Name(command.takeover) + " to " + unit_name;
      case Kind::kSendTakeoverAck:
        return "ack " + Name(command.takeover_ack) + " to " + unit_name;
      case Kind::kReportTakeover:
        return "report took " + Name(command.takeover);
      case Kind::kWait:
        return "wait " + Name(command.meta);
      case Kind::kSendAlias:
        aliases.push_back(unit.alias(command.meta.flow));
        return "alias " + Name(command.meta);
      case Kind::kSendNote:
        notes.push_back(command.note);
        return "note " + Name(command.note);
      case Kind::kSendTimerDue:
        return "timer due " + std::to_string(value(command.timer_due.flow)) +
               " applied " + std::to_string(value(command.timer_due.applied));
      case Kind::kRequestPieces:
        return "request " + std::to_string(command.request.pool) +
               (command.request.is_ahead ? " ahead" : "");
      case Kind::kReturnPieces:
        returned.push_back(command.pieces);
        return "return " + std::to_string(command.pieces.pool);
      case Kind::kPiecesCame:
        return "came " + std::to_string(command.pieces.pool);
      case Kind::kLog: {
        const Unit::Change change = unit.change();
        changes.emplace_back(change.bytes.begin(), change.bytes.end());
        return (change.is_whole ? "log whole " : "log ") + Name(command.meta);
      }
      case Kind::kStopped:
        return "stopped";
      case Kind::kSendDone:
      case Kind::kSendEnded:
      case Kind::kSendGrants:
      case Kind::kReportName:
      case Kind::kReportFlow:
      case Kind::kReportPacket:
      case Kind::kReportParked:
      case Kind::kReportWord:
      case Kind::kReportUnit:
      case Kind::kReported:
      case Kind::kUpdatesMerged:
        break;  // loops say these for units
    }
    return "?";
  }

  Lines Drain() {
    Lines lines;
    for (const UnitCommand& command : out_.commands()) {
      lines.push_back(Execute(command));
      if (maker.has_value() &&
          maker->Take(command, unit) == EntryMaker::Taken::kEntry) {
        entries.emplace_back(maker->entry().begin(), maker->entry().end());
      }
    }
    if (maker.has_value()) maker->EndCall();
    out_.clear();
    return lines;
  }

  UnitOut out_;
};

}  // namespace snf

#endif  // SNF_RUNTIME_CORE_TEST_UNIT_H_
