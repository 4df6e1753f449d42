// SPDX-License-Identifier: Apache-2.0
#include "resource_manager/etcd/host_registry.h"

#include <fmt/format.h>
#include <google/protobuf/util/json_util.h>

#include <utility>

#include "base/text/wording.h"
#include "resource_manager/etcd/key_name.h"

namespace snf {
namespace {

// Joins that meet others retry so often.
constexpr int kMostTries = 16;

std::string JsonOf(const google::protobuf::Message& message) {
  std::string text;
  // Fails for types that a Host does not have.
  (void)google::protobuf::util::MessageToJsonString(message, &text);
  return text;
}

}  // namespace

absl::StatusOr<proto::Host> HostRegistry::Read(const EtcdPair& pair) {
  proto::Host host;
  google::protobuf::util::JsonParseOptions options;
  options.ignore_unknown_fields = true;  // of a later version
  const auto read =
      google::protobuf::util::JsonStringToMessage(pair.value, &host, options);
  if (read.ok() && pair.key.ends_with("/" + host.name())) return host;
  return absl::DataLossError(fmt::format("etcd: key {}: \"{}\" is no host",
                                         Printable(pair.key),
                                         Printable(pair.value.substr(0, 80))));
}

absl::StatusOr<HostRegistry> HostRegistry::Of(EtcdClient& client,
                                              const std::string& cluster) {
  if (absl::Status s = CheckKeyName("name of a cluster", cluster); !s.ok()) {
    return s;
  }
  return HostRegistry(client, cluster);
}

absl::Status HostRegistry::Check(const EtcdRange& hosts,
                                 const proto::Host& host) const {
  for (const EtcdPair& pair : hosts.pairs) {
    const absl::StatusOr<proto::Host> other = Read(pair);
    if (!other.ok()) return other.status();
    if (other->name() == host.name()) {
      return absl::FailedPreconditionError(fmt::format(
          "a host \"{0}\" is there already, at {1}, process {2}; snf host "
          "leave {0} removes it",
          host.name(), Printable(other->address()), other->pid()));
    }
    if (other->version() != host.version()) {
      return absl::FailedPreconditionError(fmt::format(
          "host \"{}\" has version {}, and the hosts of cluster \"{}\", as "
          "\"{}\", have version {}",
          host.name(), host.version(), cluster_, other->name(),
          Printable(other->version())));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<int64_t> HostRegistry::Enter(const proto::Host& host,
                                            int64_t lease) const {
  const std::string key = KeyOf("hosts/" + host.name());
  const std::string version_key = KeyOf("version");
  for (int tries = 0; tries < kMostTries; ++tries) {
    const auto version = client_->Get(version_key);
    if (!version.ok()) return version.status();
    const absl::StatusOr<EtcdRange> hosts = Range();
    if (!hosts.ok()) return hosts.status();
    if (absl::Status s = Check(*hosts, host); !s.ok()) return s;
    const int64_t revision =
        version->has_value() ? (*version)->mod_revision : 0;
    std::vector<EtcdChange> changes = {{key, JsonOf(host), lease}};
    if (hosts->pairs.empty()) changes.push_back({version_key, host.version()});
    const auto outcome =
        client_->Transact({{version_key, revision}, {key, 0}}, changes);
    if (!outcome.ok()) return outcome.status();
    if (outcome->is_done) return outcome->revision;
    for (const EtcdPair& pair : outcome->found) {
      // The call before was executed, and its answer lost.
      if (pair.key == key && pair.lease == lease) return pair.create_revision;
    }
  }
  return absl::UnavailableError(fmt::format(
      "host \"{}\": {} other joins came first", host.name(), kMostTries));
}

absl::StatusOr<std::unique_ptr<JoinedHost>> HostRegistry::Join(
    const proto::Host& host, Nanos term) {
  absl::Status named = CheckKeyName("name of a host", host.name());
  named.Update(CheckKeyName("address of a host", host.address()));
  if (!named.ok()) return named;
  const absl::StatusOr<EtcdLease> lease = client_->Grant(term);
  if (!lease.ok()) return lease.status();
  std::unique_ptr<JoinedHost> joined(new JoinedHost(*this, host, *lease));
  const absl::StatusOr<int64_t> created = Enter(host, lease->id);
  if (!created.ok()) {
    // At the latest, the lease ends by itself.
    client_->Revoke(lease->id).IgnoreError();
    return created.status();
  }
  joined->created_ = *created;
  return joined;
}

absl::Status HostRegistry::Remove(const std::string& name) {
  if (absl::Status s = CheckKeyName("name of a host", name); !s.ok()) return s;
  const std::string key = KeyOf("hosts/" + name);
  const auto found = client_->Get(key);
  if (!found.ok()) return found.status();
  if (!found->has_value()) {
    return absl::NotFoundError(
        fmt::format("cluster \"{}\" has no host \"{}\"", cluster_, name));
  }
  return client_
      ->Transact({{key, (*found)->mod_revision}}, {{key, std::nullopt}})
      .status();
}

absl::StatusOr<proto::HostList> HostRegistry::List() {
  const absl::StatusOr<EtcdRange> hosts = Range();
  if (!hosts.ok()) return hosts.status();
  proto::HostList list;
  list.set_cluster(cluster_);
  for (const EtcdPair& pair : hosts->pairs) {
    absl::StatusOr<proto::Host> host = Read(pair);
    if (!host.ok()) return host.status();
    const absl::StatusOr<EtcdLease> lease = client_->Look(pair.lease);
    if (absl::IsNotFound(lease.status())) continue;  // has just ended
    if (!lease.ok()) return lease.status();
    constexpr int64_t kSecond = 1'000'000'000;
    proto::ListedHost& listed = *list.add_host();
    *listed.mutable_host() = *std::move(host);
    listed.set_heard_s_ago((lease->granted.ns - lease->left.ns) / kSecond);
    listed.set_term_s(lease->granted.ns / kSecond);
  }
  return list;
}

absl::StatusOr<JoinedHost::State> JoinedHost::Beat() {
  EtcdClient& client = *registry_.client_;
  const absl::StatusOr<Nanos> renewed = client.KeepAlive(lease_);
  if (absl::IsNotFound(renewed.status())) {
    if (absl::Status s = Enter(); !s.ok()) return s;
    return State::kJoinedAgain;
  }
  if (!renewed.ok()) return renewed.status();
  const auto found = client.Get(registry_.KeyOf("hosts/" + host_.name()));
  if (!found.ok()) return found.status();
  if (found->has_value() && (*found)->create_revision == created_) {
    return State::kHere;
  }
  client.Revoke(lease_).IgnoreError();
  return State::kRemoved;
}

absl::Status JoinedHost::Enter() {
  auto joined = registry_.Join(host_, term_);
  if (!joined.ok()) return joined.status();
  lease_ = (*joined)->lease_;
  created_ = (*joined)->created_;
  return absl::OkStatus();
}

absl::Status JoinedHost::Leave() { return registry_.client_->Revoke(lease_); }

}  // namespace snf
