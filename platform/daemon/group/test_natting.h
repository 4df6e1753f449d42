// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_DAEMON_GROUP_TEST_NATTING_H_
#define SNF_PLATFORM_DAEMON_GROUP_TEST_NATTING_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/time.h"
#include "controller/hand_over/standby_flows.h"
#include "platform/daemon/group/flow_heirs.h"
#include "platform/drivers/real_time/real_driver.h"
#include "platform/run/run_events.h"

namespace snf {

// For tests: a controller with "firewall | nat(ip=203.0.113.1)", of a group of
// `count`, and the external ports that it gives to its flows.
class Natting final : public RunObserver {
 public:
  explicit Natting(uint32_t number = 0, uint32_t count = 1,
                   const std::string& nf = "firewall | nat(ip=203.0.113.1)");
  ~Natting() override;
  RealDriver& operator*() { return *driver_; }
  RealDriver* operator->() { return driver_.get(); }

  // The clock of all packets.
  static Instant Now();

  void on_release(const ReleasedPacket& packet) override;
  void on_drop(const ReleasedPacket& packet, std::string_view reason) override;
  // Says why a packet was dropped last.
  const std::string& dropped_for() const { return dropped_for_; }
  // Offers a packet of the flow, and waits until all have gone. `heirs`, if not
  // null, meets it first. Returns the flow's port behind the NF; 0: the packet
  // was dropped, or is another member's (aside).
  uint32_t PortOf(uint32_t flow, FlowHeirs* heirs = nullptr,
                  const FlowHeirs::Way& way = {});
  const std::optional<FlowHeirs::Aside>& aside() const { return aside_; }
  void Rest();
  // Returns a copy of the flow in that slot.
  StandbyFlow Copy(uint32_t slot);

 private:
  std::unique_ptr<RealDriver> driver_;
  std::optional<StandbyFlow> shown_;
  uint32_t port_ = 0;
  std::string dropped_for_;
  std::optional<FlowHeirs::Aside> aside_;
  uint32_t sequence_ = 0;
};

}  // namespace snf

#endif  // SNF_PLATFORM_DAEMON_GROUP_TEST_NATTING_H_
