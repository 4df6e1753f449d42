// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_NFS_LB_CHECKER_H_
#define SNF_NFS_LB_CHECKER_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "base/time.h"
#include "nfs/lb_health.h"
#include "nfs/lb_health_options.h"
#include "nfs/lb_maglev.h"
#include "nfs/lb_probe.h"
#include "runtime/sdk/nf_report.h"
#include "runtime/sdk/packet.h"
#include "runtime/sdk/shared_table.h"
#include "runtime/sdk/state.h"

namespace snf {

// Theory of operation. Sends the health checks of a load balancer's servers
// (lb_health.h, lb_probe.h), reads their answers, and tells which servers are
// up. A check leaves beside a packet that the NF processes. Results are in a
// table that all units share; the object itself has nothing but the options.
//
// Servers are numbers, and are checked in groups of kGroupServers, since a call
// can emit few packets. The table has an entry for each server, and one for
// each group and version of IP: the last round in which the group was checked.
//
// Example: 20 servers are three groups. A packet of the round 7 sends the
// checks of the servers 8 to 15, unless another packet has sent them.
//
// Owner-thread only.
class LbChecker {
 public:
  using Table = SharedTable<uint64_t, LbChecks>;

  // Returns the number of the table's entries.
  static uint32_t TableEntries(size_t servers);

  // `targets` has the end to which each server's checks go. Equal ones, which
  // are checked once, stand side by side.
  LbChecker(LbHealthOptions options, std::vector<LbEnd> targets, Table table,
            LogId log);

  bool IsUp(Instant now, uint16_t server) const;
  LbServerHealth HealthOf(Instant now, uint16_t server) const;
  // Returns the time of the health's last change; nothing if there was none.
  std::optional<Instant> SinceOf(const LbServerHealth& health) const;
  // Returns "not checked yet", or "last checked 30 s ago", after a round
  // without a check; else "".
  std::string WhyUnchecked(Instant now, const LbServerHealth& health) const;

  // Returns a server that is up, by further hashes of the table, so that it
  // differs between connections; else any that is up and may be chosen. Returns
  // nothing if there is none.
  std::optional<uint16_t> FindUp(
      Instant now, const MaglevTable& table, uint64_t hash,
      absl::FunctionRef<bool(uint16_t)> may_be_chosen) const;

  // Sends the round's checks of a group that a hash of the packet's arrival
  // draws, to its servers of the packet's version of IP that are used. Returns
  // how many.
  uint32_t SendBeside(const Packet& packet, LbProbe::Way way,
                      absl::FunctionRef<bool(uint16_t)> is_used,
                      FlowState& flow);

  // Returns true for a packet to the source of checks.
  bool IsToSource(const LbEnd& to) const;
  // Takes a segment that `from` has sent to the source of checks. Returns
  // kNone if it is the answer to no check.
  LbAnswer TakeAnswer(const Packet& segment, const LbEnd& from,
                      FlowState& flow);

  // Returns the checks of each target.
  NfReport::Table Report() const;

 private:
  Instant BeginOf(uint64_t round) const;
  static constexpr uint64_t kGroups = uint64_t{1} << 32;
  static constexpr uint64_t kGroupServers = 8;

  // Rounds count from 1.
  uint64_t RoundOf(Instant time) const;
  uint32_t SendCheck(const Packet& packet, LbProbe::Way way, uint16_t server,
                     uint64_t round, FlowState& flow);

  LbHealthOptions options_;
  std::vector<LbEnd> targets_;
  std::vector<uint16_t> checked_as_;  // by server: the first of its target
  Table table_;
  LogId log_;
  std::string request_;
};

}  // namespace snf

#endif  // SNF_NFS_LB_CHECKER_H_
