// SPDX-License-Identifier: Apache-2.0
// Here are the flows and pieces of a random schedule as its test knows them,
// and the NF that takes, keeps and gives back pieces, and sets aliases.
#ifndef SNF_RUNTIME_CORE_TEST_PIECES_H_
#define SNF_RUNTIME_CORE_TEST_PIECES_H_

#include <array>
#include <cstdint>
#include <cstring>
#include <map>
#include <optional>
#include <ostream>
#include <span>
#include <string_view>
#include <vector>

#include "base/packet/endpoint.h"
#include "base/rng.h"
#include "gtest/gtest.h"
#include "runtime/core/test_network.h"
#include "runtime/ring/buffer_pool.h"
#include "runtime/sdk/nf.h"

namespace snf {

inline constexpr uint16_t kTestPools = 2;

// PieceLedger knows where each piece lies: at one place.
class PieceLedger {
 public:
  static constexpr uint64_t kController = 1 << 16;
  static constexpr uint64_t kUnderWay = kController + 1;
  static uint64_t At(UnitId unit) { return value(unit); }
  static uint64_t At(FlowId flow) { return kUnderWay + 1 + value(flow); }

  explicit PieceLedger(std::span<const NetworkFunction::Pool> pools) {
    for (uint16_t p = 0; p < pools.size(); ++p) {
      for (uint32_t piece = pools[p].first; piece <= pools[p].last; ++piece) {
        places_[{p, piece}] = kController;
        ++counts_[{p, kController}];
      }
    }
  }
  void Move(uint16_t pool, uint32_t piece, uint64_t from, uint64_t to) {
    const auto it = places_.find({pool, piece});
    ASSERT_NE(it, places_.end()) << "no such piece";
    ASSERT_EQ(it->second, from) << "piece " << piece << " is elsewhere";
    it->second = to;
    --counts_[{pool, from}];
    ++counts_[{pool, to}];
  }
  void MoveWord(const PieceBlock& pieces, uint64_t from, uint64_t to) {
    for (uint32_t bit = 0; bit < 64; ++bit) {
      if ((pieces.mask >> bit & 1) == 0) continue;
      Move(pieces.pool, pieces.word * 64 + bit, from, to);
    }
  }
  uint32_t Count(uint16_t pool, uint64_t place) const {
    const auto it = counts_.find({pool, place});
    return it == counts_.end() ? 0 : it->second;
  }
  uint32_t size() const { return static_cast<uint32_t>(places_.size()); }
  // Returns a word of the controller's pieces of the pool, or a mask of 0.
  PieceBlock Any(uint16_t pool, uint64_t which) const {
    std::map<uint32_t, uint64_t> words;
    for (const auto& [piece, at] : places_) {
      if (piece.first != pool || at != kController) continue;
      words[piece.second / 64] |= uint64_t{1} << piece.second % 64;
    }
    if (words.empty()) return {.pool = pool};
    auto it = words.begin();
    std::advance(it, which % words.size());
    return {.word = it->first, .pool = pool, .mask = it->second};
  }

