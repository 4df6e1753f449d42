// SPDX-License-Identifier: Apache-2.0
#include "platform/drivers/virtual_cluster/cluster_pieces.h"

#include <algorithm>

#include "controller/core/controller.h"
#include "platform/drivers/virtual_time/virtual_driver.h"

namespace snf {

bool ClusterPieces::TakeHome(Instant now, const PieceBlock& pieces) {
  const ControllerId owner = pools_.owner(pieces.pool, pieces.word);
  VirtualDriver& driver = members_[value(owner)]->driver();
  if (!driver.is_controller_up()) return false;
  driver.AddPieces(now, pieces, true);
  return true;
}

void ClusterPieces::Share(Instant now, ClusterMember& asks,
                          const PieceRequest& request) {
  const uint16_t pool = request.pool;
  ClusterMember* donor = nullptr;
  uint32_t most = 0;
  for (const auto& each : members_) {
    if (each.get() == &asks || !each->driver().is_controller_up()) continue;
    const uint32_t words =
        pools_.WholeWords(each->driver().controller(), each->id(), pool);
    if (words <= most) continue;
    most = words;
    donor = each.get();
  }
  if (donor != nullptr && asks.driver().controller().lacks_pieces(pool)) {
    for (const PieceBlock& word : pools_.Split(donor->driver().controller(),
                                               donor->id(), asks.id(), pool)) {
      ++figures_.words_given;
      donor->driver().RemovePieces(word);
      asks.driver().AddPieces(now, word, false);
    }
  }
  asks.driver().AskForPieces(now, request);
}

bool ClusterPieces::Bequeath(Instant now, ClusterMember& from,
                             std::span<const ControllerId> heirs) {
  const auto heir = std::ranges::find_if(heirs, [this](ControllerId id) {
    return members_[value(id)]->driver().is_controller_up();
  });
  if (heir == heirs.end()) return false;
  VirtualDriver& to = members_[value(*heir)]->driver();
  const Controller& controller = from.driver().controller();
  const auto pools = example_.pools();
  for (uint16_t p = 0; p < pools.size(); ++p) {
    for (uint32_t w = pools[p].first / 64; w < pools[p].words(); ++w) {
      if (pools_.owner(p, w) != from.id()) continue;
      PieceBlock free = {
          .word = w, .pool = p, .mask = controller.free_pieces(p, w)};
      PieceBlock out = free;
      out.mask = pools_.MaskOf(p, w) & ~free.mask;
      to.InheritPieces(now, free, out);
    }
  }
  pools_.Inherit(from.id(), *heir);
  return true;
}

}  // namespace snf
