// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RESOURCE_MANAGER_ETCD_LEADERSHIP_H_
#define SNF_RESOURCE_MANAGER_ETCD_LEADERSHIP_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>

#include "absl/status/statusor.h"
#include "base/time.h"
#include "resource_manager/etcd/etcd_client.h"

namespace snf {

// Theory of operation. Makes one of several processes the leader: the process
// whose lease holds the key. The leader renews the lease four times in a term.
// A process that finds no key puts the key, on the condition that there is
// none.
//
// A leader stops leading by its own clock, before etcd may give the key to
// another process: a tenth of the term before the lease ends, counted from the
// start of the last renewal that was answered. So is_leader() is false in a
// process that was frozen, as soon as the process is continued. Writes of a
// leader have condition() besides, which etcd checks itself.
//
// Worked example: a has a term of 2 s, and renews at 10.0 s. a is stopped at
// 10.1 s. etcd ends the key at 12.0 s at the earliest; b has the key at 12.2 s.
// a is continued at 60 s: is_leader() is false from 11.8 s on.
//
// Thread-safe. The client must outlive the leadership.
class Leadership {
 public:
  static constexpr char kLeads[] = "leads";
  struct Options {
    std::string key;
    std::string value;  // says who leads
    Nanos term = Seconds(2);
    // Called with a line of text about each change, by a thread of its own:
    // kLeads, or why this process does not lead. A warning says that there may
    // be no leader. May be null.
    std::function<void(bool is_warning, const std::string&)> notice = nullptr;
  };

  // Campaigns from now on, and again whenever the leadership is lost.
  Leadership(EtcdClient& client, Options options);
  // Ends the lease, so that another process may lead at once.
  ~Leadership();
  Leadership(const Leadership&) = delete;
  Leadership& operator=(const Leadership&) = delete;

  bool is_leader() const;
  // Holds as long as etcd knows this process as the leader; holds never if the
  // process has not led yet.
  EtcdCondition condition() const {
    return {options_.key, revision_.load(std::memory_order_acquire)};
  }

 private:
  void Run();
  // Returns true if the key is this process's now.
  absl::StatusOr<bool> Campaign();
  void Renew();
  void Lead(Nanos since_boot, Nanos term);
  void Tell(bool is_warning, const std::string& line);

  EtcdClient& client_;
  const Options options_;
  int64_t lease_ = 0;  // of the running thread; 0: none
  Nanos term_;
  std::string told_;
  std::atomic<int64_t> revision_{-1};
  std::atomic<int64_t> until_ns_{0};  // since boot; 0: does not lead
  std::atomic<bool> stops_{false};
  std::thread thread_;
};

}  // namespace snf

#endif  // SNF_RESOURCE_MANAGER_ETCD_LEADERSHIP_H_
