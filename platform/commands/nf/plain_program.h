// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_COMMANDS_NF_PLAIN_PROGRAM_H_
#define SNF_PLATFORM_COMMANDS_NF_PLAIN_PROGRAM_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <queue>
#include <span>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "base/ids.h"
#include "base/messages/drop_reason.h"
#include "base/messages/messages.h"
#include "base/packet/flow_key.h"
#include "base/packet/ip_prefix.h"
#include "base/time.h"
#include "platform/commands/nf/remote_state.h"
#include "platform/run/digest.h"
#include "platform/run/ingress.h"
#include "runtime/ring/buffer_pool.h"
#include "runtime/sdk/chain.h"
#include "runtime/sdk/nf.h"
#include "runtime/sdk/nf_call.h"
#include "runtime/sdk/nf_spec.h"
#include "runtime/sdk/piece_set.h"
#include "runtime/tables/lone_tables.h"
#include "traces/capture_reader.h"

namespace snf {

// Outcomes of a plain program's packets. A packet is released, consumed or
// dropped, or passes through because it has no flow.
struct PlainTotals {
  uint64_t packets_in = 0;
  uint64_t packets_released = 0;
  uint64_t packets_consumed = 0;
  uint64_t packets_passed_through = 0;
  uint64_t packets_emitted = 0;  // of the NF's own making
  std::array<uint64_t, kDropReasons> dropped{};
  std::array<uint64_t, Chain::kMaxReasons> nf_dropped{};
  uint64_t flows = 0;
};

// Theory of operation. Runs an NF like a program written without SNF: a thread
// takes a packet, finds its flow in a table, calls the NF and releases the
// packet. There are no units, flowlets, clocks and messages; timers run when
// the next packet comes. The part before (Ingress) is the same as in other
// runs, so a difference in cost is due to the platform. A packet that leaves
// for another flow's alias is not brought back.
//
// A table that has a timer, a trigger or keys that expire has its home here,
// and each call's updates are merged at once (LoneTables); other tables have
// none.
//
// With a RemoteState, the state that Where names is in a store, where tables
// have no timers, triggers and expiry: packets are taken in batches, whose
// requests go together, and between two batches a flow's state is only in the
// store.
//
// Owner-thread only. Memory: 2 KB for each packet of a batch, and for each flow
// the state and some 300 bytes.
class PlainProgram final : private FlowServices {
 public:
  struct Options {
    std::vector<IpPrefix> inside;  // as RunOptions
    Nanos flow_timeout = Seconds(300);
    uint32_t batch = 1;  // packets
    // Gets each packet that is released or passes through, which is valid
    // during the call; may be null.
    std::function<void(const CapturedPacket&)> released = nullptr;
  };

  // `nf` must be OK, and `remote` may be null; it must outlive this.
  PlainProgram(const NfSpec& nf, const Options& options, RemoteState* remote);
  ~PlainProgram();
  PlainProgram(const PlainProgram&) = delete;
  PlainProgram& operator=(const PlainProgram&) = delete;

  // Takes a packet, at its time, which does not run backwards. Runs the batch
  // that it fills. Returns errors of the store.
  absl::Status Take(const CapturedPacket& packet);
  // Runs the packets that were taken and wait for others.
  absl::Status Flush();
  // Ends all flows. Call once, in the end.
  absl::Status Finish();

  const PlainTotals& totals() const { return totals_; }
  const NetworkFunction& nf() const { return *nf_; }
  uint64_t digest() const { return digest_.value(); }

 private:
  static constexpr uint32_t kNone = ~uint32_t{0};

  struct Flow {
    FlowKey key;
    FlowId id{};
    uint32_t generation = 0;
    std::vector<std::byte> record;
    PacketMeta meta{};  // with the clock of the last packet
    Instant timer = Instant::max();
    Instant last_packet{};
    Nanos idle_timeout{};
    Instant looked_at = Instant::max();  // the next time that is in due_
    std::optional<Alias> alias = std::nullopt;
    bool is_there = false;
    bool is_loaded = false;  // of the batch that runs
  };
  struct Due {
    Instant time;
    FlowId flow;
    bool operator>(const Due& other) const { return time > other.time; }
  };
  struct Waiting {
    PacketHandle packet;
    uint32_t flow;  // its place in flows_
  };
  // The requests of the NF in one call.
  struct Call {
    uint32_t flow = kNone;
    uint32_t pieces = 0;  // taken and given back, since the store was told
    std::optional<PoolId> refused = std::nullopt;
    std::optional<Alias> alias = std::nullopt;
    bool over = false;
  };

  bool Emit(std::span<const std::byte> frame) override;
  std::optional<uint32_t> TakePiece(PoolId pool,
                                    const PiecePreference& wish) override;
  void GivePiece(PoolId pool, uint32_t piece) override;
  bool IsExhausted(PoolId pool) const override { return call_.refused == pool; }
  void SetAlias(const FlowKey& key, uint64_t group,
                uint32_t group_limit) override;
  void Note(Nanos idle_timeout, bool over) override;

  uint32_t FindOrBegin(const Ingress::Taken& taken);
  uint32_t Begin(const FlowKey& key);
  bool IsThere(FlowId flow) const {
    return flows_[slot_of(flow)].is_there && flows_[slot_of(flow)].id == flow;
  }
  absl::Status LoadBatch();
  absl::Status LoadOne(const Flow& flow);
  absl::Status SaveBatch();
  void Run(const Waiting& waiting);
  Verdict Process(uint32_t place, PacketHandle handle);
  std::optional<DropReason> SettleAlias(uint32_t place);
  void Settle(const Waiting& waiting, const Verdict& verdict);
  void Release(PacketHandle packet);
  void Drop(DropReason reason) {
    ++totals_.dropped[static_cast<size_t>(reason)];
  }
  // Calls a hook of the NF other than process_packet.
  template <typename Function>
  void CallFor(uint32_t place, Instant now, NfCall::Hook hook,
               const Function& function);
  void Schedule(Flow& flow);
  absl::Status RunDue();
  absl::Status RunTimer(uint32_t place);
  absl::Status End(uint32_t place);
  void ForgetAlias(Flow& flow);

  std::unique_ptr<NetworkFunction> nf_;
  std::vector<NetworkFunction::Part> parts_;
  LoneTables tables_;  // that have events, unless a store has all tables
  Options options_;
  RemoteState* remote_;
  BufferPool buffers_;
  Ingress ingress_;
  Instant now_{};
  absl::flat_hash_map<FlowKey, uint32_t, FlowKeyHash> places_;
  absl::flat_hash_map<FlowKey, uint32_t, FlowKeyHash> aliases_;
  absl::flat_hash_map<uint64_t, uint32_t> groups_;  // aliases in each
  std::vector<Flow> flows_;
  std::vector<uint32_t> free_;
  std::priority_queue<Due, std::vector<Due>, std::greater<>> due_;
  std::vector<PieceSet> pools_;
  std::vector<Waiting> batch_;
  std::vector<RemoteState::Record> records_;  // of the batch's flows
  std::vector<FlowId> over_;                  // end after the batch
  Call call_;
  PlainTotals totals_;
  ReleaseDigest digest_;
};

}  // namespace snf

#endif  // SNF_PLATFORM_COMMANDS_NF_PLAIN_PROGRAM_H_
