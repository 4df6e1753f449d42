// SPDX-License-Identifier: Apache-2.0
#include "platform/check/single_unit_oracle.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <optional>
#include <vector>

namespace snf {
namespace {

using testing::HasSubstr;

constexpr FlowId kFlow = MakeFlowId(0, 7, 3);
constexpr FlowId kOther = MakeFlowId(0, 8, 0);

// What the first byte of a packet asks for.
enum : uint8_t {
  kNumber,
  kDropEvery3rd,
  kConsumeEvery3rd,
  kEmitNumber,
  kFlood,
  kSetTimer,
  kTakePiece,  // and keep it; its number goes into the second byte
  kGivePiece,  // give back the one taken last
  kSetAlias,   // and take a piece
};
constexpr PoolId kPool{0};

// Writes into the second byte of each packet how many its flow had.
class Numbering final : public NetworkFunction {
  Slot<uint32_t> packets_ = declare<uint32_t>("packets");
  Slot<uint32_t> piece_ = declare<uint32_t>("piece");

  Verdict process_packet(Packet& packet, FlowState& flow) override {
    const uint32_t number = flow.get(packets_) + 1;
    flow.put(packets_, number);
    const std::span<std::byte> bytes = packet.bytes();
    bytes[1] = static_cast<std::byte>(number);
    switch (std::to_integer<uint8_t>(bytes[0])) {
      case kDropEvery3rd:
        return number % 3 == 0 ? Verdict::drop(1) : Verdict::forward();
      case kConsumeEvery3rd:
        return number % 3 == 0 ? Verdict::consume() : Verdict::forward();
      case kEmitNumber:
        for (uint32_t i = 0; i < number; ++i) flow.emit(bytes.subspan(1));
        break;
      case kFlood:
        // No longer the flow's packets: how many were emitted.
        for (flow.put(packets_, 0u); flow.emit(bytes);) {
          flow.put(packets_, flow.get(packets_) + 1);
        }
        break;
      case kSetTimer:
        flow.set_timer(Milliseconds(1));
        break;
      case kTakePiece:
      case kSetAlias: {
        const auto piece = flow.take(kPool, {});
        if (!piece.has_value() && !flow.is_exhausted(kPool)) {
          return Verdict::wait(kPool);
        }
        bytes[1] = static_cast<std::byte>(piece.value_or(0xff));
        flow.put(piece_, piece.value_or(0));
        if (std::to_integer<uint8_t>(bytes[0]) == kSetAlias) flow.set_alias({});
        break;
      }
      case kGivePiece:
        flow.give_back(kPool, flow.get(piece_));
        break;
      default:
        break;
    }
    return Verdict::forward();
  }
  void on_timer(FlowState& flow) override {
    flow.put(packets_, flow.get(packets_) + 100);
    const std::byte frame{};
    flow.emit({&frame, 1});
  }
  bool has_timer() const override { return true; }
  bool may_wait(const FlowState&) const override { return true; }
  FlowScope flow_scope() const override { return FlowScope::kInsideEndpoint; }
  void on_alias_refused(FlowState& flow, AliasResult) override {
    flow.give_back(kPool, flow.get(piece_));
    const std::byte frame{};
    flow.put(packets_, 100u);
    while (flow.emit({&frame, 1})) flow.put(packets_, flow.get(packets_) + 1);
  }
  std::span<const std::string_view> drop_reasons() const override {
    static constexpr std::string_view kReasons[] = {"never", "third"};
    return kReasons;
  }
};
SNF_REGISTER_NF(Numbering, "test_numbering", "numbers a flow's packets");

// The same without a slot: what it keeps does not move with the flow.
class Forgetful final : public NetworkFunction {
  Verdict process_packet(Packet& packet, FlowState&) override {
    packet.bytes()[0] = static_cast<std::byte>(++packets_);
    return Verdict::forward();
  }
  uint8_t packets_ = 0;
};
SNF_REGISTER_NF(Forgetful, "test_forgetful", "keeps nothing a flow");

// A unit in small: runs the NF on records that a test may spoil.
class SingleUnitOracleTest : public testing::Test, protected FlowServices {
 protected:
  // Runs a packet of `bytes` at the unit and here.
  std::string Run(FlowId flow, std::vector<uint8_t> bytes) {
    packet_ = pool_.Allocate(static_cast<uint32_t>(bytes.size()));
    pool_.info(packet_).length = static_cast<uint32_t>(bytes.size());
    std::memcpy(pool_.room(packet_).data(), bytes.data(), bytes.size());
    oracle_.Before(pool_.info(packet_), pool_.bytes(packet_));
    meta_.flow = flow;
    meta_.clock = meta_.clock + 1;
    out_.clear();
    taken_.clear();
    has_alias_ = false;
    RunAtUnit();
    const uint32_t in_use = pool_.in_use();
    const auto [difference, pieces] =
        oracle_.After(now_, meta_, uniqueness_,
                      {.buffers = pool_,
                       .packet = packet_,
                       .commands = out_.commands(),
                       .pieces_taken = taken_,
                       .record = std::as_bytes(std::span(records_[flow]))});
    EXPECT_EQ(pool_.in_use(), in_use);
    EXPECT_EQ(pieces, "");
    for (const UnitCommand& command : out_.commands()) {
      if (command.kind == UnitCommand::Kind::kEmit) pool_.Free(command.packet);
    }
    pool_.Free(packet_);
    return difference;
  }

