// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RUNTIME_SDK_TEST_CHAIN_H_
#define SNF_RUNTIME_SDK_TEST_CHAIN_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/packet/packet_info.h"
#include "runtime/sdk/chain.h"
#include "runtime/sdk/nf.h"
#include "runtime/sdk/nf_spec.h"

// For tests of chains: flows without a unit, and an NF that does what packets
// say.
//
// "step": a packet's bytes are words. Into the first, of dots, each NF that
// sees the packet writes its id: what comes out shows the way. The others are
// for one NF each: "b:drop" is for that with id=b.
//
//   drop, other         drop for "denied", for "other"
//   consume
//   suspicious, odd     labels; else it finds "clean"
//   parity              "clean" or "odd" by the number of packets so far
//   emit                its id and the number of packets so far
//   take, give          a piece of its pool; it waits, or if the pool is
//                       exhausted emits "none"
//   timer5, cancel      a timer in 5 ms; when it runs out, it emits
//   again5              the same, but each timer sets the next
//   bye5                the same, but the timer ends the flow
//   note                appends to its blob; log3 writes at 3
//   forget              erases its blob
//   idle7, end, alias3  of its flow: a timeout of 7 ms; the group 3
//
// Its options: id; state, for slots "packets" and "log" (pieces need it); pool,
// its pieces; timer, sided: whether it has such; holder: it may wait where it
// has no piece, and otherwise always. It counts "packets", and at on_end gives
// back its piece and emits its id and "end".
namespace snf {

// What a unit does for an NF, and what was asked of it.
class ChainWorld final : public FlowServices {
 public:
  // What one call said.
  struct Said {
    std::vector<std::string> frames;
    std::optional<uint64_t> alias_group;
    std::optional<Nanos> idle_timeout;
    bool is_over = false;
    bool operator==(const Said&) const = default;
  };

  // Those of `nf`, each with so many pieces.
  void AddPools(const NetworkFunction& nf, uint32_t pieces);

  bool Emit(std::span<const std::byte> frame) override;
  // The least; if none is there, one that was given back in this call.
  std::optional<uint32_t> TakePiece(PoolId pool,
                                    const PiecePreference& wish) override;
  void GivePiece(PoolId pool, uint32_t piece) override;
  bool IsExhausted(PoolId pool) const override {
    return exhausted == static_cast<uint16_t>(pool);
  }
  void SetAlias(const FlowKey&, uint64_t group, uint32_t) override {
    said.alias_group = group;
  }
  void Note(Nanos idle_timeout, bool over) override {
    if (idle_timeout.ns >= 0) said.idle_timeout = idle_timeout;
    said.is_over |= over;
  }
  // The call is over: what it said, from now on nothing.
  Said EndCall();

  std::vector<std::set<uint32_t>> pools;
  std::optional<uint16_t> exhausted;
  Said said;

 private:
  std::vector<std::pair<uint16_t, uint32_t>> given_;  // in this call
};

struct ChainPacket {
  Side side = Side::kUnknown;
  uint8_t far_end = 0;
  std::string bytes = "....";
  Instant now{};
};

// One flow of a chain (or of any NF) without a unit.
class ChainFlow {
 public:
  explicit ChainFlow(const NetworkFunction& nf)
      : record(nf.schema().record_bytes()), schema_(&nf.schema()) {}

  struct Outcome {
    // "forward", "drop: denied", "consume", "wait: 2"
    std::string verdict;
    std::string bytes;
    ChainWorld::Said said;
    bool operator==(const Outcome&) const = default;
  };
  // Each expects of the record that it is well-formed, and that what changed
  // was noted; of a packet that waits, that nothing did.
  Outcome Send(NetworkFunction& nf, ChainWorld& world,
               const ChainPacket& packet);
  ChainWorld::Said on_timer(NetworkFunction& nf, ChainWorld& world);
  ChainWorld::Said on_end(NetworkFunction& nf, ChainWorld& world, Instant now);
  ChainWorld::Said on_alias_refused(NetworkFunction& nf, ChainWorld& world,
                                    Instant now);

  // A slot's bytes, or none; "nat.mapping".
  std::optional<std::string> ValueOf(std::string_view name) const;
  // As a number of 8 bytes; 0 for none.
  uint64_t Number(std::string_view name) const;

  std::vector<std::byte> record;
  Instant timer = Instant::max();

 private:
  struct Call;
  const StateSchema* schema_;
};

// The NF of this text, which must be good.
std::unique_ptr<NetworkFunction> MakeChain(std::string_view text);
std::string_view AsText(std::span<const std::byte> bytes);

}  // namespace snf

#endif  // SNF_RUNTIME_SDK_TEST_CHAIN_H_
