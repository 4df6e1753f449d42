// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RESOURCE_MANAGER_ETCD_HOST_REGISTRY_H_
#define SNF_RESOURCE_MANAGER_ETCD_HOST_REGISTRY_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/time.h"
#include "proto/cluster.pb.h"
#include "resource_manager/etcd/etcd_client.h"

namespace snf {

class JoinedHost;

// Theory of operation. The hosts of a cluster are keys of etcd, each with a
// lease that its host renews: a host that is dead, frozen or cut off vanishes
// once its term is over. No two hosts have one name, and all hosts have one
// version: /snf/CLUSTER/version has it, and is set by a host that joins an
// empty cluster. A join has that key's revision as its condition, so of two
// hosts that join an empty cluster at once, one reads the other one's version.
//
// Worked example: a joins with a term of 10 s and renews its lease each 2.5 s.
// a is stopped: 10 s after its last heartbeat `List` no longer has it, and a
// second host of its name may join. Continued, a finds its lease ended, and is
// refused by name.
//
// Owner-thread only. The client must outlive the registry and its hosts.
class HostRegistry {
 public:
  static constexpr Nanos kLeastTerm = Seconds(2);
  static constexpr Nanos kMostTerm = Seconds(3'600);

  // Returns the host of a key. Error: DataLoss, the key has another program's
  // value.
  static absl::StatusOr<proto::Host> Read(const EtcdPair& pair);

  // Error: InvalidArgument, `cluster` is no name.
  static absl::StatusOr<HostRegistry> Of(EtcdClient& client,
                                         const std::string& cluster);

  // Errors: InvalidArgument, the host's name or address is none;
  // FailedPrecondition, another host has that name or another version;
  // errors of EtcdClient.
  absl::StatusOr<std::unique_ptr<JoinedHost>> Join(const proto::Host& host,
                                                   Nanos term);
  // Removes a host, whose process then ends. Error: NotFound, there is none.
  absl::Status Remove(const std::string& name);
  // Returns the beginning of all keys of hosts.
  std::string prefix() const { return KeyOf("hosts/"); }
  // Returns the hosts in the order of their names. Error: DataLoss, a key has
  // another program's value.
  absl::StatusOr<proto::HostList> List();

 private:
  friend class JoinedHost;

  HostRegistry(EtcdClient& client, std::string cluster)
      : client_(&client), cluster_(std::move(cluster)) {}
  std::string KeyOf(const std::string& what) const {
    return "/snf/" + cluster_ + "/" + what;
  }
  absl::StatusOr<EtcdRange> Range() const { return client_->List(prefix()); }
  // Returns the revision at which the host's key was created.
  absl::StatusOr<int64_t> Enter(const proto::Host& host, int64_t lease) const;
  absl::Status Check(const EtcdRange& hosts, const proto::Host& host) const;

  EtcdClient* client_;
  std::string cluster_;
};

// A host that has joined. Owner-thread only.
class JoinedHost {
 public:
  enum class State : uint8_t {
    kHere,
    kJoinedAgain,  // its lease had ended, and the host has joined once more
    kRemoved,      // by HostRegistry::Remove
  };

  // Renews the lease: call each beat(). Errors: as of Join, if the lease had
  // ended; Unavailable, etcd does not answer: call again.
  absl::StatusOr<State> Beat();
  Nanos beat() const { return {term_.ns / 4}; }
  Nanos term() const { return term_; }
  // Removes the host.
  absl::Status Leave();

 private:
  friend class HostRegistry;

  JoinedHost(HostRegistry registry, proto::Host host, const EtcdLease& lease)
      : registry_(std::move(registry)),
        host_(std::move(host)),
        lease_(lease.id),
        term_(lease.granted) {}
  absl::Status Enter();

  HostRegistry registry_;
  const proto::Host host_;
  int64_t lease_;
  Nanos term_;
  int64_t created_ = 0;  // the revision
};

}  // namespace snf

#endif  // SNF_RESOURCE_MANAGER_ETCD_HOST_REGISTRY_H_
