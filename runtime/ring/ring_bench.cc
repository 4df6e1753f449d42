// SPDX-License-Identifier: Apache-2.0
// Measures the cost of passing packets between two threads. The two spin, each
// on its own processor, and both processors must be free; BM_RingOneThread,
// BM_CopyFloor and BM_ToAnotherRegionAndBack need only one.
#include <sched.h>

#include <array>
#include <atomic>
#include <cstring>
#include <new>
#include <thread>
#include <vector>

#include "base/check.h"
#include "benchmark/benchmark.h"
#include "runtime/ring/buffer_pool.h"
#include "runtime/ring/doorbell.h"
#include "runtime/ring/shared_region.h"
#include "runtime/ring/spsc_ring.h"
#include "runtime/ring/test_packet_descriptor.h"

namespace snf {
namespace {

constexpr uint32_t kCapacity = 1'024;
constexpr size_t kBurst = 32;
using Descriptors = SpscRing<PacketDescriptor>;
using Handles = SpscRing<PacketHandle>;

// Puts the calling thread on the first or the second processor that it may use.
void Pin(int which) {
  static const cpu_set_t allowed = [] {
    cpu_set_t set;
    sched_getaffinity(0, sizeof(set), &set);
    return set;
  }();
  for (size_t cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &allowed) || which-- > 0) continue;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    sched_setaffinity(0, sizeof(one), &one);
    return;
  }
}