 private:
  std::map<std::pair<uint16_t, uint32_t>, uint64_t> places_;
  std::map<std::pair<uint16_t, uint64_t>, uint32_t> counts_;
};

// Totals count what happened in all schedules.
struct PieceTotals : NetworkTotals {
  uint64_t taken = 0;
  uint64_t fell_back = 0;  // counts pieces taken of the other pool
  uint64_t given = 0;
  uint64_t given_elsewhere = 0;  // counts those not given where they came from
  uint64_t waits = 0;
  uint64_t requests = 0;
  uint64_t refusals = 0;  // counts requests that were refused
  uint64_t no_pieces = 0;
  uint64_t went_without = 0;
  uint64_t reclaims = 0;
  uint64_t returns = 0;
  uint64_t aliases = 0;
  uint64_t aliases_refused = 0;
  uint64_t acks_doubled = 0;
  uint64_t notes = 0;
  uint64_t timers = 0;
};

inline std::ostream& operator<<(std::ostream& out, const PieceTotals& t) {
  return out << t.packets << " packets, " << t.moves << " moves, " << t.taken
             << " pieces taken (" << t.fell_back << " of the other pool), "
             << t.given << " given back (" << t.given_elsewhere
             << " elsewhere), " << t.waits << " waits, " << t.requests
             << " requests, " << t.refusals << " refused, " << t.no_pieces
             << " no_pieces, " << t.went_without << " went without, "
             << t.reclaims << " reclaims, " << t.returns << " returns, "
             << t.aliases << " aliases, " << t.aliases_refused << " refused, "
             << t.acks_doubled << " acks doubled, " << t.notes << " notes, "
             << t.timers << " timers, " << t.flows_ended << " flows ended, "
             << t.stops << " stops, " << t.starts << " starts";
}

// A packet asks this of the NF; it is the packet's bytes.
struct PieceWanted {
  uint64_t clock;
  PiecePreference piece;
  uint16_t pool;
  uint16_t alias_port;
  uint32_t group_limit;
  bool takes;
  bool gives;
  bool insists;     // it does not go without a piece
  bool falls_back;  // it takes one of the other pool too
  bool sets_alias;
  bool ends;
  bool sets_timer;
  bool emits;
  bool drops;
};

inline PieceWanted AnyWanted(uint64_t clock, uint64_t alias_ports, Rng& rng) {
  PieceWanted wanted{};
  const auto one_in = [&](uint64_t n) { return rng.Below(n) == 0; };
  wanted.clock = clock;
  wanted.piece.first = static_cast<uint32_t>(one_in(4) ? rng.Below(200) : 0);
  wanted.piece.last =
      static_cast<uint32_t>(one_in(4) ? rng.Below(200) : 65'535);
  wanted.piece.parity = static_cast<PiecePreference::Parity>(rng.Below(3));
  wanted.piece.preferred = static_cast<uint32_t>(rng.Below(200));
  wanted.pool = static_cast<uint16_t>(rng.Below(kTestPools));
  wanted.alias_port = static_cast<uint16_t>(rng.Below(alias_ports));
  wanted.group_limit = static_cast<uint32_t>(rng.Below(4));
  wanted.takes = one_in(2);
  wanted.gives = one_in(4);
  wanted.insists = one_in(2);
  wanted.falls_back = one_in(2);
  wanted.sets_alias = one_in(4);
  wanted.ends = one_in(20);
  wanted.sets_timer = one_in(10);
  wanted.emits = one_in(10);
  wanted.drops = one_in(10);
  return wanted;
}

inline PacketHandle MakePacket(const PieceWanted& wanted, BufferPool& buffers) {
  const PacketHandle packet = buffers.Allocate(sizeof wanted);
  std::memcpy(buffers.room(packet).data(), &wanted, sizeof wanted);
  buffers.info(packet).length = sizeof wanted;
  return packet;
}

struct PieceFlow {
  FlowId id{};
  uint64_t clock = 0;      // is that of its newest packet
  uint64_t processed = 0;  // is the last clock that was
  uint64_t left = 0;       // is the clock that left its unit last
  uint64_t digest = 0;
  UnitId owner = kNoUnit;
  UnitId serving = kNoUnit;
  std::array<uint32_t, kTestPools>
      pieces{};  // has 1 + the piece of each pool, or 0
  std::array<UnitId, kTestPools> taken_at{};
  std::optional<uint16_t> alias;  // is what the controller has
  bool is_parked = false;
  bool is_refused = false;   // on_alias_refused is to come
  bool waits = false;        // the last call asked for that
  bool lacks_piece = false;  // the last call asked for that once more
  bool is_over = false;
  uint64_t ends = 0;  // counts the calls of on_end
};
using PieceFlows = std::map<FlowId, PieceFlow>;

class PieceNf final : public NetworkFunction {
 public:
  PieceNf(UnitId unit, PieceFlows& flows, PieceLedger& ledger,
          PieceTotals& totals)
      : unit_(unit), flows_(flows), ledger_(ledger), totals_(totals) {}

  Verdict process_packet(Packet& packet, FlowState& state) override {
    PieceFlow& flow = flows_.at(state.id());
    PieceWanted wanted;
    std::memcpy(&wanted, packet.bytes().data(), sizeof wanted);
    EXPECT_EQ(wanted.clock, flow.processed + 1) << "out of order or again";
    EXPECT_EQ(flow.left, flow.processed) << "overtakes a packet";
    EXPECT_EQ(flow.serving, unit_);
    Check(flow, state);
    if (wanted.takes && flow.pieces[wanted.pool] == 0) {
      const std::optional<PoolId> missing = Missing(flow, state, wanted);
      if (missing.has_value()) return Verdict::wait(*missing);
    } else if (wanted.gives) {
      GiveBack(flow, state, wanted.pool);
    }
    Advance(flow, state, wanted.clock);
    if (wanted.emits) state.emit(packet.bytes());
    if (wanted.sets_timer) state.set_timer(Microseconds(50));
    if (wanted.sets_alias) {
      flow.is_parked = true;
      state.set_alias(AliasKey(wanted.alias_port), slot_of(flow.id) % 3,
                      wanted.group_limit);
    }
    if (wanted.ends) state.end();
    return wanted.drops ? Verdict::drop(0) : Verdict::forward();
  }

  bool has_timer() const override { return true; }
  bool may_wait(const FlowState&) const override { return true; }
  FlowScope flow_scope() const override { return FlowScope::kInsideEndpoint; }
  void on_timer(FlowState& state) override {
    PieceFlow& flow = flows_.at(state.id());
    Check(flow, state);
    GiveBack(flow, state, 0);
    Advance(flow, state, 0);
    ++totals_.timers;
  }

  void on_alias_refused(FlowState& state, AliasResult why) override {
    PieceFlow& flow = flows_.at(state.id());
    EXPECT_NE(why, AliasResult::kGranted);
    EXPECT_TRUE(flow.is_refused);
    flow.is_refused = false;
    Check(flow, state);
    GiveBack(flow, state, 1);
    Advance(flow, state, 1);
  }

  void on_end(FlowState& state) override {
    PieceFlow& flow = flows_.at(state.id());
    EXPECT_TRUE(flow.is_over);
    // The last packet's command may be there, but not seen yet.
    EXPECT_GE(flow.left + 1, flow.clock) << "before its last packet";
    Check(flow, state);
    for (uint16_t pool = 0; pool < kTestPools; ++pool) {
      GiveBack(flow, state, pool);
    }
    ++flow.ends;
  }

  std::span<const std::string_view> drop_reasons() const override {
    static constexpr std::string_view kReasons[] = {"asked_to"};
    return kReasons;
  }

  static FlowKey AliasKey(uint16_t port) {
    return EndpointKey(IpAddress{}, be16(port), IpProtocol::kUdp,
                       FlowKeyForm::kIpv4Endpoint);
  }

 private:
  // Expects the state that the call before left, wherever that was.
  void Check(const PieceFlow& flow, const FlowState& state) {
    EXPECT_FALSE(flow.is_parked) << "called before the answer";
    EXPECT_EQ(flow.ends, 0u) << "called after the end";
    EXPECT_EQ(state.get(digest_), flow.digest) << "stale state";
    for (uint16_t pool = 0; pool < kTestPools; ++pool) {
      EXPECT_EQ(state.get(pieces_.at(pool)), flow.pieces[pool]);
    }
  }
  // Returns the pool that the packet is to wait for, or to be dropped for.
  std::optional<PoolId> Missing(PieceFlow& flow, FlowState& state,
                                const PieceWanted& wanted) {
    for (const uint16_t pool : {wanted.pool, uint16_t(1 - wanted.pool)}) {
      if (flow.pieces[pool] != 0) break;
      if (Take(flow, state, pool, wanted.piece)) {
        totals_.fell_back += pool != wanted.pool ? 1 : 0;
        return std::nullopt;
      }
      flow.waits = !state.is_exhausted(PoolId{pool});
      if (flow.waits) return PoolId{pool};
      if (!wanted.falls_back) break;
    }
    flow.lacks_piece = wanted.insists;
    if (wanted.insists) return PoolId{wanted.pool};
    ++totals_.went_without;
    return std::nullopt;
  }
  bool Take(PieceFlow& flow, FlowState& state, uint16_t pool,
            const PiecePreference& wish) {
    const std::optional<uint32_t> piece = state.take(PoolId{pool}, wish);
    if (!piece.has_value()) return false;
    ledger_.Move(pool, *piece, PieceLedger::At(unit_),
                 PieceLedger::At(flow.id));
    state.put(pieces_.at(pool), *piece + 1);
    flow.pieces[pool] = *piece + 1;
    flow.taken_at[pool] = unit_;
    ++totals_.taken;
    return true;
  }
  void GiveBack(PieceFlow& flow, FlowState& state, uint16_t pool) {
    if (flow.pieces[pool] == 0) return;
    const uint32_t piece = flow.pieces[pool] - 1;
    // This comes before the call, in which the unit may give it away.
    ledger_.Move(pool, piece, PieceLedger::At(flow.id), PieceLedger::At(unit_));
    state.give_back(PoolId{pool}, piece);
    state.put(pieces_.at(pool), 0);
    flow.pieces[pool] = 0;
    ++totals_.given;
    totals_.given_elsewhere += flow.taken_at[pool] != unit_ ? 1 : 0;
  }
  void Advance(PieceFlow& flow, FlowState& state, uint64_t step) {
    flow.digest = (flow.digest ^ step) * 0x9e37'79b9'7f4a'7c15 + 1;
    state.put(digest_, flow.digest);
  }

  UnitId unit_;
  PieceFlows& flows_;
  PieceLedger& ledger_;
  PieceTotals& totals_;
  Slot<uint64_t> digest_ = declare<uint64_t>("digest");
  std::array<Slot<uint32_t>, kTestPools> pieces_ = {
      declare<uint32_t>("first"), declare<uint32_t>("second")};
};

}  // namespace snf

#endif  // SNF_RUNTIME_CORE_TEST_PIECES_H_
