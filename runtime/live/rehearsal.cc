// SPDX-License-Identifier: Apache-2.0
#include "runtime/live/rehearsal.h"

#include <array>
#include <bit>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/byte_order.h"
#include "base/check.h"
#include "base/packet/packet_parser.h"
#include "runtime/live/unit_loop.h"
#include "runtime/ring/real_clock.h"
#include "runtime/wire/link_payload.h"

namespace snf {
namespace {

// An Ethernet frame of 60 bytes: UDP, 192.0.2.1:5000 to 198.51.100.1:53.
constexpr std::array<uint8_t, 60> kFrame = {
    2,    0,    0, 0,  0,   2,  2,   0, 0,  0,  0,    1,
    0x08, 0,                                                 // Ethernet
    0x45, 0,    0, 46, 0,   0,  0,   0, 64, 17, 0x8e, 0x89,  // IPv4
    192,  0,    2, 1,  198, 51, 100, 1,                      // addresses
    0x13, 0x88, 0, 53, 0,   26, 0,   0};                     // UDP
constexpr FlowId kFlow{1};

// What connects the loop, in private memory.
class Stage {
 public:
  Stage(const NfSpec& nf, const UnitOptions& unit)
      : nf_(nf.create()),
        cells_(Cells()),
        memory_(static_cast<std::byte*>(std::aligned_alloc(
            RegionCarver::kAlignment, RegionCarver::RoundUp(Bytes())))) {
    SNF_CHECK(memory_ != nullptr);
    std::memset(memory_.get(), 0, Bytes());
    RegionCarver carver({memory_.get(), Bytes()});
    const std::span<std::byte> pool =
        carver.Take(BufferPool::BytesFor(kShares));
    SNF_CHECK(BufferPool::Format(pool, kShares).ok());
    pool_.emplace(*BufferPool::Attach(pool, BufferPool::Party{0}));
    auto* const bell = new (carver.Take(sizeof(Doorbell)).data()) Doorbell;
    const LinkRing down = LinkRing::Make(carver, cells_, bell);
    const LinkRing up = LinkRing::Make(carver, cells_, nullptr);
    const LinkRing self = LinkRing::Make(carver, cells_, bell);
    to_.emplace(down.producer, cells_);
    from_.emplace(up.consumer, kMaxPayloadToController);
    UnitLoopOptions options;
    options.max_units = 1;
    options.unit = unit;
    options.unit.max_flows = options.unit.max_replicas = 64;
    options.unit.packets_elsewhere = 0;
    options.unit.has_logger = options.unit.has_store = false;
    UnitLoopLinks links = {
        .buffers = *BufferPool::Attach(pool, BufferPool::Party{1}),
        .bell = bell,
        .progress = new (carver.Take(sizeof(LoopProgress)).data()) LoopProgress,
        .control = new (carver.Take(sizeof(LoopControl)).data()) LoopControl,
        .faults = &faults_,
        .from_controller = LinkIn(down.consumer, kMaxPayloadFromController),
        .to_controller = LinkOut(up.producer, cells_),
        .from_loops = {},
        .to_loops = {}};
    links.from_loops.emplace_back(self.consumer, nf_->schema().record_bytes());
    links.to_loops.emplace_back(self.producer, cells_);
    clock_.Start(RealClock::Monotonic());
    loop_ = std::make_unique<UnitLoop>(options, nf, clock_, std::move(links));
  }

  // Returns how many packets ended.
  uint32_t Play() {
    Send(ControllerCommand::Start(kUnit, /*warm=*/false, 1));
    for (uint32_t i = 1; i <= kRehearsedPackets; ++i) {
      Enqueue(i);
      // What it asks for is answered, which it may go on with.
      for (int turn = 0; turn < 8; ++turn) {
        loop_->Turn();
        Answer();
      }
    }
    return ended_;
  }

