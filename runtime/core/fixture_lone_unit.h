// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RUNTIME_CORE_FIXTURE_LONE_UNIT_H_
#define SNF_RUNTIME_CORE_FIXTURE_LONE_UNIT_H_

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/check.h"
#include "base/messages/messages.h"
#include "runtime/core/fixture_traffic.h"
#include "runtime/core/unit.h"
#include "runtime/sdk/nf.h"

namespace snf {

// AllPieces has the pieces of all pools of an NF, which the one unit gets word
// by word.
class AllPieces {
 public:
  explicit AllPieces(std::span<const NetworkFunction::Pool> pools) {
    for (const NetworkFunction::Pool& pool : pools) {
      pools_.push_back({pool.first / 64, pool.words()});
    }
  }
  // Returns the next word of pieces, or a block without any at the end.
  PieceBlock Next(uint16_t pool) {
    Left& left = pools_[pool];
    if (left.word == left.end) return {.word = 0, .pool = pool, .mask = 0};
    return {.word = left.word++, .pool = pool, .mask = ~uint64_t{0}};
  }

 private:
  struct Left {
    uint32_t word;
    uint32_t end;
  };
  std::vector<Left> pools_;
};

// LoneUnit is for benchmarks: a single unit, all of whose requests are granted.
// Owner-thread only.
class LoneUnit final : public BatchRunner {
 public:
  // Takes the NF over. The unit keeps at most `flows` flows.
  LoneUnit(std::unique_ptr<NetworkFunction> nf, uint32_t flows)
      : nf_(std::move(nf)),
        unit_(UnitId{0},
              {.max_flows = flows,
               .queue_packets = 2 * BatchBuffers::kBatch,
               .packets_elsewhere = 0},
              nf_->schema(), nf_->pools()),
        pieces_(nf_->pools()) {}

  void Run(BatchBuffers& buffers, std::span<const PacketMeta> metas) override {
    const Instant now = metas[0].arrival;
    for (size_t i = 0; i < metas.size(); ++i) {
      unit_.on_packet(buffers[i], metas[i]);
    }
    Serve(now, buffers.pool());
  }
  // Runs one packet alone.
  void RunOne(BufferPool& pool, PacketHandle packet, const PacketMeta& meta) {
    unit_.on_packet(packet, meta);
    Serve(meta.arrival, pool);
  }

 private:
  using Kind = UnitCommand::Kind;

  void Serve(Instant now, BufferPool& pool) {
    const NfContext env = {*nf_, pool};
    while (unit_.begin(now, out_)) {
      unit_.finish(now, env, out_);
      const auto commands = out_.commands();
      if (commands.size() == 1 && commands[0].kind == Kind::kRelease) {
        out_.clear();
      } else {
        Execute(now, env);
      }
    }
  }

  // Grants what the commands of a flow's first packet ask for.
  void Execute(Instant now, NfContext env) {
    const std::vector<UnitCommand> commands(out_.commands().begin(),
                                            out_.commands().end());
    out_.clear();
    for (const UnitCommand& command : commands) {
      if (command.kind == Kind::kSendAlias) {
        const Alias alias = unit_.alias(command.meta.flow);
        unit_.on_alias_ack(now, {.flow = alias.flow, .clock = alias.clock}, env,
                           out_);
      } else if (command.kind == Kind::kRequestPieces) {
        unit_.on_pieces(now, pieces_.Next(command.request.pool), out_);
      } else {
        SNF_CHECK(command.kind == Kind::kRelease ||
                  command.kind == Kind::kSendNote ||
                  command.kind == Kind::kWait);
      }
    }
    if (!out_.empty()) Execute(now, env);
  }

  std::unique_ptr<NetworkFunction> nf_;
  Unit unit_;
  UnitOut out_;
  AllPieces pieces_;
};

}  // namespace snf

#endif  // SNF_RUNTIME_CORE_FIXTURE_LONE_UNIT_H_
