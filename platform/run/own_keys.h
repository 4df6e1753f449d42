// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_RUN_OWN_KEYS_H_
#define SNF_PLATFORM_RUN_OWN_KEYS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/packet/classifier.h"
#include "base/packet/flow_key.h"
#include "base/packet/packet_parser.h"
#include "runtime/sdk/nf.h"

namespace snf {

// Asks an NF whose flow_scope() is kOwnKey for the flows of packets, on behalf
// of a controller or a dispatcher. If flow_key throws, or gives FlowKey{}, the
// process ends with a fault of the NF (nf_call.h). The first packet and then
// every 64th is asked for twice, and two different answers end the process too.
//
// Owner-thread only. The NF must outlive it.
class OwnKeys {
 public:
  static constexpr uint64_t kTwiceEvery = 64;  // packets

  explicit OwnKeys(const NetworkFunction& nf)
      : nf_(&nf),
        any_(nf.flow_scope() == FlowScope::kOwnKey),
        tells_ends_(nf.flow_scope() == FlowScope::kInsideEndpoint &&
                    nf.tells_inside_ends()) {}

  // Returns true if the NF has flow keys of its own; only then may Apply be
  // called.
  bool any() const { return any_; }

  // Replaces `key`, the packet's connection, by the key of its flow.
  void Apply(std::span<const std::byte> frame, const ParsedPacket& headers,
             Direction direction, FlowKey& key) const;
  // Returns OwnFlow::is_answer.
  bool IsAnswer(std::span<const std::byte> frame, const ParsedPacket& headers,
                Direction direction, const FlowKey& connection) const {
    return Ask(frame, headers, direction, connection).is_answer;
  }

  // Returns the inside end of a packet from the outside, if the NF, whose
  // flow_scope() is kInsideEndpoint, tells it; else only an alias can.
  std::optional<FlowKey> InsideOf(std::span<const std::byte> frame,
                                  const ParsedPacket& headers,
                                  Direction direction,
                                  const FlowKey& connection) const;

 private:
  OwnFlow Ask(std::span<const std::byte> frame, const ParsedPacket& headers,
              Direction direction, const FlowKey& connection) const;

  const NetworkFunction* nf_;
  bool any_;
  bool tells_ends_;
  mutable uint64_t asked_ = 0;
};

}  // namespace snf

#endif  // SNF_PLATFORM_RUN_OWN_KEYS_H_
