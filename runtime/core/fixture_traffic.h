// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RUNTIME_CORE_FIXTURE_TRAFFIC_H_
#define SNF_RUNTIME_CORE_FIXTURE_TRAFFIC_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include "base/messages/messages.h"
#include "base/packet/fixture_flows.h"
#include "base/packet/fixture_three_tables.h"
#include "base/packet/packet_info.h"
#include "base/packet/packet_parser.h"
#include "base/rng.h"
#include "base/time.h"
#include "runtime/ring/buffer_pool.h"

// Classes for benchmarks: make packets for a unit, and for the baseline that it
// is compared with.
namespace snf {

// A packet of a connection that was made up.
struct MadePacket {
  MadeFrame bytes{};
  IpAddress far_address;
  be16 far_port;
  Side side{};
  uint32_t flow = 0;
  uint32_t number = 0;  // counts the packets of its flow, from 0 on
};

// BatchBuffers owns buffers for a batch of packets.
class BatchBuffers {
 public:
  static constexpr size_t kBatch = ThreeTableFloor::kBatch;

  BatchBuffers()
      : BatchBuffers(BufferPool({.small = kBatch, .medium = 0, .large = 0}),
                     kBatch) {}
  // Takes `count` buffers of the pool.
  BatchBuffers(BufferPool pool, size_t count)
      : pool_(std::move(pool)), handles_(count) {
    for (PacketHandle& handle : handles_) handle = pool_.Allocate(kMadeBytes);
  }
  size_t size() const { return handles_.size(); }
  PacketHandle operator[](size_t i) const { return handles_[i]; }
  BufferPool& pool() { return pool_; }
  PacketInfo& info(size_t i) { return pool_.info(handles_[i]); }
  std::span<std::byte> bytes(size_t i) { return pool_.bytes(handles_[i]); }

  // Prepares a packet as ingest does, except for finding its flow.
  void Put(size_t i, const MadePacket& packet, Instant now) {
    PacketInfo& info = pool_.info(handles_[i]);
    info = {.arrival = now,
            .length = kMadeBytes,
            .original_length = kMadeBytes,
            .headers = {},
            .link = LinkType::kEthernet,
            .side = packet.side,
            .far_port = packet.far_port,
            .far_address = packet.far_address};
    const std::span<std::byte> room = pool_.room(handles_[i]);
    std::memcpy(room.data(), packet.bytes.data(), sizeof packet.bytes);
    info.headers = Parse(info.link, room.first(kMadeBytes));
  }

 private:
  BufferPool pool_;
  std::vector<PacketHandle> handles_;
};

// A BatchRunner is what a benchmark measures.
class BatchRunner {
 public:
  virtual ~BatchRunner() = default;
  // Runs the packets in the first buffers, one for each of `metas`.
  virtual void Run(BatchBuffers& buffers,
                   std::span<const PacketMeta> metas) = 0;
};

// FloorRunner runs packets through the floor.
class FloorRunner final : public BatchRunner {
 public:
  FloorRunner(uint32_t flows, bool with_hosts) : floor_(flows, with_hosts) {}
  void Run(BatchBuffers& buffers, std::span<const PacketMeta> metas) override {
    std::array<ThreeTableFloor::Item, BatchBuffers::kBatch> items;
    for (size_t i = 0; i < metas.size(); ++i) {
      items[i] = {buffers.bytes(i), &buffers.info(i)};
    }
    floor_.Batch(std::span(items).first(metas.size()));
  }

 private:
  ThreeTableFloor floor_;
};

// MadeTraffic sends a packet each way of all connections, again and again in
// the same order, each 100 ns after the previous one. The constructor has run
// two packets of each connection through the runner, which translates, to learn
// the translated ends.
class MadeTraffic {
 public:
  static constexpr Nanos kGap{100};

  MadeTraffic(uint32_t flows, BatchRunner& runner, BatchBuffers buffers = {})
      : runner_(runner), buffers_(std::move(buffers)), metas_(buffers_.size()) {
    packets_.reserve(2 * size_t{flows});
    for (uint32_t i = 0; i < flows; ++i) {
      const MadeConnection of = MadeConnection::Number(i);
      MadePacket packet = {
          .bytes = MakeFrame(of.protocol, of.inside, of.far, kSyn),
          .far_address = IpAddress::FromIpv4(of.far.address),
          .far_port = of.far.port,
          .side = Side::kInside,
          .flow = i};
      Begin(packet);
      const MadeEnd external = SourceOf(buffers_.bytes(0));
      packet.bytes = MakeFrame(of.protocol, of.inside, of.far);
      packets_.push_back(packet);
      packet.bytes = MakeFrame(of.protocol, of.far, external);
      packet.side = Side::kOutside;
      packet.number = 1;
      Begin(packet);
      packets_.push_back(packet);
    }
    Rng rng(1);
    rng.Shuffle(std::span(packets_));
    std::vector<bool> has_one(flows);
    for (MadePacket& packet : packets_) {
      packet.number = has_one[packet.flow] ? 1 : 0;
      has_one[packet.flow] = true;
    }
  }

  // Fills each buffer with a packet, parses it and runs all. Returns how many.
  size_t RunBatch() {
    now_ = now_ + Nanos{kGap.ns * static_cast<int64_t>(buffers_.size())};
    for (size_t i = 0; i < buffers_.size(); ++i) {
      const MadePacket& packet = packets_[next_++];
      buffers_.Put(i, packet, now_);
      metas_[i] = MetaOf(packet, round_);
      if (next_ == packets_.size()) {
        next_ = 0;
        ++round_;
      }
    }
    runner_.Run(buffers_, metas_);
    return buffers_.size();
  }

 private:
  static constexpr uint8_t kSyn = TcpHeader<std::byte>::kSyn;

  static MadeEnd SourceOf(std::span<const std::byte> frame) {
    return {Ipv4Header<const std::byte>::At(frame, 14).source(),
            PortsView<const std::byte>::At(frame, 34).source_port()};
  }
  void Begin(const MadePacket& packet) {
    now_ = now_ + kGap;
    buffers_.Put(0, packet, now_);
    const PacketMeta meta = MetaOf(packet, 0);
    runner_.Run(buffers_, {&meta, 1});
  }
  PacketMeta MetaOf(const MadePacket& packet, uint64_t round) const {
    PacketMeta meta;
    meta.flow = MakeFlowId(0, packet.flow, 1);
    meta.clock = Clock{2 * round + packet.number + 1};
    meta.arrival = now_;
    meta.original_length = kMadeBytes;
    return meta;
  }

  BatchRunner& runner_;
  BatchBuffers buffers_;
  std::vector<PacketMeta> metas_;
  std::vector<MadePacket> packets_;
  size_t next_ = 0;
  uint64_t round_ = 1;
  Instant now_;
};

}  // namespace snf

#endif  // SNF_RUNTIME_CORE_FIXTURE_TRAFFIC_H_
