// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_DAEMON_GROUP_PLACE_GIVING_H_
#define SNF_PLATFORM_DAEMON_GROUP_PLACE_GIVING_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/time.h"
#include "platform/daemon/group/flow_heirs.h"
#include "platform/daemon/group/group_member.h"
#include "platform/daemon/group/state_link.h"
#include "platform/drivers/real_time/real_driver.h"
#include "resource_manager/core/gateway_group.h"

namespace snf {

// Theory of operation. A member of a group gives its place to another process
// of the same daemon, with all flows (proto/protocol.md H9). Packets wait in
// the ports' rings meanwhile.
//
//   the old process                         the new one (ReceivePlace)
//   waits until no packet is under way
//   kFlow, for each flow and copy ───────►
//   kAll ────────────────────────────────►
//                                    ◄──── kTaken
//   is the member no more
//   kGone, with the place in the group ──►  is the member
//
// Up to kGone the old process is the member, writes its beats, and has all
// flows: if the new one ends or takes nothing for kMost, the old one continues,
// and so it does if its chain or the table changes.
//
// Each message is whole (SOCK_SEQPACKET). Its first byte is its kind.
//
// Owner-thread only: the thread that takes packets.
class PlaceGiving {
 public:
  enum class State : uint8_t { kGives, kIsGone, kIsOff };
  static constexpr Nanos kMost = Seconds(3);
  static constexpr Nanos kLongestDrain = Milliseconds(500);
  // Tells versions of flows' messages apart: both processes want one.
  static std::string Format();

  // `connection` must stay open, `heirs` and `member` must outlive the object.
  // `told` is told once if the place is gone, or if this process continues.
  PlaceGiving(int connection, GroupMember& member, FlowHeirs& heirs,
              std::function<void(bool is_gone)> told);
  ~PlaceGiving() { End(false); }
  PlaceGiving(const PlaceGiving&) = delete;
  PlaceGiving& operator=(const PlaceGiving&) = delete;

  // Gives more. The driver, whose flows these are, is null if it has failed.
  State Turn(RealDriver* driver);
  State state() const { return state_; }
  // This process continues, unless its place is gone.
  void CallOff();

 private:
  enum class Step : uint8_t { kDrains, kFlows, kAnswer };

  void Give(RealDriver& driver);
  void Queue(char kind, std::vector<std::byte> rest);
  bool Flush();
  void LookForAnswer();
  void GiveAway();
  void End(bool is_gone);

  const int connection_;
  GroupMember& member_;
  FlowHeirs& heirs_;
  std::function<void(bool)> told_;
  const Instant begun_;
  Instant progress_;                    // when the other took a message last
  const RealDriver* driver_ = nullptr;  // whose flows are given
  State state_ = State::kGives;
  Step step_ = Step::kDrains;
  std::deque<std::vector<std::byte>> queue_;
};

// The place and the flows, for the new process.
struct ReceivedPlace {
  GatewayGroup::Place place;
  std::vector<StateLink::Received> flows;  // for FlowHeirs::Continue
  uint64_t lost = 0;                       // flows that did not go along
};

// Takes the place of the process at the other end of the connection; waits for
// each message as long as the socket does. `closed` is the kind of a message
// that also has to come, in any order. Error: Unavailable, the other process
// continues.
absl::StatusOr<ReceivedPlace> ReceivePlace(int connection, char closed);

}  // namespace snf

#endif  // SNF_PLATFORM_DAEMON_GROUP_PLACE_GIVING_H_
