// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_DRIVERS_VIRTUAL_CLUSTER_CLUSTER_PIECES_H_
#define SNF_PLATFORM_DRIVERS_VIRTUAL_CLUSTER_CLUSTER_PIECES_H_

#include <cstdint>
#include <span>

#include "base/ids.h"
#include "base/messages/messages.h"
#include "base/time.h"
#include "platform/drivers/virtual_cluster/cluster_member.h"
#include "platform/drivers/virtual_cluster/cluster_moves.h"
#include "platform/drivers/virtual_cluster/cluster_pools.h"
#include "platform/run/run.h"
#include "runtime/sdk/nf.h"

namespace snf {

// Moves pieces of pools between controllers, by the words that each of them has
// (cluster_pools.h): home from units of others, to a controller that lacks
// some, and from a controller that leaves. Owner-thread only.
class ClusterPieces {
 public:
  using Members = ClusterMoves::Members;

  // The NF has its pools divided among controllers 0 … `controllers` - 1. The
  // references must outlive the object.
  ClusterPieces(const NetworkFunction& example, uint32_t controllers,
                const Members& members, ClusterFigures& figures)
      : example_(example),
        pools_(example, controllers),
        members_(members),
        figures_(figures) {}

  const ClusterPools& pools() const { return pools_; }

  // Hands pieces from units of others to the controller that has their word.
  // Returns false, and does nothing, while the controller has failed.
  bool TakeHome(Instant now, const PieceBlock& pieces);
  // Gives the controller, which must be up, words of the controller that has
  // most to spare. The controller serves the request then.
  void Share(Instant now, ClusterMember& asks, const PieceRequest& request);
  // Gives all pieces of a controller that leaves to the first of these
  // controllers that is up. Returns false if none of them is.
  bool Bequeath(Instant now, ClusterMember& from,
                std::span<const ControllerId> heirs);

 private:
  const NetworkFunction& example_;
  ClusterPools pools_;
  const Members& members_;
  ClusterFigures& figures_;
};

}  // namespace snf

#endif  // SNF_PLATFORM_DRIVERS_VIRTUAL_CLUSTER_CLUSTER_PIECES_H_
