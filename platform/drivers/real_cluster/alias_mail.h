// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_DRIVERS_REAL_CLUSTER_ALIAS_MAIL_H_
#define SNF_PLATFORM_DRIVERS_REAL_CLUSTER_ALIAS_MAIL_H_

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "base/ids.h"
#include "base/messages/messages.h"
#include "base/packet/flow_key.h"
#include "base/packet/ip_address.h"
#include "base/packet/link_type.h"
#include "base/packet/packet_info.h"
#include "platform/run/ingress.h"

namespace snf {

// The addresses at which flows of any controller have aliases: few, and none is
// removed. One thread adds; any thread reads.
class ExternalAddresses {
 public:
  static constexpr uint32_t kMost = 64;

  // Does nothing if the address is there, or kMost others are.
  void Add(const IpAddress& address) {
    const uint32_t count = count_.load(std::memory_order_relaxed);
    if (count == kMost || Has(address)) return;
    addresses_[count] = address;
    count_.store(count + 1, std::memory_order_release);
  }
  bool Has(const IpAddress& address) const {
    const auto all =
        std::span(addresses_).first(count_.load(std::memory_order_acquire));
    return std::ranges::find(all, address) != all.end();
  }

 private:
  std::array<IpAddress, kMost> addresses_{};
  std::atomic<uint32_t> count_{0};
};

// Brings news of a controller's aliases, and packets for other controllers, to
// the thread that dispatches packets, in order. A flow has one or two aliases,
// so the cost of a lock does not matter. Thread-safe.
class AliasMail final : public AliasListener {
 public:
  enum class Kind : uint8_t { kGranted, kOver, kDeparture };
  struct News {
    Kind kind = Kind::kGranted;
    Alias alias{};     // of kOver flow and clock; of kDeparture the key
    FlowKey inside{};  // of kGranted: the flow's key
    // The packet of a kDeparture.
    uint32_t original_bytes = 0;
    LinkType link = LinkType::kEthernet;
    std::vector<std::byte> bytes{};
  };

  // Must outlive the object.
  explicit AliasMail(const ExternalAddresses& external) : external_(external) {}

  void on_alias(const Alias& alias, const FlowKey& inside) override {
    Put({.kind = Kind::kGranted, .alias = alias, .inside = inside});
  }
  void on_alias_over(FlowId flow, Clock clock) override {
    Put({.kind = Kind::kOver,
         .alias = {.key = {}, .flow = flow, .clock = clock}});
  }
  bool IsExternal(const IpAddress& address) const override {
    return external_.Has(address);
  }
  void on_departure(const FlowKey& to, const PacketInfo& info,
                    std::span<const std::byte> bytes) override {
    Put({.kind = Kind::kDeparture,
         .alias = {.key = to},
         .original_bytes = info.original_length,
         .link = info.link,
         .bytes = {bytes.begin(), bytes.end()}});
  }

  // Returns what came since the last call.
  std::vector<News> Take() {
    if (!has_news_.load(std::memory_order_acquire)) [[likely]]
      return {};
    const std::lock_guard lock(mutex_);
    has_news_.store(false, std::memory_order_relaxed);
    return std::exchange(news_, {});
  }

 private:
  void Put(News news) {
    const std::lock_guard lock(mutex_);
    news_.push_back(std::move(news));
    has_news_.store(true, std::memory_order_release);
  }

  const ExternalAddresses& external_;
  std::mutex mutex_;
  std::vector<News> news_ ABSL_GUARDED_BY(mutex_);
  std::atomic<bool> has_news_{false};
};

}  // namespace snf

#endif  // SNF_PLATFORM_DRIVERS_REAL_CLUSTER_ALIAS_MAIL_H_
