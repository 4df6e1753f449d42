// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RESOURCE_MANAGER_LIVE_MANAGER_DESK_H_
#define SNF_RESOURCE_MANAGER_LIVE_MANAGER_DESK_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/time.h"
#include "proto/leases.pb.h"
#include "resource_manager/core/manager_host.h"
#include "resource_manager/live/desk_hosts.h"
#include "resource_manager/live/lease_server.h"
#include "resource_manager/live/lease_words.h"
#include "resource_manager/live/member_file.h"
#include "resource_manager/live/process_watch.h"
#include "runtime/ring/doorbell.h"
#include "runtime/ring/mail.h"

namespace snf {

// Managers that older notes, which were put back, do not know: their members
// are asked again. From `until` on, they count as buried.
struct LostEpochs {
  uint64_t after = 0;
  uint64_t last = 0;
  Instant until;
};

// Theory of operation. Runs the resource manager of one machine on a thread of
// its own: reads the mail of its members in order, and sends the manager's
// commands (proto/protocol.md §7). A unit is capacity: it starts at once. Each
// member keeps its own leases (HeldUnits): a SetShare goes to the holder of the
// lease, which answers for the unit. A question about a unit goes to all
// members, and the desk puts their answers together.
//
//   member ─on_message─► mail ─► ResourceManager ─► SetShare, Grant … ─► member
//
// A member is a process, or one of several chains of a process, which have
// names of their own. While the process lives its leases stay, whether it can
// be reached or not. Once the process has ended its leases end, and the
// desk confirms their ends in its place. The end of a process on another
// machine cannot be seen: a member there counts as dead once the desk has not
// heard of it for `member_term`. If the member comes again, it is told that its
// leases have ended.
//
// If `follows_hosts` is set, units are places on the hosts of SetHosts
// (UnitSites). A unit without a host has no shares. Members are told the host
// of a unit before they have a share of it, and the notes have it before that.
//
// A file has the members, before they are welcome. A manager that finds the
// file asks the members that still live for their leases, and gives nothing
// before all of them have answered or ended.
//
// Worked example: members 0 and 1 have 512 of unit 0 each. The manager is
// killed, and so is member 1. The next manager, of epoch 2, finds both in the
// file, and process 1 gone: it waits for member 0, whose report says 512. So
// unit 0 has 512 free.
//
// If a member has leases of an earlier manager, and the notes do not name the
// member, either its leases have ended (if it may have been taken for dead), or
// the notes were lost: then the desk begins anew with a greater epoch, and asks
// all members again. If the leases of a unit do not fit then, all of them end.
//
// Thread-safe, but Start and Stop.
class ManagerDesk final : public LeaseHandler {
 public:
  static constexpr uint64_t kMostEpoch = (uint64_t{1} << 31) - 2;

  struct Options {
    std::string name;
    uint32_t units = 1;
    int64_t unit_capacity_bps = 1'000'000'000;
    Nanos term = Seconds(5);
    std::string machine = OwnMachine();  // the desk's own
    Nanos member_term = Seconds(10);     // of members of other machines
    bool follows_hosts = false;
    std::string file{};  // MemberFile's
    // Keeps the notes for the next manager, instead of the file; must outlive
    // the desk.
    MemberNotes* notes = nullptr;
    // Returns false once another manager may lead: then the desk does nothing.
    // Null: there is none.
    std::function<bool()> may_serve = nullptr;
    // Gets a line about each event, by any thread; may be null. Refusals and
    // lost members are warnings.
    std::function<void(bool is_warning, const std::string&)> notice = nullptr;
  };

  // Reads and writes the notes. Errors: as of MemberNotes;
  // FailedPrecondition if members live that have leases of other units.
  static absl::StatusOr<std::unique_ptr<ManagerDesk>> Start(
      const Options& options);
  // Removes the notes if no member lives.
  ~ManagerDesk() override;
  ManagerDesk(const ManagerDesk&) = delete;
  ManagerDesk& operator=(const ManagerDesk&) = delete;

  // Sets the hosts that have joined, in the order in which they are filled.
  void SetHosts(std::vector<UnitHost> hosts) {
    mail_.Put(Joined{std::move(hosts)});
  }

  void on_message(const std::shared_ptr<MemberStream>& from,
                  proto::ToManager message) override;
  void on_end(const std::shared_ptr<MemberStream>& stream) override;
  absl::Status Look(Deadline deadline, proto::LookReply& reply) override;

