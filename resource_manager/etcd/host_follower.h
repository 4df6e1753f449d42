// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RESOURCE_MANAGER_ETCD_HOST_FOLLOWER_H_
#define SNF_RESOURCE_MANAGER_ETCD_HOST_FOLLOWER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "proto/cluster.pb.h"
#include "resource_manager/etcd/etcd_client.h"

namespace snf {

// Reports hosts that join a cluster and leave it, each once, from a watch of
// HostRegistry::prefix(). If a host left and joined again while the watch
// missed changes, both are reported.
//
// Worked example: the watch's first range has a, so a has joined. A later range
// has b alone: a has left, and b has joined.
//
// Owner-thread only: the watch's.
class HostFollower final : public EtcdWatcher {
 public:
  struct Change {
    bool is_joined = false;
    std::string name;
    // The host, if it has joined. Error: DataLoss, the key has the value of
    // another program.
    absl::StatusOr<proto::Host> host = proto::Host();
  };

  explicit HostFollower(std::function<void(const Change&)> tell)
      : tell_(std::move(tell)) {}

  void on_all(const EtcdRange& range) override;
  void on_change(const EtcdPair& pair, bool is_deleted) override;

 private:
  void Take(const EtcdPair& pair);
  void Drop(const std::string& key);

  std::function<void(const Change&)> tell_;
  // The revision at which the key of each host was created.
  std::map<std::string, int64_t> created_;
};

}  // namespace snf

#endif  // SNF_RESOURCE_MANAGER_ETCD_HOST_FOLLOWER_H_
