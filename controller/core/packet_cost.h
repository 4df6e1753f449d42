// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_CONTROLLER_CORE_PACKET_COST_H_
#define SNF_CONTROLLER_CORE_PACKET_COST_H_

#include <algorithm>
#include <cstdint>

#include "controller/core/options.h"

namespace snf {

// Theory of operation. A unit that processes C bit/s and P packets/s, as
// network functions are specified, is busy with a packet for the longer of its
// bits / C and 1 / P (runtime/core/service_model.h): long packets meet the
// first limit, short ones the second. So a packet costs as much of C as one of
// at least C / P bits would, and loads, demands and the size of flowlets, which
// are bytes of C, count it by that: a share of either limit, whichever is
// greater.
//
// Example: 1 Gbit/s and 1 million packets/s: a packet of 60 bytes costs 125,
// one of 1,500 costs 1,500. Rounded up to a byte, at most 2^30.
//
// A value; reads its options once.
class PacketCost {
 public:
  explicit PacketCost(const ControllerOptions& options)
      : least_bytes_(LeastBytes(options)) {}

  // Returns the cost of a packet in bytes. Clocks without a packet (null
  // packets and tombstones), whose length is 0, cost nothing.
  uint32_t operator()(uint32_t original_length) const {
    return original_length == 0 ? 0 : std::max(original_length, least_bytes_);
  }

 private:
  static uint32_t LeastBytes(const ControllerOptions& options) {
    if (options.unit_packets_ps == 0) return 0;
    constexpr int64_t kMost = int64_t{1} << 30;
    const int64_t bits_ps = options.unit_packets_ps * 8;
    const int64_t bytes = (options.unit_capacity_bps + bits_ps - 1) / bits_ps;
    return static_cast<uint32_t>(std::min(bytes, kMost));
  }

  uint32_t least_bytes_;
};

}  // namespace snf

#endif  // SNF_CONTROLLER_CORE_PACKET_COST_H_
