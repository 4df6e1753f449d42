// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_RUN_PACKET_WATCH_H_
#define SNF_PLATFORM_RUN_PACKET_WATCH_H_

#include <string_view>

#include "platform/run/released_packet.h"
#include "platform/run/run_events.h"
#include "runtime/sdk/nf_call.h"

namespace snf {

// Watches the packets that leave the drivers of a live run, or are dropped
// there. Called on the thread of the run.
class PacketWatch {
 public:
  // Returns true if on_packet is to be called. Any thread.
  virtual bool is_active() const = 0;
  // The packet leaves, or is dropped for that reason ("": it leaves). `flows`
  // returns the key of the packet's flow.
  virtual void on_packet(const ReleasedPacket& packet, std::string_view reason,
                         const NfCallNames& flows) = 0;

 protected:
  ~PacketWatch() = default;
};

// Passes the packets of one driver on to the watch. Both must outlive the tap.
class PacketTap final : public RunObserver {
 public:
  PacketTap(PacketWatch& watch, const NfCallNames& flows)
      : watch_(watch), flows_(flows) {}
  void on_release(const ReleasedPacket& packet) override {
    if (watch_.is_active()) watch_.on_packet(packet, "", flows_);
  }
  void on_drop(const ReleasedPacket& packet, std::string_view reason) override {
    if (watch_.is_active()) watch_.on_packet(packet, reason, flows_);
  }

 private:
  PacketWatch& watch_;
  const NfCallNames& flows_;
};

}  // namespace snf

#endif  // SNF_PLATFORM_RUN_PACKET_WATCH_H_
