// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_RUN_RENAMING_DIGEST_H_
#define SNF_PLATFORM_RUN_RENAMING_DIGEST_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "base/ids.h"
#include "base/packet/classifier.h"
#include "base/packet/flow_key.h"
#include "base/packet/link_type.h"
#include "base/time.h"
#include "platform/run/digest.h"
#include "platform/run/run_events.h"

namespace snf {

// Theory of operation. Which external port an address translator gives an
// inside endpoint depends on the unit that translates its first packet, so two
// runs that place flows differently release different bytes. Invariant I6
// (proto/protocol.md §4) allows just that: a renaming of external ports. This
// digest (proto/decisions.md 25) is the same for two such runs: a ReleaseDigest
// of packets in which each external endpoint is replaced by the inside endpoint
// that was granted it, checksums included (base/packet/rewrite.h). An alias is
// one flow's only (I8), so no two inside endpoints get the same name by this.
//
// Example: one run releases 198.51.100.1:1024 > 192.0.2.9:53 for 10.0.0.1:5000,
// another 198.51.100.1:2000 > 192.0.2.9:53. Both are digested as
// 10.0.0.1:5000 > 192.0.2.9:53, and differ from a run in which the flow's
// second packet left from a port that is not the flow's.
//
// What was granted is kept until it is granted anew, since packets may be
// released after their flow is over.
//
// Owner-thread only. Memory: some 100 bytes for each external endpoint ever
// granted, and that of a ReleaseDigest and a FlowClassifier.
class RenamingDigest final : public RunObserver {
 public:
  explicit RenamingDigest(const FragmentTable::Options& fragments)
      : classifier_({.fragments = fragments}) {}

  // Packets from and to `external` are those of `inside` from now on.
  void on_granted(const FlowKey& external, const FlowKey& inside) {
    inside_of_[external] = inside;
  }
  // A packet of the flow was released; kNoFlow for those that passed through.
  void Add(Instant now, FlowId flow, LinkType link,
           std::span<const std::byte> bytes);
  void on_release(const ReleasedPacket& packet) override {
    Add(packet.time, packet.route.flow, packet.link, packet.bytes);
  }
  uint64_t value() const { return digest_.value(); }
  // As those of ReleaseDigest.
  uint64_t OfFlow(FlowId flow) { return digest_.OfFlow(flow); }
  void Continue(FlowId flow, uint64_t hash) { digest_.Continue(flow, hash); }

 private:
  struct KeyHash {
    size_t operator()(const FlowKey& key) const { return Hash(key); }
  };
  // Null for an endpoint that was not granted.
  const FlowKey* InsideOf(const FlowKey& external) const;
  // Replaces external endpoints in copy_.
  void Restore(Instant now, LinkType link);

  FlowClassifier classifier_;
  absl::flat_hash_map<FlowKey, FlowKey, KeyHash> inside_of_;  // by external
  std::vector<std::byte> copy_;
  ReleaseDigest digest_;
};

}  // namespace snf

#endif  // SNF_PLATFORM_RUN_RENAMING_DIGEST_H_