  // Brings a timer packet of the flow, which arrives now.
  std::string RunTimer(FlowId flow) {
    meta_ = {.flow = flow,
             .clock = meta_.clock + 1,
             .arrival = now_,
             .flags = PacketMeta::kNull | PacketMeta::kTimer};
    out_.clear();
    taken_.clear();
    PacketsOf(flow);
    if (TimerOf(flow) <= now_) {
      StateView state(std::as_writable_bytes(std::span(records_[flow])));
      FlowState called(flow, now_, Instant::max(), state, *this);
      nf_->on_timer(called);
      TimerOf(flow) = called.timer();
    }
    out_.push(
        UnitCommand::OfPacket(UnitCommand::Kind::kAdvance, kNoPacket, meta_));
    const auto [difference, pieces] =
        oracle_.After(now_, meta_, uniqueness_,
                      {.buffers = pool_,
                       .packet = kNoPacket,
                       .commands = out_.commands(),
                       .pieces_taken = taken_,
                       .record = std::as_bytes(std::span(records_[flow]))});
    for (const UnitCommand& command : out_.commands()) {
      if (command.kind == UnitCommand::Kind::kEmit) pool_.Free(command.packet);
    }
    meta_.flags = 0;
    return difference;
  }

  Instant& TimerOf(FlowId flow) {
    return timers_.try_emplace(flow, Instant::max()).first->second;
  }
  uint32_t& PacketsOf(FlowId flow) {
    // The slot lies behind the bits of presence, which are set at once.
    std::vector<uint64_t>& record = records_[flow];
    record.resize(3);
    record[0] |= 1;
    return reinterpret_cast<uint32_t&>(record[1]);
  }

  Instant now_{1};
  BufferPool pool_{{.small = 64, .medium = 0, .large = 0}};
  std::vector<uint32_t> free_;  // pieces at the unit
  bool is_exhausted_ = true;    // if there is none, and else unasked
  UniquenessCheck uniqueness_;
  SingleUnitOracle oracle_{registration_of_Numbering};

 private:
  void RunAtUnit() {
    PacketsOf(meta_.flow);
    StateView state(std::as_writable_bytes(std::span(records_[meta_.flow])));
    FlowState flow(meta_.flow, now_, TimerOf(meta_.flow), state, *this);
    Packet packet(pool_.info(packet_), pool_.bytes(packet_));
    const Verdict verdict = nf_->process_packet(packet, flow);
    TimerOf(meta_.flow) = flow.timer();
    using Kind = UnitCommand::Kind;
    UnitCommand done = UnitCommand::OfPacket(Kind::kRelease, packet_, meta_);
    if (verdict.kind() == Verdict::Kind::kDrop) {
      done.kind = Kind::kNfDrop;
      done.nf_reason = verdict.reason();
    } else if (verdict.kind() == Verdict::Kind::kConsume) {
      done.kind = Kind::kConsume;
    } else if (verdict.kind() == Verdict::Kind::kWait) {
      done.kind = Kind::kDrop;
      done.reason = DropReason::kNoPieces;
    }
    if (has_alias_) {
      done = UnitCommand::OfPacket(Kind::kSendAlias, kNoPacket, meta_);
    }
    out_.push(done);
    out_.push(UnitCommand::Report(Takeover{}));  // says nothing of the packet
  }
  bool Emit(std::span<const std::byte> frame) override {
    const auto length = static_cast<uint32_t>(frame.size());
    size_t emitted = 0;
    for (const UnitCommand& command : out_.commands()) {
      emitted += command.kind == UnitCommand::Kind::kEmit ? 1 : 0;
    }
    if (emitted == FlowState::kMaxEmits) return false;
    const PacketHandle packet = pool_.Allocate(length);
    if (packet == kNoPacket) return false;
    pool_.info(packet).length = length;
    std::memcpy(pool_.room(packet).data(), frame.data(), length);
    out_.push(UnitCommand::OfPacket(UnitCommand::Kind::kEmit, packet, meta_));
    return true;
  }
  std::optional<uint32_t> TakePiece(PoolId, const PiecePreference&) override {
    const bool empty = free_.empty();
    taken_.push_back(empty ? std::nullopt : std::optional(free_.back()));
    if (!empty) free_.pop_back();
    return taken_.back();
  }
  void GivePiece(PoolId, uint32_t piece) override { free_.push_back(piece); }
  bool IsExhausted(PoolId) const override { return is_exhausted_; }
  void SetAlias(const FlowKey&, uint64_t, uint32_t) override {
    has_alias_ = true;
  }
  void Note(Nanos, bool) override {}