// Two rings of T, and two Doorbells.
template <typename T>
struct Pair {
  Pair()
      : region(*SharedRegion::Create(
            {.bytes = 1'024 + 2 * SpscRing<T>::BytesFor(kCapacity)})) {
    Pin(0);
    RegionCarver carver(region.bytes());
    for (size_t i = 0; i < 2; ++i) {
      bells[i] = new (carver.Take(sizeof(Doorbell)).data()) Doorbell;
      rings[i] = carver.Take(SpscRing<T>::BytesFor(kCapacity));
      SNF_CHECK(SpscRing<T>::Format(rings[i], kCapacity).ok());
    }
  }
  auto MakeProducer(size_t i, bool rings_bell) {
    return *SpscRing<T>::Producer::Attach(rings[i],
                                          rings_bell ? bells[i] : nullptr);
  }
  auto MakeConsumer(size_t i) {
    return *SpscRing<T>::Consumer::Attach(rings[i]);
  }

  SharedRegion region;
  std::array<Doorbell*, 2> bells;
  std::array<std::span<std::byte>, 2> rings;
};

// Runs both ends in one thread, in bursts: the cost of instructions without
// cache misses.
template <typename T>
void BM_RingOneThread(benchmark::State& state) {
  Pair<T> pair;
  auto producer = pair.MakeProducer(0, state.range(1) != 0);
  auto consumer = pair.MakeConsumer(0);
  std::vector<T> burst(static_cast<size_t>(state.range(0)));
  for ([[maybe_unused]] auto _ : state) {
    SNF_CHECK(producer.Push(burst) == burst.size());
    SNF_CHECK(consumer.Pop(burst) == burst.size());
    benchmark::DoNotOptimize(burst.data());
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(BM_RingOneThread<PacketDescriptor>)
    ->ArgNames({"burst", "bell"})
    ->ArgsProduct({{1, 32}, {0, 1}});
BENCHMARK(BM_RingOneThread<PacketHandle>)
    ->ArgNames({"burst", "bell"})
    ->Args({32, 0});

// One thread pushes bursts, the other pops them: items a second.
template <typename T>
void BM_RingThroughput(benchmark::State& state) {
  Pair<T> pair;
  std::atomic<bool> is_over = false;
  std::thread producing([&] {
    Pin(1);
    auto producer = pair.MakeProducer(0, true);
    const std::vector<T> burst(kBurst);
    while (!is_over.load(std::memory_order_relaxed)) {
      if (producer.Push(burst) == 0) __builtin_ia32_pause();
    }
  });
  auto consumer = pair.MakeConsumer(0);
  std::vector<T> burst(kBurst);
  int64_t items = 0;
  for ([[maybe_unused]] auto _ : state) {
    size_t count = consumer.Pop(burst);
    while (count == 0) count = consumer.Pop(burst);
    benchmark::DoNotOptimize(burst.data());
    items += static_cast<int64_t>(count);
  }
  state.SetItemsProcessed(items);
  is_over = true;
  producing.join();
}
BENCHMARK(BM_RingThroughput<PacketDescriptor>)->UseRealTime();
BENCHMARK(BM_RingThroughput<PacketHandle>)->UseRealTime();

// Sends a descriptor there and one back: the time is that of two hops. With
// spins 0 each hop wakes a parked thread.
void BM_RingRoundTrip(benchmark::State& state) {
  Pair<PacketDescriptor> pair;
  const auto spins = static_cast<uint32_t>(state.range(0));
  const auto pop = [&](Descriptors::Consumer& from, Doorbell& bell) {
    const auto ready = [&] { return from.has_items(); };
    while (!bell.Wait(ready, Seconds(1), spins)) {
    }
    PacketDescriptor item;
    from.Pop({&item, 1});
    return item;
  };
  std::thread echo([&] {
    Pin(1);
    auto from = pair.MakeConsumer(0);
    auto to = pair.MakeProducer(1, true);
    PacketDescriptor item;
    do {
      item = pop(from, *pair.bells[0]);
      to.Push({&item, 1});
    } while (item.packet != kNoPacket);
  });
  auto to = pair.MakeProducer(0, true);
  auto from = pair.MakeConsumer(1);
  PacketDescriptor item;
  item.packet = PacketHandle{0};
  for ([[maybe_unused]] auto _ : state) {
    to.Push({&item, 1});
    pop(from, *pair.bells[1]);
  }
  item.packet = kNoPacket;
  to.Push({&item, 1});
  echo.join();
}
BENCHMARK(BM_RingRoundTrip)
    ->ArgName("spins")
    ->Arg(1 << 30)
    ->Arg(0)
    ->UseRealTime();

// Passes packets of one size: one thread copies them into buffers and sends
// them, the other claims them, copies them out and returns the handles.
void BM_PacketsCopiedInAndOut(benchmark::State& state) {
  using Party = BufferPool::Party;
  const auto bytes = static_cast<uint32_t>(state.range(0));
  const std::array<BufferPool::Options, 2> shares = {
      {{.small = 512, .medium = 0, .large = 0},
       {.small = 0, .medium = 0, .large = 0}}};
  const SharedRegion buffers =
      *SharedRegion::Create({.bytes = BufferPool::BytesFor(shares)});
  SNF_CHECK(BufferPool::Format(buffers.bytes(), shares).ok());
  Pair<PacketDescriptor> there;
  Pair<PacketHandle> back;
  std::atomic<bool> is_over = false;
  std::thread sending([&] {
    Pin(1);
    BufferPool pool = *BufferPool::Attach(buffers.bytes(), Party{0});
    auto to = there.MakeProducer(0, true);
    auto from = back.MakeConsumer(0);
    const std::vector<std::byte> frame(bytes);
    std::array<PacketDescriptor, kBurst> burst;
    std::array<PacketHandle, kBurst> done;
    while (!is_over.load(std::memory_order_relaxed)) {
      const size_t returned = from.Pop(done);
      for (size_t i = 0; i < returned; ++i) pool.Return(done[i]);
      size_t count = 0;
      for (; count < kBurst; ++count) {
        const PacketHandle packet = pool.Allocate(bytes);
        if (packet == kNoPacket) break;
        pool.info(packet).length = bytes;
        std::memcpy(pool.room(packet).data(), frame.data(), bytes);
        burst[count].packet = packet;
      }
      to.Push(std::span(burst).first(count));
    }
  });
  BufferPool pool = *BufferPool::Attach(buffers.bytes(), Party{1});
  auto from = there.MakeConsumer(0);
  auto to = back.MakeProducer(0, false);
  std::vector<std::byte> frame(bytes);
  std::array<PacketDescriptor, kBurst> burst;
  std::array<PacketHandle, kBurst> done;
  int64_t items = 0;
  for ([[maybe_unused]] auto _ : state) {
    size_t count = from.Read(burst);
    while (count == 0) count = from.Read(burst);
    for (size_t i = 0; i < count; ++i) SNF_CHECK(pool.Claim(burst[i].packet));
    from.Release(count);
    for (size_t i = 0; i < count; ++i) {
      const std::span<std::byte> packet = pool.bytes(burst[i].packet);
      std::memcpy(frame.data(), packet.data(), packet.size());
      benchmark::DoNotOptimize(frame.data());
      done[i] = burst[i].packet;
    }
    to.Push(std::span(done).first(count));
    items += static_cast<int64_t>(count);
  }
  state.SetItemsProcessed(items);
  state.SetBytesProcessed(items * bytes);
  is_over = true;
  sending.join();
}
BENCHMARK(BM_PacketsCopiedInAndOut)
    ->ArgName("bytes")
    ->Arg(64)
    ->Arg(1'434)
    ->UseRealTime();

// Makes only the two copies of such a packet, in one thread.
void BM_CopyFloor(benchmark::State& state) {
  const auto bytes = static_cast<size_t>(state.range(0));
  std::vector<std::byte> from(bytes);
  std::vector<std::byte> buffers(512 * 2'048);
  std::vector<std::byte> to(bytes);
  size_t i = 0;
  for ([[maybe_unused]] auto _ : state) {
    std::byte* const buffer = &buffers[i++ % 512 * 2'048];
    std::memcpy(buffer, from.data(), bytes);
    benchmark::DoNotOptimize(buffer);
    std::memcpy(to.data(), buffer, bytes);
    benchmark::DoNotOptimize(to.data());
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(BM_CopyFloor)->ArgName("bytes")->Arg(64)->Arg(1'434);

// Copies a packet into another region and back: what a unit costs that is a
// process, beside one that is a thread.
void BM_ToAnotherRegionAndBack(benchmark::State& state) {
  const auto bytes = static_cast<uint32_t>(state.range(0));
  constexpr std::array<BufferPool::Options, 1> kShares = {
      {{.small = 512, .medium = 0, .large = 0}}};
  const auto make = [&] {
    return *SharedRegion::Create({.bytes = BufferPool::BytesFor(kShares)});
  };
  const SharedRegion regions[] = {make(), make()};
  std::vector<BufferPool> pools;
  for (const SharedRegion& region : regions) {
    SNF_CHECK(BufferPool::Format(region.bytes(), kShares).ok());
    pools.push_back(*BufferPool::Attach(region.bytes(), BufferPool::Party{0}));
  }
  std::vector<PacketHandle> packets;
  for (uint32_t i = 0; i < kShares[0].small; ++i) {
    packets.push_back(pools[0].Allocate(bytes));
    pools[0].info(packets.back()).length = bytes;
  }
  size_t i = 0;
  for ([[maybe_unused]] auto _ : state) {
    const PacketHandle packet = packets[i++ % packets.size()];
    pools[0].CopyTo(pools[1], packet);
    pools[1].CopyTo(pools[0], packet);
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(BM_ToAnotherRegionAndBack)->ArgName("bytes")->Arg(64)->Arg(1'434);

}  // namespace
}  // namespace snf
