// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_SYSTEM_TEST_TEST_FAILOVER_CHECK_H_
#define SNF_PLATFORM_SYSTEM_TEST_TEST_FAILOVER_CHECK_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/packet/flow_key.h"
#include "platform/system_test/test_failover_nf.h"
#include "runtime/logger/log_entry.h"

namespace snf {

// What a world of failures knows of each clock and each piece, from the
// commands of the controller and of the loggers alone. It holds them to I1, I2,
// I3, I5, I7 and I8 of proto/protocol.md.
class FailoverCheck {
 public:
  // Returns what went wrong first, or "".
  const std::string& wrong() const { return wrong_; }
  void Fail(const std::string& what) {
    if (wrong_.empty()) wrong_ = what;
  }

  // The controller sends a clock, with the packet of that number or none.
  void on_enqueue(const PacketMeta& meta, uint64_t packet);
  // What a clock did is in a logger, for good. Its packet, if it has one, is
  // released, dropped, or lost with the logger.
  void on_done(const LogEntryView& entry, const FailoverNf::Did& did,
               bool is_lost_with_logger);
  void on_given_up(FlowId flow) { flows_[flow].is_given_up = true; }

  // Returns true if a flow has a timer that has not fired.
  bool IsAwaitingTimer() const;
  // Nothing goes on any more.
  void CheckEnd();

  struct Flow {
    struct ClockStory {
      uint64_t packet = 0;  // 0: none
      uint64_t adds = 0;    // to the digest
      bool is_lost = false;
      bool is_done = false;
      bool is_lost_with_logger = false;
    };
    std::vector<ClockStory> clocks;  // by clock - 1
    // As of the newest clock that is done.
    FlowKey alias{};
    uint32_t pieces = 0;
    bool is_armed = false;
    bool has_ended = false;
    bool is_given_up = false;
  };
  const std::map<FlowId, Flow>& flows() const { return flows_; }

 private:
  void UsePieces(FlowId flow, const LogEntryView& entry);
  void CheckOrder(const Flow& flow, const LogEntryView& entry);

  std::string wrong_;
  std::map<FlowId, Flow> flows_;
  std::map<uint32_t, FlowId> holders_;  // of pieces
};

}  // namespace snf

#endif  // SNF_PLATFORM_SYSTEM_TEST_TEST_FAILOVER_CHECK_H_
