// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_DRIVERS_VIRTUAL_CLUSTER_CLUSTER_POOLS_H_
#define SNF_PLATFORM_DRIVERS_VIRTUAL_CLUSTER_CLUSTER_POOLS_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "base/messages/lease_messages.h"
#include "base/messages/messages.h"
#include "controller/core/controller.h"
#include "platform/run/run_setup.h"
#include "runtime/sdk/nf.h"

namespace snf {

// Theory of operation. Divides the words of the NF's pools among controllers
// (proto/protocol.md H4). Each word belongs to one controller. Pieces that the
// controller has given out are at its units, or, with flows that have moved, at
// units of others, and come back when the flows are over.
//
// At first each controller has an equal part. A controller whose part is used
// up gets unused words from the controller that has most of them: half of them,
// and at most kMostWords. The words of a controller that has left go to
// another.
//
// Worked example: of 1,024 ports two controllers have 8 words each. A third one
// joins, and its first unit asks for ports: it gets 4 words of the first.
//
// A value; owner-thread only.
class ClusterPools {
 public:
  static constexpr uint32_t kMostWords = 16;

  // Divides the pools among controllers 0 … `controllers` - 1.
  ClusterPools(const NetworkFunction& example, uint32_t controllers);

  ControllerId owner(uint16_t pool, uint32_t word) const {
    return owners_[pool][word];
  }
  // Adds the controller's part of each pool to it, as pools of all words.
  void AddTo(Controller& controller, ControllerId id) const;
  // Returns words, as blocks of all their pieces, that the donor can do
  // without, and gives them to another.
  std::vector<PieceBlock> Split(const Controller& donor, ControllerId from,
                                ControllerId to, uint16_t pool);
  // Gives all words of a controller to another.
  void Inherit(ControllerId from, ControllerId to);
  // Counts the pool's words of which the controller has all pieces.
  uint32_t WholeWords(const Controller& controller, ControllerId id,
                      uint16_t pool) const;
  // Returns the mask of all pieces of a word.
  uint64_t MaskOf(uint16_t pool, uint32_t word) const;

 private:
  std::vector<NetworkFunction::Pool> pools_;
  std::vector<std::vector<ControllerId>> owners_;  // by pool and word
};

}  // namespace snf

#endif  // SNF_PLATFORM_DRIVERS_VIRTUAL_CLUSTER_CLUSTER_POOLS_H_
