// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_DAEMON_GROUP_HELD_PIECES_H_
#define SNF_PLATFORM_DAEMON_GROUP_HELD_PIECES_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "platform/drivers/real_time/pool_pieces.h"
#include "runtime/sdk/nf.h"

namespace snf {

// A piece that a flow has.
struct HeldPiece {
  uint16_t pool = 0;
  uint32_t piece = 0;
  friend bool operator==(const HeldPiece&, const HeldPiece&) = default;
};

// Returns the pieces of a flow with that record: the pieces that the NF would
// give back at the flow's end. Calls on_end of the NF, which must serve nothing
// else. The record must be well formed (StateSchema::IsWellFormed).
std::vector<HeldPiece> PiecesOf(NetworkFunction& nf,
                                std::span<const std::byte> record);

// Takes free pieces out of a controller's pools, for flows that have them, or
// puts pieces back that were taken out.
//
// Example: of pool 0, the pieces 5 and 6 are free. Take({0, 5}) is true, a
// second one is false, as is Take({0, 7}). After Finish, only 6 is free.
//
// Owner-thread only. Lives for one turn: other changes of the pools are not
// seen.
class PieceTaking {
 public:
  // `pools` must outlive the object.
  explicit PieceTaking(PoolPieces& pools);
  // Takes all of these pieces; returns false, and takes none, if one of them is
  // not free.
  bool Take(std::span<const HeldPiece> pieces);
  // Changes the pools.
  void Finish();

  static void PutBack(PoolPieces& pools, std::span<const HeldPiece> pieces);

 private:
  using Words = std::vector<uint64_t>;  // of a pool

  PoolPieces& pools_;
  std::vector<Words> free_;
  std::vector<Words> taken_;
};

}  // namespace snf

#endif  // SNF_PLATFORM_DAEMON_GROUP_HELD_PIECES_H_
