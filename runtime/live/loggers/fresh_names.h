// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RUNTIME_LIVE_LOGGERS_FRESH_NAMES_H_
#define SNF_RUNTIME_LIVE_LOGGERS_FRESH_NAMES_H_

#include <cstddef>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "base/ids.h"

namespace snf {

// The flows of units whose name has arrived, and no entry since: their packets
// may be under way. The next entry of a flow removes the flow. A flow without
// such an entry is removed after 2 · kMost other names.
//
// Worked example: a NAT's idle timeout comes back as a name behind the last
// packet of its flow at the unit. Another unit takes the flow over, and the
// unit logs that: the name is not fresh any more.
//
// A value; owner-thread only. Holds at most 2 · kMost flows.
class FreshNames {
 public:
  static constexpr size_t kMost = 65'536;

  void Add(UnitId unit, FlowId flow) {
    if (newer_.size() >= kMost) older_ = std::exchange(newer_, {});
    newer_.emplace(unit, flow);
  }
  bool Has(UnitId unit, FlowId flow) const {
    return newer_.contains({unit, flow}) || older_.contains({unit, flow});
  }
  void Erase(UnitId unit, FlowId flow) {
    newer_.erase({unit, flow});
    older_.erase({unit, flow});
  }
  void EraseAllOf(UnitId unit) {
    const auto is_of_unit = [unit](const auto& fresh) {
      return fresh.first == unit;
    };
    absl::erase_if(newer_, is_of_unit);
    absl::erase_if(older_, is_of_unit);
  }
  bool empty() const { return newer_.empty() && older_.empty(); }
  size_t size() const { return newer_.size() + older_.size(); }

 private:
  absl::flat_hash_set<std::pair<UnitId, FlowId>> newer_;
  absl::flat_hash_set<std::pair<UnitId, FlowId>> older_;
};

}  // namespace snf

#endif  // SNF_RUNTIME_LIVE_LOGGERS_FRESH_NAMES_H_
