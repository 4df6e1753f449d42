// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_SYSTEM_TEST_TEST_NAT_TRAFFIC_H_
#define SNF_PLATFORM_SYSTEM_TEST_TEST_NAT_TRAFFIC_H_

#include <vector>

#include "base/rng.h"
#include "controller/core/placement.h"
#include "platform/run/run.h"
#include "platform/system_test/test_nat_model.h"
#include "platform/system_test/test_run.h"

namespace snf {

// A random run of the NF "nat", and what the model is to know of it.
struct NatSchedule {
  RunOptions options;
  NfSpec nf;
  const PlacementPolicy* policy = nullptr;
  NatModelOptions model;
  std::vector<OfferedFrame> packets;
};
NatSchedule AnyNatSchedule(Rng& rng);

// Packet n is this long on the wire, whatever there is of it: by that it can be
// told, and what the NAT made itself is shorter than all.
constexpr uint32_t kFirstLength = 1'000;

}  // namespace snf

#endif  // SNF_PLATFORM_SYSTEM_TEST_TEST_NAT_TRAFFIC_H_
