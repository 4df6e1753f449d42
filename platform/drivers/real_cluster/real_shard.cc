// SPDX-License-Identifier: Apache-2.0
#include "platform/drivers/real_cluster/real_shard.h"

#include <utility>

#include "platform/drivers/real_time/real_driver.h"
#include "platform/process/nf_guard.h"

namespace snf {

absl::StatusOr<std::unique_ptr<RealShard>> RealShard::Start(Options options) {
  std::unique_ptr<RealShard> shard(new RealShard(std::move(options)));
  std::promise<absl::Status> started;
  std::future<absl::Status> has_started = started.get_future();
  shard->thread_ =
      std::thread([&of = *shard, promise = std::move(started)]() mutable {
        of.Run(std::move(promise));
      });
  if (absl::Status status = has_started.get(); !status.ok()) return status;
  return shard;
}

// What runs NFs belongs to the thread that has made it.
void RealShard::Run(std::promise<absl::Status> started) {
  GuardThread();
  options_.real.aliases = &aliases_;
  options_.real.lease_finder = options_.leases;
  auto driver = RealDriver::Start(options_.run, options_.real, *options_.policy,
                                  options_.nf, std::move(options_.observers));
  started.set_value(driver.status());
  if (!driver.ok()) return;
  if (options_.leases != nullptr) options_.leases->set_driver(**driver);
  TakePackets(**driver);
  result_ = (*driver)->Finish();
  buffers_in_use_ = (*driver)->buffers_in_use();
}

void RealShard::TakePackets(RealDriver& driver) {
  bool has_begun = false;
  const auto begin = [&] {
    if (has_begun || !has_begun_.load(std::memory_order_acquire)) return;
    driver.set_first_packet(first_packet_);
    driver.Begin(options_.clock->Now());
    has_begun = true;
  };
  const auto offer = [&](const CapturedPacket& packet) {
    begin();  // the run has begun, if there are packets
    Kill(driver);
    if (options_.leases != nullptr) {
      options_.leases->on_packet(
          driver.controller().CostOf(packet.original_bytes));
    }
    driver.Offer(packet);
  };
  while (!feed_.is_over()) {
    begin();
    if (options_.leases != nullptr && has_begun) options_.leases->Poll();
    if (feed_.Take(PacketFeed::kBurst, offer) > 0) {
      if (driver.has_failed()) has_failed_.store(true);
    } else if (!has_begun) {
      feed_.Wait(Milliseconds(1));
    } else if (!driver.Poll()) {
      Idle(driver);
    }
  }
  begin();
  Kill(driver);
}

void RealShard::Kill(RealDriver& driver) {
  const uint32_t kills = kills_.load(std::memory_order_relaxed);
  for (; killed_ != kills; ++killed_) driver.KillController();
}

void RealShard::Idle(RealDriver& driver) {
  if (driver.has_failed()) has_failed_.store(true);
  if (driver.is_idle()) feed_.Settle();
  const Nanos most = driver.MayWait();
  if (most.ns > 0) {
    feed_.Wait(most);
  } else {
    std::this_thread::yield();
  }
}

RunResult RealShard::TakeResult() {
  thread_.join();
  return *std::move(result_);
}

void RealShard::Stop() {
  feed_.Close();
  if (thread_.joinable()) thread_.join();
}

}  // namespace snf
