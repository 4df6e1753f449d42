// SPDX-License-Identifier: Apache-2.0
#include "resource_manager/etcd/host_follower.h"

#include <utility>
#include <vector>

#include "resource_manager/etcd/host_registry.h"

namespace snf {
namespace {

std::string NameOf(const std::string& key) {
  return key.substr(key.rfind('/') + 1);
}

}  // namespace

void HostFollower::on_all(const EtcdRange& range) {
  std::map<std::string, int64_t> there;
  for (const EtcdPair& pair : range.pairs) {
    there[pair.key] = pair.create_revision;
  }
  std::vector<std::string> gone;
  for (const auto& [key, created] : created_) {
    const auto found = there.find(key);
    if (found == there.end() || found->second != created) gone.push_back(key);
  }
  for (const std::string& key : gone) Drop(key);
  for (const EtcdPair& pair : range.pairs) Take(pair);
}

void HostFollower::on_change(const EtcdPair& pair, bool is_deleted) {
  if (is_deleted) {
    Drop(pair.key);
  } else {
    Take(pair);
  }
}

void HostFollower::Take(const EtcdPair& pair) {
  const auto known = created_.find(pair.key);
  if (known != created_.end()) {
    // A host's value stays as it is.
    if (known->second == pair.create_revision) return;
    Drop(pair.key);
  }
  created_[pair.key] = pair.create_revision;
  tell_({.is_joined = true,
         .name = NameOf(pair.key),
         .host = HostRegistry::Read(pair)});
}

void HostFollower::Drop(const std::string& key) {
  if (created_.erase(key) == 0) return;
  tell_({.is_joined = false, .name = NameOf(key)});
}

}  // namespace snf