 private:
  using StreamPtr = std::shared_ptr<MemberStream>;
  struct Said {
    StreamPtr from;
    proto::ToManager message;
  };
  struct Ended {
    StreamPtr stream;
  };
  struct Question {
    std::shared_ptr<std::promise<proto::LookReply>> answer;
  };
  struct Joined {
    std::vector<UnitHost> hosts;
  };
  using Letter = std::variant<Said, Ended, Question, Joined>;

  struct Member {
    ProcessId process;
    std::string name;
    std::string machine;         // another one's; "": the desk's
    ProcessWatch watch;          // of a process of the desk's machine
    Instant heard;               // of a process of another machine
    StreamPtr stream = nullptr;  // null: not connected
    uint64_t life = 0;           // the latest
    bool may_hold = false;       // leases, of this manager or an earlier one
    bool is_welcome = false;     // on this stream
    int64_t wanted = 0;          // by the last Ask
  };
  // A lease as it was last set.
  struct Set {
    SetShare last;
    bool is_confirmed = false;
  };
  // Collects the members' reports of a unit.
  struct Reports {
    uint64_t manager_epoch = 0;
    std::map<ControllerId, UnitLeaseReport> of;
  };

  // Letters that wait to be read; the writer of one more is disconnected.
  static constexpr uint32_t kMostLetters = 16'384;

  explicit ManagerDesk(const Options& options);
  ResourceManager& core() { return *manager_.core(); }
  void Adopt(const MemberFile& before);
  void Run();
  bool may_serve() const {
    return options_.may_serve == nullptr || options_.may_serve();
  }

  // members
  void on_letter(const Said& said);
  void on_letter(const Ended& ended);
  void on_letter(const Question& question);
  void on_letter(const Joined& joined) { hosts_.Set(joined.hosts); }
  void TellHosts();
  void Meet(const StreamPtr& stream, const proto::Hello& hello);
  std::string MachineOf(const proto::Hello& hello) const;
  bool HasToAskAgain(ControllerId id, const proto::Hello& hello) const;
  bool WasBuried(const proto::Hello& hello) const;
  absl::StatusOr<ControllerId> IdFor(const proto::Hello& hello);
  void Refuse(const StreamPtr& stream, const absl::Status& why);
  void WelcomeAll();
  void Welcome(ControllerId id, Member& member);
  bool is_alive(const Member& member) const;
  void ForgiveSilence(Instant before);
  void BuryDead();
  void Bury(ControllerId id);
  absl::Status Note() const;
  void Tell(bool is_warning, const std::string& line) const;

  // the core
  void BeginAnew(uint64_t epoch);
  void Handle(ControllerId from, const ToManager& message);
  void SendCommands();
  void Send(const ManagerCommand& command);
  void SendTo(ControllerId id, const ManagerCommand& command);
  void AtUnit(const SetShare& set);
  void AtUnit(const StartUnit& start);
  void AtUnit(const StopUnit& stop);
  void AtUnit(const AskReport& ask);
  void Take(ControllerId from, const UnitLeaseReport& report);
  void PutTogether(GlobalUnitId unit);
  void PutAllTogether();
  void EndStops();
  void Confirm(const SetShare& set);

  const Options options_;
  FileNotes own_notes_;
  MemberNotes& notes_;
  MemberFile file_;
  LostEpochs lost_;
  std::map<ControllerId, Member> members_;
  std::map<MemberStream*, ControllerId> by_stream_;
  ManagerHost manager_;  // has one from Start on
  DeskHosts hosts_;      // with Options::follows_hosts
  ManagerOut commands_;
  std::map<LeaseId, Set> leases_;
  std::map<uint32_t, Reports> reports_;  // of units, while it asks
  // Units that are to stop, and the controllers that have left them.
  struct Stop {
    UnitLife unit;
    std::set<ControllerId> left{};
  };
  std::map<uint32_t, Stop> stops_;

  Doorbell bell_;
  Mail<Letter> mail_{&bell_};
  std::atomic<uint32_t> letters_{0};  // of Said, in the mail
  const Instant began_;
  Instant now_;
  Instant next_tick_;
  Instant next_alive_;
  bool is_watchful_ = false;  // a stream has ended, and its process not yet
  std::atomic<bool> stops_now_{false};
  std::thread thread_;
};

}  // namespace snf

#endif  // SNF_RESOURCE_MANAGER_LIVE_MANAGER_DESK_H_
