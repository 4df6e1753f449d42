// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_DAEMON_LEASE_MEMBER_H_
#define SNF_PLATFORM_DAEMON_LEASE_MEMBER_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/outage.h"
#include "base/time.h"
#include "platform/daemon/leased_hosts.h"
#include "platform/drivers/real_cluster/lease_mail.h"
#include "proto/leases.pb.h"
#include "resource_manager/live/lease_client.h"
#include "resource_manager/live/lease_words.h"
#include "resource_manager/live/process_watch.h"
#include "runtime/ring/doorbell.h"
#include "runtime/ring/mail.h"

namespace snf {

// Theory of operation. Connects a daemon to its resource manager, on threads of
// its own: sends the messages in `outbox`, and puts received messages into
// `inbox`, in order. If the stream breaks, or nothing comes for kSilence, the
// member opens another stream, after a wait that grows up to kLongestWait.
// Messages in the outbox are dropped and counted meanwhile, for the manager
// asks again. Each stream that is welcome gives the controller a new life
// (NewLife), and announces the manager (NewManager).
//
// Without a manager, the daemon keeps the leases that it has, whether the
// manager has failed or cannot be reached. A manager of another machine has to
// hear of the member in each member term, or else takes the member for dead. A
// member that comes again then ends all its leases (LeasesEnded), and joins
// again.
//
// Thread-safe, but Join.
class LeaseMember {
 public:
  static constexpr Nanos kSilence = Seconds(5);
  static constexpr Nanos kFirstWait = Milliseconds(10);
  static constexpr Nanos kLongestWait = Milliseconds(500);
  static constexpr Nanos kAliveEvery = Seconds(1);

  struct Options {
    // The manager's address. If there are several managers, of which one leads,
    // their addresses are tried in turn.
    std::vector<LeaseAddress> addresses;
    std::string manager;  // its name, or their names or addresses
    ProcessId process;
    std::string machine = OwnMachine();                     // of the process
    std::string name;                                       // of the daemon
    std::optional<ControllerId> controller = std::nullopt;  // none: any
    uint32_t units = 1;
    int64_t unit_capacity_bps = 0;
    bool follows_hosts = false;  // units run on the hosts of a cluster
    // Called with a line of text when the manager is lost, which is a warning,
    // and when there is one again; by any thread. May be null.
    std::function<void(bool is_warning, const std::string&)> notice = nullptr;
  };

  // Returns once the member is welcome. Errors: the manager's, if it refuses
  // the member; FailedPrecondition if no manager answers in time.
  static absl::StatusOr<std::unique_ptr<LeaseMember>> Join(
      const Options& options, Nanos patience);
  ~LeaseMember();
  LeaseMember(const LeaseMember&) = delete;
  LeaseMember& operator=(const LeaseMember&) = delete;

  // Return the life and the term that the member had when Join returned.
  ControllerLife first_life() const { return first_life_; }
  Nanos term() const { return term_; }

  // The owner takes from the inbox, and puts into the outbox.
  Mail<FromManager>& inbox() { return inbox_; }
  ManagerMail& outbox() { return outbox_; }
  // Says on which hosts units run; null unless Options::follows_hosts.
  const HostSource* hosts() const {
    return options_.follows_hosts ? &hosts_ : nullptr;
  }
  // Returns true while a manager has welcomed the member.
  bool is_welcome() const { return is_welcome_.load(); }
  // Says how long no manager has welcomed the member, and why. Any thread.
  Outage::State manager() const;
  // Says why no manager has answered at an address, which it names: a call
  // there ended with that status. Over TCP, connects there once more
  // (WhyNotReachable), which takes some seconds at most.
  static std::string WhyNoManager(const LeaseAddress& address,
                                  const absl::Status& status);
  // Counts messages that were dropped.
  uint64_t unsent() const { return unsent_.load(); }

 private:
  explicit LeaseMember(const Options& options);
  void Run();
  void Attend(LeaseStream& stream);
  void ReadAll(LeaseStream& stream);
  void Take(const proto::ToMember& word);
  void Welcome(const proto::Welcome& word);
  void SendAll(LeaseStream& stream);
  void Drop();
  proto::ToManager Hello() const;
  void Tell(bool is_warning, const std::string& line);
  void OnLost();
  void NoteWhy(const absl::Status& broken);
  void Probe();
  std::string Reasons() const;
  void Wait(Nanos most);

  bool has_others() const { return options_.addresses.size() > 1; }
  Nanos silence() const;
  void SayAlive(LeaseStream& stream);
  void Refute();
  void EndLeases();

  const Options options_;
  size_t at_ = 0;  // the address in use
  LeasedHosts hosts_;
  ControllerLife first_life_;
  Nanos term_;
  Mail<FromManager> inbox_;
  Doorbell bell_;
  ManagerMail outbox_{&bell_};
  // Owned by the sending thread, and by the reading thread while that runs.
  std::optional<ControllerId> controller_;
  std::atomic<uint64_t> life_{0};
  std::atomic<uint64_t> manager_epoch_{0};
  std::atomic<bool> is_welcome_{false};
  std::atomic<bool> has_broken_{false};
  std::atomic<int64_t> heard_ns_{0};  // when, on the machine's clock
  // Within this time the manager has to hear of the member; 0: it need not.
  std::atomic<int64_t> member_term_ns_{0};
  Instant next_alive_;  // of the sending thread
  std::atomic<uint64_t> unsent_{0};
  absl::Status refusal_;  // the latest one; of the thread that reads
  std::string told_;      // the latest line
  // Why an address has not answered since the member was last welcome.
  struct Reason {
    absl::Status error;
    std::string text{};     // "": it was not tried
    bool is_plain = false;  // the text needs no probe
  };
  std::vector<Reason> reasons_;  // by address
  bool has_told_reasons_ = false;
  size_t probed_ = 0;  // the address of the probe, and its error
  absl::Status probed_error_;
  std::future<std::string> probe_;  // one at a time, and beside the tries
  std::promise<absl::Status> joined_;
  bool has_joined_ = false;
  std::atomic<bool> stops_{false};
  mutable std::mutex mutex_;
  Outage outage_ ABSL_GUARDED_BY(mutex_);  // of all managers
  // Points to the stream that is under way; null if there is none.
  LeaseStream* stream_ ABSL_GUARDED_BY(mutex_) = nullptr;
  std::thread thread_;
};

}  // namespace snf

#endif  // SNF_PLATFORM_DAEMON_LEASE_MEMBER_H_
