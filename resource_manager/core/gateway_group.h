// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RESOURCE_MANAGER_CORE_GATEWAY_GROUP_H_
#define SNF_RESOURCE_MANAGER_CORE_GATEWAY_GROUP_H_

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/rendezvous.h"
#include "base/time.h"

namespace snf {

// A controller of a group, as a process at ports.
struct Gateway {
  uint32_t number = 0;       // --controller=NUMBER/N
  std::string name{};        // of its daemon and machine
  std::string address{};     // for frames from other members; "": none
  uint64_t incarnation = 0;  // drawn by each process, never 0
  std::string states{};      // for states from other members; "": none
  friend bool operator==(const Gateway&, const Gateway&) = default;
};

// All members of a group have the same shape.
struct GroupShape {
  uint32_t controllers = 1;  // N
  std::string program{};     // the NF, its external addresses and ports
  std::string version{};     // of SNF
  // The machine whose ports the members share; "": each has ports of its own.
  std::string machine{};
  // After this time without a beat a member is taken out.
  Nanos silence = Seconds(1);
  // Returns true if no more than the version differs.
  bool IsLike(GroupShape other) const {
    other.version = version;
    return *this == other;
  }
  friend bool operator==(const GroupShape&, const GroupShape&) = default;
};

// Says which controllers live: hosts of the others belong to these.
struct GatewayTable {
  uint64_t epoch = 0;  // grows with each change
  uint64_t key = 0;    // of frames between members
  GroupShape shape{};
  std::vector<Gateway> members{};  // live ones, by number
  // Stays the same from table to table. A member that puts a table again, since
  // etcd has lost or restored data, draws another one.
  uint64_t history = 0;
  // Drawn for each table that is put, never 0: once etcd has restored data, two
  // tables may have one epoch and history.
  uint64_t mark = 0;

  MemberSet live() const;
  const Gateway* Find(uint32_t number) const;  // null: not in the table
  friend bool operator==(const GatewayTable&, const GatewayTable&) = default;
};

// A sign of life of a member.
struct GatewayBeat {
  uint64_t incarnation = 0;
  uint64_t epoch = 0;  // of the table by which it handles packets; for people
  uint64_t mark = 0;   // of that table; 0: there is a newer one already
  bool is_active = false;  // GatewayGroup::is_active()
};

// Theory of operation. A member's view of its group, whose table is in etcd.
// Members write a beat several times in `silence`. A member whose beat does not
// change for that time, by the clock of another member, is silent: a live
// member takes it out of the table. Clocks are not compared. A member
// without an answer for `pause` restarts its counts, so neither a pause of
// etcd nor an own one makes others silent.
//
// A member handles packets of its hosts
//   - while it is in the table, and
//   - while it is vouched for: less than `hold` ago it began to write a beat
//     and to look, and etcd answered; or did not answer, and the member was
//     vouched for. So if etcd is away, the table stays as it is, and a member
//     that was frozen needs an answer first.
//   - once all other members have applied the same table as itself: so no
//     earlier owner of its hosts handles them any more. If none of them is
//     active, it waits `silence` as well: etcd may have lost the table that
//     says who is.
// A member that was not vouched for begins again, as a member that joins. So
// does each member once the table is one of another history.
//
// `hold` is shorter than `silence`: so a silent member has stopped before its
// hosts are given to others. A member that finds itself out of the table joins
// again, and so does a process that is started in the place of a member
// that has ended. The exception is a member that alone cannot reach etcd: it
// handles, while others have its hosts, unless one of these can tell it
// (OnOut).
//
// Each change raises the epoch. Its conditions are the revisions of the table
// before, and of the last beats of members that are taken out. A table that is
// older than one seen before, as of a restored backup, is put again with a
// higher epoch and another history.
//
// Worked example: 0, 1 and 2 are members in epoch 5; silence is 1 s. 1 is
// frozen at 0.1 s, and handles nothing from 0.9 s on. At 1.2 s, 0 puts epoch 6
// with 0 and 2, which now have the hosts of 1. 1 is continued at 7 s, looks,
// finds epoch 6, and drops what waits at its ports. It puts epoch 7 with all
// three; once the beats of 0 and 2 say 7, it has its hosts again.
//
// A process may continue the membership of another one of its daemon, which
// hands it on (proto/protocol.md H9): to other members they are the same. Its
// SNF may be another version: then the table gets that version, and processes
// that join need it. Members stay that are of the earlier version.
//
// A value without clock and IO. Owner-thread only.
class GatewayGroup {
 public:
  struct Options {
    Gateway self{};
    GroupShape shape{};
    uint64_t key = 0;        // of the table, if this member makes it
    bool continues = false;  // it is to continue another process's membership
  };
  // A membership, for the process that continues it.
  struct Place {
    GatewayTable table{};
    bool is_active = false;
    uint64_t joined = 0;
    Instant vouched_until = Instant::min();
  };
  // The keys of a group at one revision.
  struct Look {
    struct Beat {
      GatewayBeat beat{};
      int64_t revision = 0;  // of its key
    };
    std::optional<GatewayTable> table{};
    int64_t revision = 0;  // of the table's key; 0: there is no table
    std::map<uint32_t, Beat> beats{};  // by number
  };
  struct Swap {
    GatewayTable table{};
    int64_t revision = 0;  // that the table's key must have
    // Revisions that the keys of beats must have, by number: of members that
    // are taken out. 0: there must be no such key.
    std::map<uint32_t, int64_t> beats{};
  };

