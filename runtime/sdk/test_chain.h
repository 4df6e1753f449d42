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
// tell it.
//
// The NF is "step". A packet's bytes are words. The first word is dots, into
// which each NF that sees the packet writes its id, so that the packet shows
// its way. Each other word is for one NF: "b:drop" is for the one with id=b.
//
//   drop, other         drop for "denied", for "other"
//   consume
//   suspicious, odd     labels; else it finds "clean"
//   parity              label "clean" or "odd" by the number of packets so far
//   emit                emits its id and the number of packets so far
//   take, give          takes or gives a piece of its pool; it waits, or emits
//                       "none" if the pool is exhausted
//   timer5, cancel      sets a timer in 5 ms, which emits; cancels it
//   again5              the same, but each timer sets the next
//   bye5                the same, but the timer ends the flow
//   note                appends to its blob; log3 writes at 3
//   forget              erases its blob
//   idle7, end, alias3  sets an idle timeout of 7 ms, ends the flow, sets an
//                       alias of group 3
//
// Its options: id; state gives it slots "packets" and "log" (needed for
// pieces); pool is the number of its pieces; timer and sided give it a timer
// and two sides; with holder it may wait only while it has no piece, otherwise
// always. It counts "packets", and on_end gives back its piece and emits its id
// and "end".
namespace snf {

// The services of a unit for an NF, and the requests made to them.
class ChainWorld final : public FlowServices {
 public:
  // The requests of one call.
  struct Said {
    std::vector<std::string> frames;
    std::optional<uint64_t> alias_group;
    std::optional<Nanos> idle_timeout;
    bool is_over = false;
    bool operator==(const Said&) const = default;
  };

  // Adds the pools of `nf`, each with `pieces` pieces.
  void AddPools(const NetworkFunction& nf, uint32_t pieces);

  bool Emit(std::span<const std::byte> frame) override;
  // Takes the lowest piece, or if there is none one that was given back in this
  // call.
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
  // Ends the call: returns its requests and forgets them.
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
  // Each of these expects that the record is well-formed and that every change
  // was noted; if the packet waits, that nothing changed.
  Outcome Send(NetworkFunction& nf, ChainWorld& world,
               const ChainPacket& packet);
  ChainWorld::Said on_timer(NetworkFunction& nf, ChainWorld& world);
  ChainWorld::Said on_end(NetworkFunction& nf, ChainWorld& world, Instant now);
  ChainWorld::Said on_alias_refused(NetworkFunction& nf, ChainWorld& world,
                                    Instant now);

  // Sends packets of several flows in one burst. They share `world`; all
  // requests appear in the first outcome.
  static std::vector<Outcome> SendBurst(Chain& chain, ChainWorld& world,
                                        std::span<ChainFlow* const> flows,
                                        std::span<const ChainPacket> packets);

  // The bytes of a slot, as "nat.mapping", or nothing if it has no value.
  std::optional<std::string> ValueOf(std::string_view name) const;
  // The same as a number of 8 bytes; 0 if the slot has no value.
  uint64_t Number(std::string_view name) const;

  std::vector<std::byte> record;
  Instant timer = Instant::max();

 private:
  struct Call;
  const StateSchema* schema_;
};

// Makes the NF of this text, which must be valid.
std::unique_ptr<NetworkFunction> MakeChain(std::string_view text);
std::string_view AsText(std::span<const std::byte> bytes);

}  // namespace snf

#endif  // SNF_RUNTIME_SDK_TEST_CHAIN_H_
