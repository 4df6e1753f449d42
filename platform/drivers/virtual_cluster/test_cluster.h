// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_DRIVERS_VIRTUAL_CLUSTER_TEST_CLUSTER_H_
#define SNF_PLATFORM_DRIVERS_VIRTUAL_CLUSTER_TEST_CLUSTER_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "base/rng.h"
#include "platform/drivers/cluster/cluster_options.h"
#include "platform/run/run.h"
#include "platform/run/run_events.h"
#include "runtime/sdk/nf_spec.h"
#include "traces/capture_reader.h"

// Runs of several controllers, for tests.
namespace snf {

struct Ran {
  RunResult run;
  uint32_t buffers_in_use = 0;
};

// With `close_units`, a seed, units are taken back at random; if chaos befalls
// messages about leases, there are some that cannot be, too. The i-th observer
// is of the i-th controller.
Ran RunCluster(const RunOptions& options, const ClusterOptions& cluster,
               const NfSpec& nf, const std::vector<CapturedPacket>& packets,
               const std::vector<RunObserver*>& observers = {},
               uint64_t close_units = 0);

// Expects what holds for every run. With `late` grants, controllers may think
// that they have shares which are over; units honour none.
void ExpectSoundCluster(const Ran& ran, bool late = false);

ClusterOptions AnyCluster(Rng& rng);

// Returns which of so many controllers has the flow of the host that sends this
// frame, where flows are hosts' (proto/decisions.md 15).
uint32_t HostIsOf(std::span<const std::byte> frame, uint32_t controllers);

// FlowDispatcher::Check.
absl::Status CheckCluster(const NfSpec& nf, uint32_t controllers);

// Frames of a test, which must outlive what is returned, as packets.
template <typename Frames>
std::vector<CapturedPacket> Captured(const Frames& frames) {
  std::vector<CapturedPacket> all;
  for (const auto& frame : frames) {
    CapturedPacket& packet = all.emplace_back();
    packet.time = frame.time;
    packet.link = frame.link;
    packet.original_bytes = frame.original_length != 0
                                ? frame.original_length
                                : static_cast<uint32_t>(frame.bytes.size());
    packet.bytes = frame.bytes;
  }
  return all;
}

}  // namespace snf

#endif  // SNF_PLATFORM_DRIVERS_VIRTUAL_CLUSTER_TEST_CLUSTER_H_