 private:
  static constexpr UnitId kUnit{0};
  static constexpr std::array<BufferPool::Options, 2> kShares = {
      {{.small = 8, .medium = 1, .large = 1},
       {.small = 8, .medium = 1, .large = 1}}};

  // A link between loops holds some messages with a record.
  uint32_t Cells() const {
    const size_t record = nf_->schema().record_bytes();
    return static_cast<uint32_t>(
        std::bit_ceil(4 * (1 + Cell::CountFor(record)) + 64));
  }
  size_t Bytes() const {
    return RegionCarver::RoundUp(BufferPool::BytesFor(kShares)) +
           3 * LinkRing::BytesFor(cells_) +
           RegionCarver::RoundUp(sizeof(Doorbell)) +
           RegionCarver::RoundUp(sizeof(LoopProgress)) +
           RegionCarver::RoundUp(sizeof(LoopControl));
  }

  // Of the pieces that the NF's pool has.
  uint32_t FirstWord(uint16_t pool) const {
    return static_cast<uint32_t>(nf_->pools()[pool].first / 64);
  }
  void Send(const ControllerCommand& command) {
    to_->Send(command);
    to_->Flush();
  }
  void Enqueue(uint32_t number) {
    const PacketHandle packet = pool_->Allocate(kFrame.size());
    if (packet == kNoPacket) return;
    const auto [info, room] = pool_->whole(packet);
    std::memcpy(room.data(), kFrame.data(), kFrame.size());
    const Instant now = clock_.Now();
    new (&info) PacketInfo{
        .arrival = now,
        .length = kFrame.size(),
        .original_length = kFrame.size(),
        .headers = Parse(LinkType::kEthernet, room.first(kFrame.size())),
        .link = LinkType::kEthernet,
        .side = Side::kInside,
        .far_port = be16(53),
        .far_address = IpAddress::FromIpv4(be32(0xc633'6401))};
    const bool is_first = number == 1;
    Send(ControllerCommand::Enqueue(
        kUnit, packet,
        {.flow = kFlow,
         .clock = Clock{number},
         .arrival = now,
         .channel_number = number,
         .flowlet = 1,
         .original_length = kFrame.size(),
         .flags = static_cast<uint8_t>(is_first ? PacketMeta::kFirstOfFlowlet |
                                                      PacketMeta::kNewFlow
                                                : 0)}));
  }
  void Answer() {
    using Kind = UnitCommand::Kind;
    from_->Receive();
    from_->Handle(PayloadToController,
                  [this](const Cell& cell, std::span<const std::byte> payload) {
                    if (cell.is_table()) return;
                    const auto& command = cell.As<UnitCommand>();
                    if (command.kind == Kind::kRequestPieces) {
                      const PieceBlock block = {
                          .word = FirstWord(command.request.pool),
                          .pool = command.request.pool,
                          .unit = kUnit,
                          .mask = ~uint64_t{0}};
                      Send(ControllerCommand::Pieces(
                          ControllerCommand::Kind::kPieces, block));
                    } else if (command.kind == Kind::kSendAlias) {
                      const auto alias = LoadAs<Alias>(payload.data());
                      Send(ControllerCommand::Ack(
                          kUnit, {.flow = alias.flow, .clock = alias.clock}));
                    } else if (command.kind <= Kind::kDropPayload) {
                      ++ended_;
                    }
                  });
  }

  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };

  const std::unique_ptr<NetworkFunction> nf_;  // runs nothing
  const uint32_t cells_;
  std::unique_ptr<std::byte[], Free> memory_;
  std::optional<BufferPool> pool_;
  std::optional<LinkOut> to_;
  std::optional<LinkIn> from_;
  RealClock clock_;
  WireFaults faults_;
  std::unique_ptr<UnitLoop> loop_;
  uint32_t ended_ = 0;
};

}  // namespace

uint32_t Rehearse(const NfSpec& nf, const UnitOptions& unit) {
  return Stage(nf, unit).Play();
}

}  // namespace snf
