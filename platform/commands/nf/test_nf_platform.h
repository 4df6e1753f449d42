// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_COMMANDS_NF_TEST_NF_PLATFORM_H_
#define SNF_PLATFORM_COMMANDS_NF_TEST_NF_PLATFORM_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/messages/drop_reason.h"
#include "base/packet/classifier.h"
#include "base/packet/flow_key.h"
#include "base/packet/packet_info.h"
#include "platform/run/nat_peer_emulator.h"
#include "platform/run/own_keys.h"
#include "runtime/sdk/nf_call.h"
#include "runtime/sdk/nf_spec.h"
#include "runtime/sdk/nf_test.h"
#include "runtime/tables/lone_tables.h"

namespace snf {

// The platform that an NfTest puts around its NF.
class NfTest::Platform final : public FlowServices, private NfCallNames {
 public:
  Platform(const NfSpec& spec, std::vector<IpPrefix> inside);
  Platform(const Platform&) = delete;
  Platform& operator=(const Platform&) = delete;
  ~Platform() { nf_call.names = nullptr; }

  NfResult Send(const TestPacket& packet);
  void Pass(Nanos time);
  void End(FlowId id);
  void EndFlows() {
    while (!flows_.empty()) End(flows_.begin()->first);
  }

  // kNoFlow if there is none.
  FlowId Find(const TestPacket& packet) const;
  std::optional<std::vector<std::byte>> SlotBytes(const std::string& name,
                                                  FlowId id) const;
  std::string AliasOf(FlowId id) const;
  size_t PoolNamed(const std::string& name) const;

  bool Emit(std::span<const std::byte> frame) override;
  std::optional<uint32_t> TakePiece(PoolId pool,
                                    const PiecePreference& wish) override;
  void GivePiece(PoolId pool, uint32_t piece) override;
  bool IsExhausted(PoolId pool) const override { return call_.refused == pool; }
  void SetAlias(const FlowKey& key, uint64_t group,
                uint32_t group_limit) override;
  void Note(Nanos idle_timeout, bool over) override;
  LogBatch* Records() override {
    if (!records_.is_open()) records_ = LogBatch(record_bytes_);
    return &records_;
  }

  struct Pool {
    PieceSet here;
    Supply supply = Supply::kHere;
    std::map<uint32_t, FlowId> in_use = {};
  };
  NetworkFunction& nf() { return *nf_; }
  Pool& pool(size_t index) { return pools_[index]; }
  size_t flows() const { return flows_.size(); }
  Instant now() const { return now_; }
  std::vector<TestPacket> emitted;
  std::map<std::string, std::string> logs;  // lines by name
  std::optional<AliasResult> next_alias;

 private:
  static constexpr Nanos kFlowTimeout = Seconds(300);

  struct NamedAlias {
    FlowKey key;
    uint64_t group = 0;
    uint32_t group_limit = 0;
    friend bool operator==(const NamedAlias&, const NamedAlias&) = default;
  };
  struct Flow {
    FlowKey key;
    std::vector<std::byte> record;
    Instant timer = Instant::max();
    Instant last_packet{};
    Nanos idle_timeout = kFlowTimeout;
    LinkType link{};
    std::optional<NamedAlias> alias = std::nullopt;
    PacketMeta meta{};  // with the clock of the last packet
  };
  // What an NF asks for in one call.
  struct Call {
    FlowId flow = kNoFlow;
    bool is_packet = false;
    bool has_waited = false;
    std::optional<PoolId> refused = std::nullopt;
    std::optional<NamedAlias> alias = std::nullopt;
    std::optional<Nanos> idle_timeout = std::nullopt;
    bool over = false;
    size_t emitted = 0;
    int kept = 0;  // pieces: taken less given
  };

  // The flow of a packet, or the reason why the platform drops it.
  std::optional<DropReason> Admit(TestPacket& packet, PacketInfo& info,
                                  const FlowKey& connection,
                                  Direction direction, FlowId& id);
  Verdict Run(FlowId id, PacketInfo& info, Frame& bytes);
  Verdict Process(PacketInfo& info, Frame& bytes, FlowState& state);
  std::optional<DropReason> SettleAlias(FlowId id, Verdict& verdict);
  NfResult ResultOf(const Verdict& verdict, std::optional<DropReason> reason,
                    TestPacket packet);
  // Calls a hook of the NF other than process_packet.
  template <typename Function>
  void CallFor(FlowId id, Instant now, NfCall::Hook hook, Function function);
  FlowKey FlowOf(FlowId id) const override { return flows_.at(id).key; }
  uint64_t NumberOf(PacketHandle /*packet*/) const override { return sent_; }
  void Keep(FlowId id, const FlowState& state);
  void WriteRecords();
  void CheckUnchanged(const Flow& before, const Frame& bytes_before,
                      const Frame& bytes, const FlowState& state);

  std::unique_ptr<NetworkFunction> nf_;
  std::unique_ptr<NetworkFunction> log_writer_;
  LoneTables tables_;
  std::array<std::byte, LogBatch::kMaxBytes> record_bytes_;
  LogBatch records_;  // of the present call
  bool has_sides_;
  OwnKeys own_keys_;
  FlowClassifier classifier_;
  NatPeerEmulator peer_emulator_;
  Instant now_ = Instant{} + Seconds(1'000);
  std::map<FlowKey, FlowId> ids_;
  std::map<FlowKey, FlowId> aliases_;
  std::map<FlowId, Flow> flows_;
  uint32_t flows_begun_ = 0;
  uint64_t sent_ = 0;  // packets
  std::vector<Pool> pools_;
  Call call_;
};

}  // namespace snf

#endif  // SNF_PLATFORM_COMMANDS_NF_TEST_NF_PLATFORM_H_
