// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_SYSTEM_TEST_TEST_FAILOVER_NF_H_
#define SNF_PLATFORM_SYSTEM_TEST_TEST_FAILOVER_NF_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/packet/flow_key.h"
#include "base/packet/link_type.h"
#include "runtime/sdk/nf.h"

namespace snf {

// What a packet may ask of FailoverNf, in any combination.
inline constexpr uint8_t kAskPiece = 1 << 0;   // and the alias that it names
inline constexpr uint8_t kAskSwap = 1 << 1;    // gives its piece for another
inline constexpr uint8_t kAskTimer = 1 << 2;   // due at once
inline constexpr uint8_t kAskEnd = 1 << 3;     // the flow is over
inline constexpr uint8_t kAskCommon = 1 << 4;  // the alias that all flows want

// A packet of a world of failures: its number, from 1, and what it asks for.
struct FailoverPacket {
  uint64_t number = 0;
  uint64_t asks = 0;
};

// Its digest is made of all that it has seen, in order. So state that is stale,
// lost or doubled shows with the next clock.
class FailoverNf final : public NetworkFunction {
 public:
  explicit FailoverNf(uint32_t pieces);

  // What one call did, and what the flow has after it.
  struct Did {
    uint64_t seen = 0;  // the digest before
    uint64_t adds = 0;  // to the digest; 0: the NF did not run
    FlowKey alias{};    // that the flow has announced
    uint32_t pieces = 0;
    bool is_armed = false;
    bool has_ended = false;
    std::array<uint64_t, 4> counts{};  // merged into the shared table, by key
  };
  static constexpr size_t kCountKeys = 4;
  static constexpr uint64_t kErasedKey = 1;  // by some timers
  // What the last call did. A caller clears these before.
  Did did;
  bool was_called = false;

  static uint64_t Extended(uint64_t digest, uint64_t next);
  static constexpr uint64_t kFired = 1'000'000;  // extends it for a timer
  static FlowKey AliasOf(uint32_t number);
  static FlowKey CommonAlias() { return AliasOf(kCommon); }

  FlowScope flow_scope() const override { return FlowScope::kInsideEndpoint; }
  bool has_timer() const override { return true; }
  Verdict process_packet(Packet& packet, FlowState& flow) override;
  void on_timer(FlowState& flow) override;
  void on_end(FlowState& flow) override;
  void on_alias_refused(FlowState& flow, AliasResult why) override;

 private:
  static constexpr uint32_t kCommon = 1'000;  // no piece has this number

  bool TakePiece(FlowState& flow);
  void Count(uint64_t key, uint64_t n);
  void Note(FlowState& flow, uint64_t adds);
  void NoteWhatIsThere(const FlowState& flow);

  PoolId pool_{};
  uint32_t pieces_;
  Slot<uint64_t> digest_ = declare<uint64_t>("digest");
  Slot<uint32_t> piece_ = declare<uint32_t>("piece");
  Slot<uint32_t> alias_ = declare<uint32_t>("alias");
  Slot<uint8_t> armed_ = declare<uint8_t>("armed");
  // Has too little room: some keys are in the rest.
  SharedTable<uint64_t, uint64_t> counts_ = declare_shared<uint64_t, uint64_t>(
      "counts", 3, SumOfWords{}, TableReader::kReport);
};

}  // namespace snf

#endif  // SNF_PLATFORM_SYSTEM_TEST_TEST_FAILOVER_NF_H_
