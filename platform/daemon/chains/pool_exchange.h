// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_DAEMON_CHAINS_POOL_EXCHANGE_H_
#define SNF_PLATFORM_DAEMON_CHAINS_POOL_EXCHANGE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "platform/drivers/real_time/real_driver.h"

namespace snf {

// Theory of operation. Pieces of a pool, as a NAT's ports, are at one chain of
// a run each. Pools are told apart by their NFs' names for them. The newest
// chain with a pool gets the pieces that its predecessor has not given to
// units; when an older chain ends, the newest gets the older one's pieces as
// well. Pieces of a pool that no newest chain has are kept here for a later
// chain.
//
// Worked example: chain 1 is a NAT, of whose ports 1024 … 65535 its units have
// 1024 … 1151. Chain 2, set then, begins with 1152 … 65535. Packets to port
// 1030 go to chain 1, a new connection gets 1152. When the last flow of chain 1
// has ended, 1024 … 1151 come to chain 2.
//
// A NAT whose ports are others than before of the same address has a pool of
// another name, and may give a port that a flow of an older chain has.
//
// Owner-thread only.
class PoolExchange {
 public:
  // Pieces: a bit each, 64 to a word. Pools are by name.
  using Words = std::vector<uint64_t>;
  using Pools = std::map<std::string, Words>;

  // Holds what a chain has, by pool.
  struct Share {
    std::vector<std::string> names;
    std::vector<Words> pieces;
  };
  // Returns the driver's pools, with all of their pieces.
  static Share AllOf(const RealDriver& driver);

  // A newest chain. The driver must outlive the call that gets it.
  struct Holder {
    RealDriver* driver = nullptr;
    Share* share = nullptr;
  };
  // Adds newest chains, which `newest` returns. It must outlive this object's
  // other calls.
  void Add(std::function<Holder()> newest) {
    newest_.push_back(std::move(newest));
  }

  // Keeps the pieces that the chain has not given to its units.
  void KeepFree(const Holder& from);
  // Gives the chain kept pieces of its pools, in place of all of them. It has
  // all pieces of a pool of which none was ever kept.
  void GiveKept(const Holder& to);
  // Gives the newest chains these pieces, or keeps them.
  void TakeBack(const Share& ended);
  void TakeBack(const Pools& more);
  // Keeps these pieces, in place of pieces that were kept of these pools.
  void Keep(const Share& share);
  void Keep(Pools free) { kept_ = std::move(free); }
  // Returns what is kept, and keeps nothing.
  Pools TakeKept() { return std::exchange(kept_, {}); }

  // Settle the pools of a driver that takes over processes
  // (RealOptions::Keep::settle). An older one's has no pieces but those that
  // its units have, which it returns; the newest none of these.
  static Pools SettleOlder(RealDriver& driver);
  static void SettleNewest(RealDriver& driver, const Pools& held);
  // As KeepFree, if units have these pieces (SettleOlder).
  void KeepBut(const Pools& held, Share& share);

 private:
  std::vector<std::function<Holder()>> newest_;
  // Free pieces of pools that no newest chain has.
  Pools kept_;
};

}  // namespace snf

#endif  // SNF_PLATFORM_DAEMON_CHAINS_POOL_EXCHANGE_H_
