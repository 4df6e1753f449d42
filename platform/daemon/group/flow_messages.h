// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_DAEMON_GROUP_FLOW_MESSAGES_H_
#define SNF_PLATFORM_DAEMON_GROUP_FLOW_MESSAGES_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <type_traits>
#include <vector>

#include "base/messages/messages.h"
#include "base/time.h"
#include "controller/hand_over/flow_sweep.h"
#include "controller/hand_over/hand_over.h"
#include "controller/hand_over/standby_flows.h"
#include "platform/daemon/group/away_flows.h"
#include "platform/daemon/group/state_link.h"
#include "runtime/wire/link_payload.h"

namespace snf {

// The messages that members of a group send each other about flows, as records:
// members run the same program. Messages of a copy have times as spans from
// when it was sent, for the clock of one machine means nothing to another.
enum class FlowMessageKind : uint32_t {
  kFlow,      // a copy, for the heir
  kEnded,     // the flow has ended
  kWhole,     // all flows were sent in this round
  kGiven,     // a flow that its home has from now on
  kGivenAll,  // all flows were given in this round
  kTaken,     // the flows that came in that round were taken
  kAway,      // packets of a flow go to another member
};

struct FlowMessage {
  FlowMessageKind kind = FlowMessageKind::kFlow;  // or kGiven
  uint32_t home = 0;
  uint64_t round = 0;  // of kFlow: grows with each beginning of a sweep
  HandedFlow flow;
  State state;  // its record follows
};
struct EndedMessage {
  FlowMessageKind kind = FlowMessageKind::kEnded;
  uint32_t reserved = 0;
  FlowSweep::Ended flow;
};
struct RoundMessage {
  FlowMessageKind kind = FlowMessageKind::kWhole;
  uint32_t reserved = 0;
  uint64_t round = 0;
};
struct AwayMessage {
  FlowMessageKind kind = FlowMessageKind::kAway;
  uint32_t reserved = 0;
  AwayFlow flow;
};
static_assert(std::is_trivially_copyable_v<FlowMessage> &&
              std::is_trivially_copyable_v<EndedMessage> &&
              std::is_trivially_copyable_v<AwayMessage> &&
              std::is_trivially_copyable_v<RoundMessage>);
static_assert(sizeof(FlowMessage) + kMaxShownBytes <= StateLink::kMostBytes);

template <typename Message>
std::vector<std::byte> BytesOf(const Message& message,
                               std::span<const std::byte> rest = {}) {
  std::vector<std::byte> bytes(sizeof message + rest.size());
  std::memcpy(bytes.data(), &message, sizeof message);
  if (!rest.empty()) {
    std::memcpy(&bytes[sizeof message], rest.data(), rest.size());
  }
  return bytes;
}

template <typename Message>
bool Load(std::span<const std::byte> bytes, Message& message) {
  if (bytes.size() != sizeof message) return false;
  std::memcpy(&message, bytes.data(), sizeof message);
  return true;
}

// Returns the bytes of a message that has times of this clock. The record is
// that of the state.
std::vector<std::byte> BytesOfFlow(FlowMessage message, Instant now,
                                   std::span<const std::byte> record);

// A message that came, with times of the own clock.
struct FlowThatCame {
  FlowMessageKind kind{};
  uint64_t round = 0;
  StandbyFlow flow;
};
// Returns nothing for bytes that are no such message.
std::optional<FlowThatCame> ReadFlow(std::span<const std::byte> bytes,
                                     Instant now);

}  // namespace snf

#endif  // SNF_PLATFORM_DAEMON_GROUP_FLOW_MESSAGES_H_
