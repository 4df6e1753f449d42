// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_VIRTUAL_CLUSTER_CLUSTER_POOLS_H_
#define SNF_PLATFORM_VIRTUAL_CLUSTER_CLUSTER_POOLS_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "base/messages/lease_messages.h"
#include "base/messages/messages.h"
#include "controller/core/controller.h"
#include "platform/run/run_setup.h"
#include "runtime/sdk/nf.h"

namespace snf {

// Theory of operation. Which controller has which words of the NF's pools
// (proto/protocol.md H4). A word is one controller's; what is not at that
// controller is at its units, or, with flows that have gone on elsewhere, at
// those of others, from where it comes back when the flows are over.
//
// At first each of those that begin has an equal part. One that finds its part
// used up gets words of which no piece is out, from the one that has most of
// these: half of them, and at most kMostWords. The words of one that has left
// are another's.
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
  // Gives all words of one to another.
  void Inherit(ControllerId from, ControllerId to);
  // Counts the pool's words of which the controller has all pieces.
  uint32_t WholeWords(const Controller& controller, ControllerId id,
                      uint16_t pool) const;
  // All pieces of a word.
  uint64_t MaskOf(uint16_t pool, uint32_t word) const;

 private:
  std::vector<NetworkFunction::Pool> pools_;
  std::vector<std::vector<ControllerId>> owners_;  // by pool and word
};

}  // namespace snf

#endif  // SNF_PLATFORM_VIRTUAL_CLUSTER_CLUSTER_POOLS_H_
