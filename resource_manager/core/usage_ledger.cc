// SPDX-License-Identifier: Apache-2.0
#include "resource_manager/core/usage_ledger.h"

namespace snf {

bool AddUsage(Usage& sum, const Usage& more) {
  Usage to;
  if (__builtin_add_overflow(sum.packets, more.packets, &to.packets) ||
      __builtin_add_overflow(sum.bytes, more.bytes, &to.bytes) ||
      __builtin_add_overflow(sum.processing_ns, more.processing_ns,
                             &to.processing_ns) ||
      __builtin_add_overflow(sum.state_byte_seconds, more.state_byte_seconds,
                             &to.state_byte_seconds)) {
    return false;
  }
  sum = to;
  return true;
}

bool UsageLedger::Add(const Key& key, const Usage& usage) {
  const auto at = rows_.find(key);
  if (at == rows_.end()) {
    if (rows_.size() >= max_rows_) {
      ++refused_rows_;
      return false;
    }
    rows_.emplace(key, usage);
    return true;
  }
  if (AddUsage(at->second, usage)) return true;
  ++refused_overflow_;
  return false;
}

std::optional<Usage> UsageLedger::OfTenant(uint32_t tenant) const {
  Usage sum;
  for (auto at = rows_.lower_bound(Key{.tenant = tenant});
       at != rows_.end() && at->first.tenant == tenant; ++at) {
    if (!AddUsage(sum, at->second)) return std::nullopt;
  }
  return sum;
}

}  // namespace snf
