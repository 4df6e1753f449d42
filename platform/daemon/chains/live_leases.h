// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_DAEMON_CHAINS_LIVE_LEASES_H_
#define SNF_PLATFORM_DAEMON_CHAINS_LIVE_LEASES_H_

#include <cstdint>

namespace snf {

// Leases the units of a live run, by what comes in. Owner-thread only.
class LiveLeases {
 public:
  virtual ~LiveLeases() = default;
  // A packet came, of that cost in bytes.
  virtual void on_packet(uint64_t bytes) = 0;
  // Does what is to be done by now, at least once in a millisecond; returns
  // true if there was anything. Not before RealDriver::Begin.
  virtual bool Poll() = 0;
  // There is a unit to which packets can go.
  virtual bool has_unit() const = 0;
};

}  // namespace snf

#endif  // SNF_PLATFORM_DAEMON_CHAINS_LIVE_LEASES_H_
