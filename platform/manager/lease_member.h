// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_MANAGER_LEASE_MEMBER_H_
#define SNF_PLATFORM_MANAGER_LEASE_MEMBER_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/time.h"
#include "platform/manager/lease_client.h"
#include "platform/manager/lease_words.h"
#include "platform/manager/process_watch.h"
#include "platform/real_cluster/lease_mail.h"
#include "platform/real_cluster/mail.h"
#include "proto/leases.pb.h"
#include "runtime/ring/doorbell.h"

namespace snf {

// Theory of operation. The way of a daemon to its resource manager, on threads
// of its own: sends what the owner puts into `outbox`, and puts what comes into
// `inbox`, in order. When the stream breaks, or nothing comes for kSilence, it
// opens another one, later and later up to kLongestWait; what was to be sent
// meanwhile is dropped and counted, for the manager asks again. Each stream
// that is welcome gives the controller a new life (NewLife), and tells of the
// manager (NewManager).
//
// A manager that is started later is the same to it as one that was not heard:
// so the daemon goes on with what it has.
//
// Thread-safe, but Join.
class LeaseMember {
 public:
  static constexpr Nanos kSilence = Seconds(5);
  static constexpr Nanos kFirstWait = Milliseconds(10);
  static constexpr Nanos kLongestWait = Milliseconds(500);

  struct Options {
    std::string socket;   // of the manager
    std::string manager;  // its name
    ProcessId process;
    std::string name;                                       // of the daemon
    std::optional<ControllerId> controller = std::nullopt;  // none: any
    uint32_t units = 1;
    int64_t unit_capacity_bps = 0;
    // Is told a line when the manager is lost, and when it is back; by any
    // thread. May be null.
    std::function<void(const std::string&)> notice = nullptr;
  };

  // Returns once it is welcome. Errors: those of the manager, which refuses it;
  // FailedPrecondition, none answers in time.
  static absl::StatusOr<std::unique_ptr<LeaseMember>> Join(
      const Options& options, Nanos patience);
  ~LeaseMember();
  LeaseMember(const LeaseMember&) = delete;
  LeaseMember& operator=(const LeaseMember&) = delete;

  // Return what it had when Join returned.
  ControllerLife first_life() const { return first_life_; }
  Nanos term() const { return term_; }

  // The owner takes from one and puts into the other.
  Mail<FromManager>& inbox() { return inbox_; }
  ManagerMail& outbox() { return outbox_; }
  // There is a manager that has welcomed it.
  bool is_welcome() const { return is_welcome_.load(); }
  // Counts messages that nobody could be told.
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
  void Tell(const std::string& line);
  void Wait(Nanos most);

  const Options options_;
  ControllerLife first_life_;
  Nanos term_;
  Mail<FromManager> inbox_;
  Doorbell bell_;
  ManagerMail outbox_{&bell_};
  // The thread that sends has these, and the one that reads while that runs.
  std::optional<ControllerId> controller_;
  std::atomic<uint64_t> life_{0};
  std::atomic<uint64_t> manager_epoch_{0};
  std::atomic<bool> is_welcome_{false};
  std::atomic<bool> has_broken_{false};
  std::atomic<int64_t> heard_ns_{0};  // when, on the machine's clock
  std::atomic<uint64_t> unsent_{0};
  absl::Status refusal_;  // the latest one; of the thread that reads
  std::string told_;      // the latest line
  std::promise<absl::Status> joined_;
  bool has_joined_ = false;
  std::atomic<bool> stops_{false};
  std::mutex mutex_;
  // Points to the stream that is under way; null if there is none.
  LeaseStream* stream_ ABSL_GUARDED_BY(mutex_) = nullptr;
  std::thread thread_;
};

}  // namespace snf

#endif  // SNF_PLATFORM_MANAGER_LEASE_MEMBER_H_
