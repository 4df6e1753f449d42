// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_NFS_LB_MAGLEV_H_
#define SNF_NFS_LB_MAGLEV_H_

#include <cstdint>
#include <vector>

namespace snf {

// Theory of operation. Maglev hashing (Eisenbud et al., Maglev: A Fast and
// Reliable Software Network Load Balancer, NSDI 2016, §3.4). Each member has a
// permutation of the slots of a table, which its identity alone decides. In
// turn, each takes the next slot of its permutation that is free, until the
// table is full. So members get equal shares, and most slots keep their member
// if another one comes or goes. A member of weight w takes w of w_max turns.
//
// Worked example: 7 slots; a's permutation begins 3, 0, 4, 1 and b's 0, 2, 4.
// a takes 3, b takes 0, a finds 0 taken and takes 4, b takes 2, a takes 1, and
// so on.
//
// A value. Memory: 2 bytes a slot. Construction takes some 20 ns a slot.
class MaglevTable {
 public:
  static constexpr uint32_t kMinSize = 251;
  static constexpr uint32_t kMaxSize = 4'194'301;  // the prime below 2^22
  static constexpr uint32_t kMaxWeight = 1'000;

  struct Member {
    // Two independent hashes of the member's identity, the same everywhere.
    uint64_t offset_hash;
    uint64_t skip_hash;
    uint32_t weight;  // 1 to kMaxWeight
    uint16_t value;   // that Find returns
  };

  // Returns true if a table can have this size: a prime within the bounds.
  static bool IsSize(uint32_t size);

  MaglevTable() = default;
  // The order of the members does not matter.
  MaglevTable(std::vector<Member> members, uint32_t size);

  bool empty() const { return slots_.empty(); }
  // Returns the value of the member for this hash. The table must not be empty.
  // Budget: ≤ 2 ns in cache.
  uint16_t Find(uint64_t hash) const {
    // Scales the upper half of the hash to the size, without a division.
    return slots_[(hash >> 32) * slots_.size() >> 32];
  }

 private:
  std::vector<uint16_t> slots_;
};

}  // namespace snf

#endif  // SNF_NFS_LB_MAGLEV_H_
