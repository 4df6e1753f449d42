// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RESOURCE_MANAGER_ETCD_ETCD_CLIENT_H_
#define SNF_RESOURCE_MANAGER_ETCD_ETCD_CLIENT_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/time.h"

namespace snf {

// A key and its value, at a revision of etcd's store.
struct EtcdPair {
  std::string key;
  std::string value;
  int64_t create_revision = 0;  // when the key was created
  int64_t mod_revision = 0;     // when the value was last set
  int64_t lease = 0;            // 0: none
  friend bool operator==(const EtcdPair&, const EtcdPair&) = default;
};

// Pairs in the order of their keys, all at one revision.
struct EtcdRange {
  int64_t revision = 0;
  std::vector<EtcdPair> pairs;
};

// Holds if the key was last set at this revision; 0: if there is no such key.
struct EtcdCondition {
  std::string key;
  int64_t mod_revision = 0;
};

// Sets a key, or deletes the key.
struct EtcdChange {
  std::string key;
  std::optional<std::string> value{};  // none: the key is deleted
  int64_t lease = 0;                   // the key ends with the lease; 0: none
};

struct EtcdOutcome {
  bool is_done = false;
  int64_t revision = 0;
  // If a condition does not hold, the pairs of the conditions' keys.
  std::vector<EtcdPair> found{};
};

struct EtcdLease {
  int64_t id = 0;
  Nanos granted;  // whole seconds, at least as long as was asked for
  Nanos left;
};

// Counts events since the client was created.
struct EtcdCounters {
  uint64_t calls = 0;
  uint64_t failed = 0;     // attempts at an endpoint that did not answer
  uint64_t given_up = 0;   // calls that no endpoint answered
  uint64_t resumed = 0;    // watches that were resumed by revision
  uint64_t compacted = 0;  // watches whose revision had been compacted
  uint64_t went_back = 0;  // revisions below earlier ones: an old backup
  uint64_t tokens = 0;     // authentications
};

// Receives a watched range. All calls come on the watch's thread, and may call
// the client, but must not end the watch.
class EtcdWatcher {
 public:
  virtual ~EtcdWatcher() = default;
  // The whole range: at first, and whenever changes may have been missed.
  virtual void on_all(const EtcdRange& range) = 0;
  // A deleted pair has no value; its mod_revision is that of its end.
  virtual void on_change(const EtcdPair& pair, bool is_deleted) = 0;
};

// Stops the calls of its watcher when it ends.
class EtcdWatch {
 public:
  virtual ~EtcdWatch() = default;

 protected:
  EtcdWatch() = default;
};

// Theory of operation. Calls etcd's v3 service at one of several endpoints. An
// endpoint that refuses, is silent for `attempt`, or has no leader is left for
// the next one, round and round, until `patience` is over.
//
// A call that changes may be executed twice, or late, if an endpoint was
// silent. A change that others may make as well therefore has a condition:
// executed again, the condition no longer holds, and `found` has the caller's
// own value.
//
// A watch reads its range first, and then follows the changes from the next
// revision on. If the stream breaks, the watch resumes at another endpoint from
// the revision after the last change. If etcd has compacted that revision, or
// has gone back behind it, the watch reads its range again.
//
// Worked example: endpoints a, b; a is stopped. Get waits `attempt`, 1 s, for
// a, then asks b, which answers in 1 ms. The next call begins with b.
//
// Thread-safe. Must outlive its watches.
class EtcdClient {
 public:
  struct Options {
    std::vector<std::string> endpoints;  // HOST:PORT, in the order of trial
    Nanos attempt = Seconds(1);          // for the answer of one endpoint
    Nanos patience = Seconds(4);         // for a call, over all endpoints
    Nanos silence = Seconds(3);          // of a watch, before it is resumed
    std::string user{};                  // empty: no authentication
    std::string password{};
    std::string ca_file{};    // PEM; empty: no TLS
    std::string cert_file{};  // PEM, of the client; empty: none
    std::string key_file{};   // PEM, of the client
  };

  // Connects on the first call. Errors: InvalidArgument, names the option;
  // errors of reading the files.
  static absl::StatusOr<std::unique_ptr<EtcdClient>> Create(
      const Options& options);
  virtual ~EtcdClient() = default;

  // Errors of all calls: Unavailable, no endpoint answers; etcd's own, such as
  // PermissionDenied. Each message names the endpoint.

  // Returns none if there is no such key.
  virtual absl::StatusOr<std::optional<EtcdPair>> Get(
      const std::string& key) = 0;
  // Returns all keys that begin with `prefix`, which is not empty.
  virtual absl::StatusOr<EtcdRange> List(const std::string& prefix) = 0;
  // Makes all changes, or none if a condition does not hold.
  virtual absl::StatusOr<EtcdOutcome> Transact(
      const std::vector<EtcdCondition>& conditions,
      const std::vector<EtcdChange>& changes) = 0;

  // Without a condition; see above.
  absl::Status Put(const std::string& key, const std::string& value,
                   int64_t lease = 0) {
    return Transact({}, {{key, value, lease}}).status();
  }
  absl::Status Delete(const std::string& key) {
    return Transact({}, {{key, std::nullopt}}).status();
  }

  // Etcd rounds up to whole seconds, and to a least time of its own.
  virtual absl::StatusOr<EtcdLease> Grant(Nanos time) = 0;
  // Renews the lease; returns its time from now on. Error: NotFound, it has
  // ended.
  virtual absl::StatusOr<Nanos> KeepAlive(int64_t lease) = 0;
  // Ends the lease, with its keys. Returns OK also if it had ended before.
  virtual absl::Status Revoke(int64_t lease) = 0;
  // Error: NotFound.
  virtual absl::StatusOr<EtcdLease> Look(int64_t lease) = 0;

  // Follows all keys that begin with `prefix`. The watcher must outlive the
  // watch.
  virtual std::unique_ptr<EtcdWatch> Watch(const std::string& prefix,
                                           EtcdWatcher& watcher) = 0;

  virtual EtcdCounters counters() const = 0;

 protected:
  EtcdClient() = default;
};

// Reads HOST:PORT,HOST:PORT…. Error: InvalidArgument, names the wrong part.
absl::StatusOr<std::vector<std::string>> ReadEndpoints(const std::string& text);

}  // namespace snf

#endif  // SNF_RESOURCE_MANAGER_ETCD_ETCD_CLIENT_H_
