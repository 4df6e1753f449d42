// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_DAEMON_GROUP_GROUP_MEMBERSHIP_H_
#define SNF_PLATFORM_DAEMON_GROUP_GROUP_MEMBERSHIP_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/outage.h"
#include "base/time.h"
#include "platform/daemon/group/group_member.h"
#include "resource_manager/core/gateway_group.h"
#include "resource_manager/etcd/etcd_client.h"
#include "resource_manager/etcd/group_store.h"
#include "resource_manager/etcd/key_name.h"

namespace snf {

// Keeps this process in the table of a group (GatewayGroup, which says by what
// rules), on a thread of its own. Beats are written while the path of packets
// turns: a process whose path stands still loses its hosts, as a dead one.
//
// Thread-safe, where a call does not say otherwise.
class GroupMembership final : public GroupMember {
 public:
  // A line for people.
  using Notice = std::function<void(bool is_warning, const std::string& line)>;
  struct Options {
    std::string cluster;
    std::string group;
    GatewayGroup::Options member;
    Notice notice;  // called on the object's thread
  };

  // Looks whether the process can join. If it is to continue the membership of
  // another process (GatewayGroup::Options::continues), then does nothing until
  // Continue. Errors: FailedPrecondition, names the member that is in the way;
  // InvalidArgument, a name is none; errors of EtcdClient.
  static absl::StatusOr<std::unique_ptr<GroupMembership>> Start(
      std::unique_ptr<EtcdClient> client, Options options);
  // Leaves, within about the time of a look. If etcd does not answer: stays in
  // the table, after a few seconds at most.
  ~GroupMembership() override;
  GroupMembership(const GroupMembership&) = delete;
  GroupMembership& operator=(const GroupMembership&) = delete;

  // Continues the membership of the process that had this place, from now on.
  // Error: FailedPrecondition, the place is not of this member.
  absl::Status Continue(const GatewayGroup::Place& place);

  void Begin() override;
  void Leave() override;
  std::optional<GatewayGroup::Place> HandOn(uint64_t epoch) override;
  View Current() const override;
  void OnTurn(uint64_t epoch) override;
  void OnOut(uint64_t epoch) override {
    out_.store(epoch, std::memory_order_relaxed);
  }
  const std::string& group() const override { return options_.group; }
  Outage::State etcd() const override;
  // Checks the name of a group. Error: InvalidArgument.
  static absl::Status CheckName(const std::string& group) {
    return CheckKeyName("name of a group", group);
  }
  // The clock of vouched_until. It counts suspended time as well.
  static Instant Now();

  const Options& options() const { return options_; }

 private:
  GroupMembership(std::unique_ptr<EtcdClient> client, GroupStore store,
                  Options options);

  absl::Status AwaitPlace();
  void Run();
  // Return the time until the next cycle.
  Nanos Cycle();
  Nanos Change(const GatewayGroup::Swap& swap);
  Nanos OnError(Instant begun, const absl::Status& why);
  void HeedAsks();
  void SetWish();
  void NoteAnswer(Instant begun, const absl::Status& status);
  bool IsPathAlive(Instant now) const;
  void Ask(const std::function<void()>& set);
  void Tell(bool is_warning, const std::string& what) const;
  void Publish();
  void TellChanges(const View& before, const View& now);
  // Ends early if something else is asked for.
  void Wait(Nanos time);
  bool stops() const;

  const Options options_;
  const std::unique_ptr<EtcdClient> client_;
  // The following are for the thread, once it runs.
  GroupStore store_;
  GatewayGroup group_;
  enum class Etcd : uint8_t { kAnswers, kAway, kRefuses };
  Etcd etcd_ = Etcd::kAnswers;      // as it was told
  bool is_change_refused_ = false;  // as it was told
  std::string unread_;              // as it was told
  std::string refused_;             // why it cannot join, as it was told

  std::atomic<bool> is_handed_on_ = false;
  std::atomic<bool> wants_in_ = false;
  std::atomic<uint64_t> applied_ = 0;
  std::atomic<uint64_t> out_ = 0;
  std::atomic<int64_t> turned_ns_ = 0;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  View view_ ABSL_GUARDED_BY(mutex_);
  Outage outage_ ABSL_GUARDED_BY(mutex_);  // of etcd
  bool stops_ ABSL_GUARDED_BY(mutex_) = false;
  uint64_t asked_ ABSL_GUARDED_BY(mutex_) = 0;   // how often
  uint64_t heeded_ ABSL_GUARDED_BY(mutex_) = 0;  // of these
  std::thread thread_;
};

}  // namespace snf

#endif  // SNF_PLATFORM_DAEMON_GROUP_GROUP_MEMBERSHIP_H_
