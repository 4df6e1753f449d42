// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_NFS_LB_CHECKED_NF_H_
#define SNF_NFS_LB_CHECKED_NF_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "base/time.h"
#include "nfs/lb_checker.h"
#include "nfs/lb_health_options.h"
#include "nfs/lb_maglev.h"
#include "nfs/lb_probe.h"
#include "runtime/sdk/nf.h"
#include "runtime/sdk/nf_report.h"
#include "runtime/sdk/packet.h"
#include "runtime/sdk/state.h"

namespace snf {

// A network function that shares flows among servers, or appliances, and may
// check their health (lb_checker.h). Without checks each one is up. FindUp,
// SendChecks, TakeAnswer and what counts want has_checks(). Owner-thread only.
class CheckedNf : public NetworkFunction {
 public:
  NfReport report() const override;

 protected:
  // How counters and logs name what flows are shared among.
  struct Nouns {
    std::string_view many;   // "servers"
    std::string_view one;    // "a server"
    std::string_view other;  // "another server"
  };
  // Declares the checks' table, log and counters: in the constructor, once.
  void DeclareChecks(const LbHealthOptions& options, std::vector<LbEnd> targets,
                     const Nouns& nouns);
  bool has_checks() const { return checks_.has_value(); }

  // Declares a counter for each name, with the same text; none for more than
  // 64, since each costs a line in reports.
  std::vector<Counter> DeclareForEach(const std::vector<std::string>& names,
                                      std::string_view text);

  bool IsUp(Instant now, uint16_t server) const {
    return !checks_.has_value() || checks_->checker.IsUp(now, server);
  }
  // See LbChecker.
  std::optional<uint16_t> FindUp(
      Instant now, const MaglevTable& table, uint64_t hash,
      absl::FunctionRef<bool(uint16_t)> may_be_chosen) const {
    return checks_->checker.FindUp(now, table, hash, may_be_chosen);
  }
  bool IsToChecks(const LbEnd& to) const {
    return checks_.has_value() && checks_->checker.IsToSource(to);
  }

  // Count the choice of another server than the hash's, or of a server that is
  // down.
  void CountAvoided() { count(checks_->avoided); }
  void CountAllDown() { count(checks_->all_down); }

  // Sends checks beside the packet, to the servers in use, and counts them.
  void SendChecks(const Packet& packet, LbProbe::Way way,
                  absl::FunctionRef<bool(uint16_t)> is_used, FlowState& flow);
  // Takes a segment that `from` has sent to the source of checks.
  Verdict TakeAnswer(const Packet& packet, const LbEnd& from, FlowState& flow);

  // Adds to a state what checks have found. Who drains and is up stays as is.
  void AddHealth(Instant now, uint16_t server, bool is_draining,
                 NfState& state) const;

 private:
  struct Checks {
    LbChecker checker;
    Counter sent;
    Counter passed;
    Counter refused;
    Counter avoided;
    Counter all_down;
  };
  std::optional<Checks> checks_;
};

}  // namespace snf

#endif  // SNF_NFS_LB_CHECKED_NF_H_
