// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_DRIVERS_VIRTUAL_NETWORK_UNIT_SHARING_H_
#define SNF_PLATFORM_DRIVERS_VIRTUAL_NETWORK_UNIT_SHARING_H_

#include <cstdint>

#include "base/ids.h"
#include "base/messages/messages.h"
#include "base/packet/flow_key.h"
#include "controller/core/controller.h"
#include "platform/run/figures/table_spread.h"
#include "platform/run/ingress.h"
#include "runtime/ring/buffer_pool.h"
#include "runtime/sdk/nf.h"
#include "runtime/tables/cluster_homes.h"

namespace snf {

// The tables of all controllers of a run in virtual time.
struct ClusterTables {
  ClusterTables(const NetworkFunction& example, uint32_t controllers,
                uint32_t max_units, const TableOptions& options)
      : homes(example, controllers, max_units, options),
        spread(homes.size(), max_units) {}

  ClusterHomes homes;
  TableSpread spread;
  Instant latest = Instant::min();  // time of the last call of a home
};

// A VirtualDriver's view of the cluster that lets several drivers share units.
// The cluster has the packets before their controller is known, and says whose
// packet a unit serves next. Each driver has an inbox in a unit, and numbers
// the units for itself. All calls are made at the driver's present time.
class UnitSharing {
 public:
  virtual ~UnitSharing() = default;

  // Return the parts that all drivers use.
  virtual BufferPool& buffers() = 0;
  virtual Ingress& ingress() = 0;
  virtual ClusterTables& tables() = 0;
  // Gives the controller its part of the NF's pools of pieces.
  virtual void AddPiecePools(const NetworkFunction& example,
                             Controller& controller) = 0;

  // The inbox has a packet that can be served next, of that cost in bytes, and
  // VirtualDriver::BeginService follows, possibly at once; or has none.
  virtual void on_next(UnitId unit, uint32_t cost) = 0;
  virtual void on_empty(UnitId unit) = 0;
  // A packet has been served, and on_next or on_empty was called of the next.
  virtual void on_served(UnitId unit) = 0;
  // The controller has left the unit, and all that it sent there was served.
  virtual void on_left(UnitId unit) = 0;
  // Nothing of the controller is left in the unit, and the controller knows.
  virtual void on_unit_stopped(UnitId unit) = 0;
  // A packet without payload was released, or dropped.
  virtual void on_advanced(FlowId flow, Clock clock) = 0;
  // A successor was made of what units reported. The successor has no leases
  // yet.
  virtual void on_rebuilt() = 0;
  // A unit returned pieces. Returns true if the pieces are another
  // controller's, and go there.
  virtual bool on_returned(const PieceBlock& pieces) = 0;
  // A unit asks for pieces, and the controller has none. Once other controllers
  // were asked, VirtualDriver::AskForPieces repeats the request.
  virtual void on_lack(const PieceRequest& request) = 0;
  // A flow has this alias from now on.
  virtual void on_alias(const FlowKey& alias) = 0;
  // A packet comes back from the outside, to an alias or an inside end.
  virtual void on_hairpin(const FlowKey& to, bool by_alias,
                          PacketHandle packet) = 0;
};

}  // namespace snf

#endif  // SNF_PLATFORM_DRIVERS_VIRTUAL_NETWORK_UNIT_SHARING_H_
