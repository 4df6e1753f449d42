// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_VIRTUAL_DRIVER_EVENT_H_
#define SNF_PLATFORM_VIRTUAL_DRIVER_EVENT_H_

#include <cstdint>
#include <memory>

#include "platform/virtual_driver.h"

// Inside of the virtual-time driver.
namespace snf {

// Something that happens at a later time.
struct VirtualDriver::Event {
  enum class Kind : uint8_t {
    kReplicasAtUnit,
    kPacketAtUnit,
    kServiceEnd,
    kRelease,
    kPullAtUnit,
    kStateAtUnit,
    kTookAtUnit,
    kTookAckAtUnit,
    kTookAtController,
    kEndFlowAtUnit,
    kStopAtUnit,
    kUnitReady,
    kUnitTimer,
  };
  Kind kind{};
  bool generated = false;  // of kRelease: the NF made the packet
  bool cold = false;       // of kUnitReady: its process is new
  UnitId unit = kNoUnit;
  PacketHandle packet = kNoPacket;
  uint32_t record = StateNetwork::kNoRecord;  // of kStateAtUnit
  union {
    PacketMeta meta{};
    ReplicaSet replicas;
    Pull pull;
    State state;
    Took took;
    TookAck took_ack;
    EndFlow end;
  };

  static Event OfUnit(Kind kind, UnitId unit) {
    return {.kind = kind, .unit = unit, .meta = {}};
  }
};

// A unit and what surrounds it in this driver.
struct VirtualDriver::UnitShell {
  Unit unit;
  std::unique_ptr<NetworkFunction> nf;
  bool ready = false;
  Instant timer = Instant::max();  // the earliest kUnitTimer under way
};

}  // namespace snf

#endif  // SNF_PLATFORM_VIRTUAL_DRIVER_EVENT_H_