  // How long a member may take to see that another one has joined.
  static constexpr Nanos kLongestPeriod = Milliseconds(200);
  // How long a member that ends may wait for one answer.
  static constexpr Nanos kLongestPatience = Seconds(1);

  explicit GatewayGroup(Options options) : options_(std::move(options)) {}

  // From now on the member wants to be in the table.
  void set_ready() { wants_in_ = true; }
  // From now on it wants to be out.
  void set_leaves() { wants_in_ = false; }
  // `begun` is when the look was begun, `now` when its result is here. `beaten`
  // says that the member wrote its beat in between, before it looked.
  void OnLook(const Look& look, Instant begun, Instant now, bool beaten);
  void OnNoAnswer(Instant begun);
  // Another member says that this one is not in the table of that epoch.
  void OnOut(uint64_t epoch) { out_ = std::max(out_, epoch); }
  // Packets are handled by the table of this epoch.
  void OnApplied(uint64_t epoch) { applied_ = epoch; }

  // Continues the membership of the process that had this place. The place's
  // table has a member of the own number. Call it before set_ready.
  void Continue(const Place& place);

  // Returns the change that is to be tried now; none if all is right.
  std::optional<Swap> Wanted() const;
  // Returns why this process cannot join; OK if it can, or is in.
  // Errors: FailedPrecondition, names the member that is in its way.
  absl::Status CheckJoin() const;

  // The following are of the table by which the member acts.
  const GatewayTable& table() const { return table_; }
  bool is_in() const { return is_in_; }
  // Returns true if the member may handle its hosts, while it is vouched for.
  bool is_active() const { return is_active_; }
  // The epoch of the table with which it joined, or began again.
  uint64_t joined() const { return joined_; }
  // Until then; in the past if it may not. Of a member that is in. Read it
  // together with is_active() and table(): a member that joined again is
  // vouched for by another table.
  Instant vouched_until() const { return vouched_until_; }
  // Returns true if the beat may be written.
  bool beats() const { return is_in_; }
  GatewayBeat beat() const {
    return {.incarnation = options_.self.incarnation,
            .epoch = applied_,
            .mark = applied_ == table_.epoch ? table_.mark : 0,
            .is_active = is_active_};
  }
  // How long the member with this number had been silent at the last look.
  Nanos SilenceOf(uint32_t number) const;
  // Before that time, a member of the group, or of the group to join, is
  // not silent.
  Nanos silence() const;
  // The pauses between two looks, and how long each of their two calls may
  // take: a later answer does not count. So answers are less than pause()
  // apart. If a look was not answered, the next one begins at once.
  Nanos period() const {
    return std::min(Nanos{options_.shape.silence.ns / 8}, kLongestPeriod);
  }
  Nanos patience() const {
    return std::min(Nanos{options_.shape.silence.ns / 8}, kLongestPatience);
  }
  Nanos hold() const { return {options_.shape.silence.ns * 4 / 5}; }
  Nanos pause() const { return {options_.shape.silence.ns * 2 / 5}; }
  const Options& options() const { return options_; }

 private:
  struct Peer {
    uint64_t incarnation = 0;
    int64_t revision = 0;  // of its beat
    uint64_t mark = 0;     // of the table that it has applied
    bool is_active = false;
    Instant changed{};  // when that was seen
  };

  void Hear(const Look& look, Instant now);
  void FollowRevisions(const Look& look);
  void Act(const GatewayTable& table);
  void BeginAnew();
  bool HasAllApplied() const;
  bool MayBeActive() const;
  bool IsSilent(const Gateway& member) const {
    return SilenceOf(member.number) >= silence();
  }
  int64_t RevisionOf(uint32_t number) const;
  // Returns true for an earlier process of this daemon, which has ended: a
  // daemon's name is one process's at a time.
  bool IsPredecessor(const Gateway& member) const;
  bool MayJoin(const GroupShape& shape) const {
    return options_.continues ? shape.IsLike(options_.shape)
                              : shape == options_.shape;
  }
  const Gateway* SelfIn(const GatewayTable& table) const;
  // Returns true if there is no right table, and this member has seen one.
  bool HasLostData() const;

  Options options_;
  bool brings_version_ = false;  // the table is to have the own version
  bool wants_in_ = false;
  std::optional<GatewayTable> stored_{};  // as etcd has it
  int64_t revision_ = 0;
  int64_t newest_ = 0;      // the greatest revision at the last look
  bool went_back_ = false;  // since this history was entered
  std::map<uint32_t, Look::Beat> beats_{};
  GatewayTable table_{};  // by which it acts
  bool is_in_ = false;
  bool is_active_ = false;
  uint64_t looks_ = 0;
  uint64_t joined_ = 0;  // the epoch
  Instant begun_{};      // when it joined, or began again
  uint64_t applied_ = 0;
  uint64_t out_ = 0;                  // the newest epoch of OnOut
  std::map<uint32_t, Peer> peers_{};  // of the stored table, without self
  std::optional<Instant> heard_{};    // the last answer
  Instant hearing_since_{};           // without a longer pause
  Instant vouched_until_ = Instant::min();
};

}  // namespace snf

#endif  // SNF_RESOURCE_MANAGER_CORE_GATEWAY_GROUP_H_
