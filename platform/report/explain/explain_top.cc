// SPDX-License-Identifier: Apache-2.0
#include "platform/report/explain/explain_top.h"

#include <algorithm>
#include <utility>

namespace snf {

void TopFlowFinder::Add(const FlowKey& key, uint32_t original_length) {
  bytes_[key] += original_length;
}

std::vector<FlowKey> TopFlowFinder::Top(size_t flows) const {
  std::vector<std::pair<uint64_t, FlowKey>> order;
  order.reserve(bytes_.size());
  for (const auto& [key, bytes] : bytes_) order.emplace_back(bytes, key);
  const auto end = order.begin() +
                   static_cast<std::ptrdiff_t>(std::min(flows, order.size()));
  std::partial_sort(
      order.begin(), end, order.end(), [](const auto& a, const auto& b) {
        return a.first != b.first ? a.first > b.first : a.second < b.second;
      });
  std::vector<FlowKey> top;
  for (auto each = order.begin(); each != end; ++each) {
    top.push_back(each->second);
  }
  return top;
}

}  // namespace snf
