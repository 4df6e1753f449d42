// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_HOSTS_HOST_WATCH_H_
#define SNF_PLATFORM_HOSTS_HOST_WATCH_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "base/outage.h"
#include "base/time.h"
#include "platform/hosts/host_place.h"
#include "resource_manager/etcd/etcd_client.h"
#include "resource_manager/etcd/host_registry.h"

namespace snf {

// Follows the hosts of a cluster in etcd (HostRegistry). A host of another
// version or without the daemon's wire, or whose address is no ADDRESS:PORT or
// another host's, is told by name, and is not among the hosts. While etcd does
// not answer, the hosts stay as they are: that is told once, and so is its end.
//
// Thread-safe.
class HostWatch final : public HostSource, private EtcdWatcher {
 public:
  static constexpr Nanos kProbePeriod = Seconds(2);

  struct Options {
    std::string cluster;
    std::string version;  // of hosts that are taken
    // The way to all hosts. With kGeneve, hosts without it are not taken.
    HostWire wire = HostWire::kTcp;
    // Gets a line for each change and refusal, and is told whether the line is
    // a warning. Called on threads of the object's own.
    std::function<void(bool is_warning, const std::string& line)> notice;
  };
  // Begins to follow. Error: InvalidArgument, the cluster has no name.
  static absl::StatusOr<std::unique_ptr<HostWatch>> Start(
      std::unique_ptr<EtcdClient> client, Options options);
  ~HostWatch() override;

  uint64_t version() const override {
    return version_.load(std::memory_order_acquire);
  }
  std::vector<HostPlace> Hosts() const override;
  std::optional<Outage::State> etcd() const override;

 private:
  HostWatch(std::unique_ptr<EtcdClient> client, HostRegistry registry,
            Options options);

  void on_all(const EtcdRange& range) override;
  void on_change(const EtcdPair& pair, bool is_deleted) override;
  void Take();
  // Error: InvalidArgument, why the host is not taken.
  absl::StatusOr<HostPlace> PlaceOf(const EtcdPair& pair) const;
  void Probe();

  const Options options_;
  const std::unique_ptr<EtcdClient> client_;
  const HostRegistry registry_;
  // By key, each read once; of the watch's thread.
  std::map<std::string, absl::StatusOr<HostPlace>> places_;
  std::map<std::string, std::string> refused_;  // why, by key; the same

  mutable std::mutex mutex_;
  std::vector<HostPlace> hosts_ ABSL_GUARDED_BY(mutex_);  // by name
  bool stops_ ABSL_GUARDED_BY(mutex_) = false;
  Outage outage_ ABSL_GUARDED_BY(mutex_);  // of etcd
  std::condition_variable changed_;
  std::atomic<uint64_t> version_ = 0;
  std::thread prober_;
  std::unique_ptr<EtcdWatch> watch_;
};

}  // namespace snf

#endif  // SNF_PLATFORM_HOSTS_HOST_WATCH_H_
