// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RESOURCE_MANAGER_CORE_USAGE_LEDGER_H_
#define SNF_RESOURCE_MANAGER_CORE_USAGE_LEDGER_H_

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>

namespace snf {

// Resources that were used. State counts in bytes times seconds.
struct Usage {
  uint64_t packets = 0;
  uint64_t bytes = 0;
  uint64_t processing_ns = 0;
  uint64_t state_byte_seconds = 0;
  friend bool operator==(const Usage&, const Usage&) = default;
};

// Adds without loss. Returns false, and changes nothing, if a sum is too large.
[[nodiscard]] bool AddUsage(Usage& sum, const Usage& more);

// Sums usage by tenant, chain, NF and epoch in exact integers. An addition that
// would overflow, or need more than `max_rows` rows, is refused whole and
// counted; the rest goes on.
//
// A value; owner-thread only. Add costs O(log rows).
class UsageLedger {
 public:
  struct Key {
    uint32_t tenant = 0;
    uint16_t chain = 0;
    uint16_t nf = 0;
    uint64_t epoch = 0;
    friend auto operator<=>(const Key&, const Key&) = default;
  };

  explicit UsageLedger(size_t max_rows) : max_rows_(max_rows) {}

  // Returns false if the addition was refused.
  bool Add(const Key& key, const Usage& usage);

  uint64_t refused_overflow() const { return refused_overflow_; }
  uint64_t refused_rows() const { return refused_rows_; }
  // Rows in ascending order of their keys.
  const std::map<Key, Usage>& rows() const { return rows_; }
  // Returns all that a tenant used, or nothing if a sum is too large.
  std::optional<Usage> OfTenant(uint32_t tenant) const;

 private:
  size_t max_rows_;
  uint64_t refused_overflow_ = 0;
  uint64_t refused_rows_ = 0;
  std::map<Key, Usage> rows_;
};

}  // namespace snf

#endif  // SNF_RESOURCE_MANAGER_CORE_USAGE_LEDGER_H_
