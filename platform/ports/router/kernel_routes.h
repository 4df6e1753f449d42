// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_PORTS_ROUTER_KERNEL_ROUTES_H_
#define SNF_PLATFORM_PORTS_ROUTER_KERNEL_ROUTES_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/time.h"
#include "platform/ports/interface/network_interface.h"
#include "platform/ports/router/route_table.h"
#include "platform/ports/router/router_config.h"
#include "platform/ports/router/routing_rules.h"

namespace snf {

// The routes that a port takes from a routing table of the kernel, or from all
// tables, with the rules that choose among them (routes=rules).
//
// Theory of operation. One socket gets news of routes, rules, links and
// addresses. After news of any content a second socket reads all, at most once
// in kReadPeriod. So the order of news does not matter, and lost news do no
// harm. A table of kMost routes takes some 10 ms, during which the port waits;
// a longer one is refused.
//
// Owner-thread only.
class KernelRoutes {
 public:
  static constexpr size_t kMost = 20'000;
  static constexpr Nanos kReadPeriod = Seconds(1);

  // Reads the table `config.kernel_table`. The config must outlive the result.
  // Errors: Unavailable if the kernel does not answer; Aborted if the table
  // changes all the time; ResourceExhausted for a table with more than kMost
  // routes; FailedPrecondition for a rule that ports do not follow. All name
  // the table or the rule.
  static absl::StatusOr<KernelRoutes> Open(const RouterConfig& config,
                                           const std::string& interface);

  enum class News : uint8_t {
    kNone,
    kTaken,        // routes(), rules() or unused() have changed
    kNotFollowed,  // not_followed(), or the rules beside it, have changed
  };
  // Reads all once more if there was news. After a failure routes and rules
  // stay, and the next call tries again; while not_followed(), a call at the
  // next news does. Call it some times a second.
  News Update(Instant now);
  // Names the option and the rule that the port does not follow; "": it follows
  // all. Meanwhile routes and rules stay.
  const std::string& not_followed() const { return not_followed_; }
  // Sorted by table.
  std::span<const LearnedRoute> routes() const { return routes_; }
  std::span<const RoutingRule> rules() const { return rules_; }
  // Counts routes that the last reading could not use.
  uint64_t unused() const { return unused_; }

 private:
  using Bytes = std::span<const std::byte>;
  KernelRoutes(const RouterConfig& config, const std::string& interface)
      : config_(&config),
        interface_(NetworkInterface(interface).index()),
        name_(interface) {}
  // The value of the option, for errors.
  std::string Option() const;
  absl::Status Failed() const;
  absl::Status Subscribe();
  // Gives `rules` as ReadRules does.
  absl::Status Read(std::vector<RoutingRule>& rules);
  // Gives the rules that ports follow also after FailedPrecondition.
  absl::Status ReadRules(std::vector<RoutingRule>& rules) const;
  News TakeNotFollowed(std::string what, std::vector<RoutingRule> beside);
  // Asks the kernel for all of a kind and gives `take` each datagram.
  absl::Status Dump(int type, const std::function<DumpPart(Bytes)>& take,
                    const std::function<int()>& error) const;
  bool HasNews();

  const RouterConfig* config_;
  int interface_;
  std::string name_;  // of the interface
  Descriptor news_;
  bool is_stale_ = false;
  Instant read_at_{};
  std::vector<LearnedRoute> routes_;
  std::vector<RoutingRule> rules_;
  std::string not_followed_;
  std::vector<RoutingRule> beside_;  // the rules beside that
  uint64_t unused_ = 0;
};

}  // namespace snf

#endif  // SNF_PLATFORM_PORTS_ROUTER_KERNEL_ROUTES_H_
