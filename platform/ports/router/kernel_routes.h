// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_PORTS_ROUTER_KERNEL_ROUTES_H_
#define SNF_PLATFORM_PORTS_ROUTER_KERNEL_ROUTES_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/time.h"
#include "platform/ports/interface/network_interface.h"
#include "platform/ports/router/route_table.h"
#include "platform/ports/router/router_config.h"

namespace snf {

// The routes that a port takes from a routing table of the kernel.
//
// Theory of operation. One socket gets news of routes, links and addresses.
// After news of any content a second socket reads the whole table, at most once
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
  // routes; both name the table.
  static absl::StatusOr<KernelRoutes> Open(const RouterConfig& config,
                                           int interface);

  // Reads the table once more if there was news. Returns true if routes() or
  // unused() have changed. After a failure the routes stay, and the next call
  // tries again. Call it some times a second.
  bool Update(Instant now);
  std::span<const LearnedRoute> routes() const { return routes_; }
  // Counts routes that the last reading could not use.
  uint64_t unused() const { return unused_; }

 private:
  KernelRoutes(const RouterConfig& config, int interface)
      : config_(&config), interface_(interface) {}
  absl::Status Subscribe();
  absl::Status Read();
  bool HasNews();

  const RouterConfig* config_;
  int interface_;
  Descriptor news_;
  bool is_stale_ = false;
  Instant read_at_{};
  std::vector<LearnedRoute> routes_;
  uint64_t unused_ = 0;
};

}  // namespace snf

#endif  // SNF_PLATFORM_PORTS_ROUTER_KERNEL_ROUTES_H_
