// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_CONTROLLER_UNITS_HOST_MAP_H_
#define SNF_CONTROLLER_UNITS_HOST_MAP_H_

#include <algorithm>
#include <cstdint>

#include "base/check.h"
#include "base/ids.h"
#include "controller/units/pool_options.h"

namespace snf {

// The hosts on which units run (proto/protocol.md 2.8): units_per_host on each,
// in the order of their numbers. Each spare unit has a host of its own. A
// unit's logger is on the next host, behind the last one on the first; with a
// single host, it is on a host without units.
//
// Worked example: with 10 units, of which unit 9 is spare, and 4 on a host,
// units 0 to 3 are on host 0, 4 to 7 on 1, 8 on 2, and 9 on 3. The loggers of
// units 0 to 3 are on host 1, and that of unit 8 on host 0.
//
// A value.
class HostMap {
 public:
  static constexpr uint32_t kMaxUnitsPerHost = 128;
  static constexpr uint32_t kNoHost = 0xffff'ffff;

  explicit HostMap(const UnitPoolOptions& options)
      : per_host_(options.units_per_host),
        first_spare_(options.max_units - options.spare_units) {
    SNF_CHECK(per_host_ >= 1 && per_host_ <= kMaxUnitsPerHost);
  }

  uint32_t units_per_host() const { return per_host_; }
  // Returns the number of hosts; hosts of spare units do not count.
  uint32_t hosts() const { return (first_spare_ + per_host_ - 1) / per_host_; }

  uint32_t host_of(UnitId unit) const {
    const uint32_t at = value(unit);
    return at < first_spare_ ? at / per_host_ : hosts() + at - first_spare_;
  }
  // Returns the host of the unit's logger, or kNoHost if that has no units.
  uint32_t host_of_logger(UnitId unit) const {
    const uint32_t host = host_of(unit);
    if (host >= hosts() || hosts() == 1) return kNoHost;
    return host + 1 < hosts() ? host + 1 : 0;
  }
  // Returns true if both units are on the same host. Budget: ≤ 1 ns if hosts
  // have one unit each.
  bool Share(UnitId a, UnitId b) const {
    if (a == b || per_host_ == 1) return a == b;
    return value(a) < first_spare_ && value(b) < first_spare_ &&
           value(a) / per_host_ == value(b) / per_host_;
  }
  // Numbers of units, from `first` to below `end`.
  struct Range {
    uint32_t first, end;
  };
  // Returns the units of the unit's host.
  Range OnHostOf(UnitId unit) const {
    const uint32_t at = value(unit);
    if (per_host_ == 1 || at >= first_spare_) return {at, at + 1};
    const uint32_t first = at / per_host_ * per_host_;
    return {first, std::min(first + per_host_, first_spare_)};
  }
  // Calls `visit` for each unit of the unit's host, in the order of their ids.
  template <typename Visit>
  void ForEachOnHost(UnitId unit, const Visit& visit) const {
    const Range range = OnHostOf(unit);
    for (uint32_t i = range.first; i < range.end; ++i) {
      visit(UnitId{static_cast<uint16_t>(i)});
    }
  }

 private:
  uint32_t per_host_;
  uint32_t first_spare_;
};

}  // namespace snf

#endif  // SNF_CONTROLLER_UNITS_HOST_MAP_H_
