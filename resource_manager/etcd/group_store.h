// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RESOURCE_MANAGER_ETCD_GROUP_STORE_H_
#define SNF_RESOURCE_MANAGER_ETCD_GROUP_STORE_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/cluster.pb.h"
#include "resource_manager/core/gateway_group.h"
#include "resource_manager/etcd/etcd_client.h"

namespace snf {

// The keys of a group of controllers in etcd: /snf/CLUSTER/groups/GROUP/table,
// and beats/NUMBER beside it. They have no lease: beats are told from the
// revisions of their keys (GatewayGroup). A table whose members have all died
// stays until the next member joins.
//
// Owner-thread only. The client must outlive the store. Errors of calls are
// errors of EtcdClient.
class GroupStore {
 public:
  // Error: InvalidArgument, a name is none.
  static absl::StatusOr<GroupStore> Of(EtcdClient& client,
                                       const std::string& cluster,
                                       const std::string& group);

  // Reads all, at one revision. A beat of another program has no incarnation:
  // unread() names its key. Error: DataLoss, the table is another program's.
  absl::StatusOr<GatewayGroup::Look> Look();
  // Says which beat was not readable at the last look; "": all were.
  const std::string& unread() const { return unread_; }
  absl::Status Beat(uint32_t number, const GatewayBeat& beat);
  // Returns false if a condition of the change does not hold.
  absl::StatusOr<bool> Swap(const GatewayGroup::Swap& swap);

 private:
  GroupStore(EtcdClient& client, std::string prefix)
      : client_(&client), prefix_(std::move(prefix)) {}
  std::string TableKey() const { return prefix_ + "table"; }
  std::string BeatKey(uint32_t number) const {
    return prefix_ + "beats/" + std::to_string(number);
  }
  absl::Status Take(const EtcdPair& pair, GatewayGroup::Look& look);
  void TakeBeat(const EtcdPair& pair, GatewayGroup::Look& look);

  EtcdClient* client_;
  std::string prefix_;
  std::string unread_{};
};

// Returns the message of a table, and the table of a message.
proto::GatewayTable MessageOf(const GatewayTable& table);
GatewayTable TableOf(const proto::GatewayTable& message);

}  // namespace snf

#endif  // SNF_RESOURCE_MANAGER_ETCD_GROUP_STORE_H_