  std::unique_ptr<NetworkFunction> nf_ = registration_of_Numbering.create();
  std::map<FlowId, std::vector<uint64_t>> records_;
  std::map<FlowId, Instant> timers_;
  PacketMeta meta_;
  PacketHandle packet_ = kNoPacket;
  UnitOut out_;
  std::vector<std::optional<uint32_t>> taken_;
  bool has_alias_ = false;
};

TEST_F(SingleUnitOracleTest, FindsNoDifferenceWhereStateIsRight) {
  for (int i = 0; i < 7; ++i) {
    for (const uint8_t ask :
         {kNumber, kDropEvery3rd, kConsumeEvery3rd, kEmitNumber}) {
      EXPECT_EQ(Run(kFlow, {ask, 0, 5}), "");
      EXPECT_EQ(Run(kOther, {ask, 0, 5, 6}), "");
    }
    PacketsOf(kFlow) = 0;  // and for the reference it is another flow:
    oracle_.Forget(kFlow);
  }
}

TEST_F(SingleUnitOracleTest, NamesTheFirstByteThatStaleStateChanges) {
  EXPECT_EQ(Run(kFlow, {kNumber, 0, 5}), "");
  EXPECT_EQ(Run(kFlow, {kNumber, 0, 5}), "");
  PacketsOf(kFlow) = 1;
  EXPECT_EQ(Run(kFlow, {kNumber, 0, 5}),
            "of the packet byte 1 is 02, should be 03");
}

TEST_F(SingleUnitOracleTest, NamesTheVerdictThatStateChanges) {
  PacketsOf(kFlow) = 2;
  EXPECT_EQ(Run(kFlow, {kDropEvery3rd, 0}),
            "the packet was dropped for reason 1, should be forwarded");
  EXPECT_EQ(Run(kOther, {kNumber, 0}), "");
  EXPECT_EQ(Run(kOther, {kNumber, 0}), "");
  PacketsOf(kOther) = 7;
  EXPECT_EQ(Run(kOther, {kConsumeEvery3rd, 0}),
            "the packet was forwarded, should be consumed");
}

TEST_F(SingleUnitOracleTest, NamesTheFrameThatStateChanges) {
  PacketsOf(kFlow) = 1;
  EXPECT_EQ(Run(kFlow, {kEmitNumber, 0, 9}),
            "of frame 1 that it emitted byte 0 is 02, should be 01");
}

TEST_F(SingleUnitOracleTest, CountsTheFramesOfAFlood) {
  EXPECT_EQ(Run(kFlow, {kFlood, 0}), "");
  PacketsOf(kFlow) = 3;
  EXPECT_THAT(Run(kFlow, {kFlood, 0}), HasSubstr("byte 1 is 04"));
}

// What the unit emitted, held against an NF that emits more, or less.
TEST_F(SingleUnitOracleTest, TellsFramesThatAreMissingFromThoseTooMany) {
  const auto frames = [&](uint32_t count) {
    UnitOut out;
    const auto bytes = [&](PacketHandle packet, uint8_t first) {
      pool_.info(packet).length = 2;
      pool_.room(packet)[0] = std::byte{first};
      pool_.room(packet)[1] = std::byte{1};
      return packet;
    };
    const PacketHandle packet = pool_.Allocate(2);
    bytes(packet, kEmitNumber);
    pool_.bytes(packet)[1] = std::byte{0};
    oracle_.Before(pool_.info(packet), pool_.bytes(packet));
    for (uint32_t i = 0; i < count; ++i) {
      const PacketHandle frame = pool_.Allocate(2);
      bytes(frame, 1);
      pool_.info(frame).length = 1;
      out.push(UnitCommand::OfPacket(UnitCommand::Kind::kEmit, frame, {}));
    }
    bytes(packet, kEmitNumber);
    out.push(UnitCommand::OfPacket(UnitCommand::Kind::kRelease, packet, {}));
    PacketMeta meta;
    meta.flow = MakeFlowId(0, count, 1);
    return oracle_
        .After(Instant{}, meta, uniqueness_,
               {.buffers = pool_,
                .packet = packet,
                .commands = out.commands(),
                .pieces_taken = {}})
        .difference;
  };
  EXPECT_EQ(frames(1), "");
  EXPECT_EQ(frames(0), "it emitted 0 frames and no more");
  EXPECT_EQ(frames(2), "it emitted 2 frames, should be 1");
}

TEST_F(SingleUnitOracleTest, KnowsThatAnNfCannotEmitWithoutBuffers) {
  std::vector<PacketHandle> taken;
  for (int i = 0; i < 56; ++i) taken.push_back(pool_.Allocate(1));
  // 8 are free, one is for the packet.
  EXPECT_EQ(Run(kFlow, {kFlood, 0}), "");
  EXPECT_EQ(PacketsOf(kFlow), 7u);
  EXPECT_EQ(Run(kFlow, {kNumber, 0}), "");  // the same here
  for (const PacketHandle packet : taken) pool_.Free(packet);
}

TEST_F(SingleUnitOracleTest, ReportsAFlowOnce) {
  PacketsOf(kFlow) = 1;
  EXPECT_NE(Run(kFlow, {kNumber, 0}), "");
  EXPECT_EQ(Run(kFlow, {kNumber, 0}), "");
  EXPECT_EQ(oracle_.not_compared(SingleUnitOracle::Cause::kDifference), 1u);
  EXPECT_EQ(oracle_.not_compared(), 1u);
  PacketsOf(kOther) = 1;
  EXPECT_NE(Run(kOther, {kNumber, 0}), "");
}

// Where nothing of the packet shows it.
TEST_F(SingleUnitOracleTest, NamesTheByteOfStateThatDiffers) {
  EXPECT_EQ(Run(kFlow, {kNumber, 0}), "");
  PacketsOf(kFlow) = 0x301;  // of which packets show the lowest byte
  EXPECT_EQ(Run(kFlow, {kNumber, 0}),
            "of the state byte 9 is 03, should be 00");
}

TEST_F(SingleUnitOracleTest, RunsATimerAtTheTimerPacketWhereItIsDue) {
  EXPECT_EQ(Run(kFlow, {kSetTimer, 0}), "");
  now_ = now_ + Milliseconds(1) + Nanos{-1};
  EXPECT_EQ(RunTimer(kFlow), "");  // it is too early
  now_ = now_ + Nanos{1};
  EXPECT_EQ(Run(kFlow, {kNumber, 0}), "");
  EXPECT_EQ(RunTimer(kFlow), "");
  EXPECT_EQ(PacketsOf(kFlow), 102u);
  EXPECT_EQ(RunTimer(kFlow), "");  // it has run
  EXPECT_EQ(Run(kFlow, {kNumber, 0}), "");
  EXPECT_EQ(oracle_.compared(), 3u);
  EXPECT_EQ(oracle_.not_compared(), 0u);
}

TEST_F(SingleUnitOracleTest, FindsATimerThatRanOnAnotherStateOrNotAtAll) {
  EXPECT_EQ(Run(kFlow, {kSetTimer, 0}), "");
  EXPECT_EQ(Run(kOther, {kSetTimer, 0}), "");
  now_ = now_ + Milliseconds(1);
  PacketsOf(kFlow) = 9;
  EXPECT_THAT(RunTimer(kFlow), HasSubstr("of the state byte 8"));
  TimerOf(kOther) = Instant::max();
  EXPECT_THAT(RunTimer(kOther), HasSubstr("it emitted"));
}

TEST_F(SingleUnitOracleTest, ComparesOnWhenATimerIsSetAnew) {
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(Run(kFlow, {kSetTimer, 0}), "");
    now_ = now_ + Milliseconds(1) + Nanos{-1};
  }
  EXPECT_EQ(oracle_.compared(), 5u);
}

TEST_F(SingleUnitOracleTest, KeepsARecordUntilTheFlowIsForgotten) {
  EXPECT_EQ(Run(kFlow, {kNumber, 0}), "");
  EXPECT_EQ(Run(kOther, {kNumber, 0}), "");
  EXPECT_EQ(oracle_.flows(), 2u);
  oracle_.Forget(kFlow);
  EXPECT_EQ(oracle_.flows(), 1u);
  PacketsOf(kFlow) = 0;
  EXPECT_EQ(Run(kFlow, {kNumber, 0}), "");
  EXPECT_EQ(Run(kOther, {kNumber, 0}), "");
}

// A piece that the unit had, and here nobody knows of.
TEST_F(SingleUnitOracleTest, TakesThePiecesThatTheUnitTook) {
  uniqueness_.on_granted(
      {.word = 1, .pool = 0, .unit = UnitId{1}, .mask = ~0ull});
  free_ = {70, 71, 72};
  EXPECT_EQ(Run(kFlow, {kTakePiece, 0}), "");
  EXPECT_EQ(Run(kOther, {kTakePiece, 0}), "");
  EXPECT_EQ(Run(kFlow, {kNumber, 0}), "");
  // The unit's NF gives piece 71 back, and takes it again.
  EXPECT_EQ(Run(kOther, {kGivePiece, 0}), "");
  EXPECT_EQ(Run(kFlow, {kGivePiece, 0}), "");
  EXPECT_EQ(Run(kFlow, {kTakePiece, 0}), "");
}

TEST_F(SingleUnitOracleTest, FindsAPoolExhaustedWhereTheUnitDid) {
  EXPECT_EQ(Run(kFlow, {kTakePiece, 0}), "");
  EXPECT_EQ(Run(kFlow, {kTakePiece, 0}), "");
}

TEST_F(SingleUnitOracleTest, FindsNoPoolExhaustedForAPacketThatWouldWait) {
  is_exhausted_ = false;
  EXPECT_EQ(Run(kFlow, {kTakePiece, 0}), "");
}

TEST_F(SingleUnitOracleTest, ComparesBytesBeforeTheAliasIsAnswered) {
  uniqueness_.on_granted(
      {.word = 0, .pool = 0, .unit = UnitId{1}, .mask = ~0ull});
  free_ = {1, 2};
  EXPECT_EQ(Run(kFlow, {kSetAlias, 0, 5}), "");
  PacketsOf(kFlow) = 116;  // what on_alias_refused makes of it
  oracle_.on_alias_refused(now_, kFlow, AliasResult::kConflict, uniqueness_,
                           pool_);
  EXPECT_EQ(Run(kFlow, {kNumber, 0}), "");
  // It gave the piece back, so that another may have it.
  free_ = {2};
  EXPECT_EQ(Run(kOther, {kTakePiece, 0}), "");
  PacketsOf(kOther) = 7;
  EXPECT_THAT(Run(kOther, {kEmitNumber, 0, 5}), HasSubstr("frame 1"));
}

// As the unit's NF is about to; what it takes is there again for that.
TEST_F(SingleUnitOracleTest, EmitsForARefusedAliasWhatThereAreBuffersFor) {
  uniqueness_.on_granted(
      {.word = 0, .pool = 0, .unit = UnitId{1}, .mask = ~0ull});
  for (const uint32_t buffers : {3u, 0u}) {
    free_ = {1};
    EXPECT_EQ(Run(kFlow, {kSetAlias, 0, 5}), "");
    std::vector<PacketHandle> others(64 - buffers);
    for (PacketHandle& other : others) other = pool_.Allocate(1);
    oracle_.on_alias_refused(now_, kFlow, AliasResult::kConflict, uniqueness_,
                             pool_);
    EXPECT_EQ(pool_.in_use(), others.size());
    for (const PacketHandle other : others) pool_.Free(other);
    PacketsOf(kFlow) = 100 + buffers;
    EXPECT_EQ(Run(kFlow, {kNumber, 0}), "");
  }
}

// A unit that ran another flow's packet before.
TEST_F(SingleUnitOracleTest, FindsWhatAnNfWithoutSlotsKeeps) {
  SingleUnitOracle oracle(registration_of_Forgetful);
  const PacketHandle packet = pool_.Allocate(1);
  pool_.info(packet).length = 1;
  const UnitCommand done =
      UnitCommand::OfPacket(UnitCommand::Kind::kRelease, packet, {});
  const auto make = [&](uint8_t byte) {
    oracle.Before(pool_.info(packet), pool_.bytes(packet));
    pool_.bytes(packet)[0] = std::byte{byte};
    return oracle
        .After(Instant{}, {}, uniqueness_,
               {.buffers = pool_,
                .packet = packet,
                .commands = {&done, 1},
                .pieces_taken = {}})
        .difference;
  };
  EXPECT_EQ(make(1), "");
  EXPECT_EQ(make(3), "of the packet byte 0 is 03, should be 02");
  EXPECT_EQ(oracle.compared(), 2u);
}

}  // namespace
}  // namespace snf
