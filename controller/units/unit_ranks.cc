// SPDX-License-Identifier: Apache-2.0
#include "controller/units/unit_ranks.h"

#include <algorithm>

namespace snf {

UnitRanks::UnitRanks(uint32_t max_units) : members_(max_units) {
  SNF_CHECK(max_units >= 1 && max_units <= kMaxUnits);
}

void UnitRanks::Insert(UnitId unit) {
  SNF_CHECK(size_ < members_.size());
  UnitId* const end = members_.data() + size_++;
  UnitId* const place = std::lower_bound(members_.data(), end, unit);
  std::copy_backward(place, end, end + 1);
  *place = unit;
}

void UnitRanks::Erase(UnitId unit) {
  UnitId* const end = members_.data() + size_;
  UnitId* const place = std::lower_bound(members_.data(), end, unit);
  SNF_CHECK(place != end && *place == unit);
  --size_;
  std::copy(place + 1, end, place);
}

}  // namespace snf
