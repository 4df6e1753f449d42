// SPDX-License-Identifier: Apache-2.0
#include "runtime/wire/wire_faults.h"

#include <fmt/format.h>

namespace snf {

std::string ToString(const WireFault& fault) {
  const std::string_view loggers = fault.of_logger ? "the logger of " : "";
  const std::string who =
      fault.unit != kNoUnit
          ? fmt::format("{}unit {}", loggers, value(fault.unit))
      : fault.loop != WireFault::kController
          ? fmt::format("{}the loop of units {}", loggers, fault.loop)
          : "the controller";
  return fmt::format("{} sent a bad word: {} with {} {}", who, fault.kind,
                     fault.field, fault.value);
}

void WireFaults::Add(const WireFault& fault) {
  const std::scoped_lock lock(mutex_);
  if (!first_.has_value()) first_ = fault;
  count_.fetch_add(1, std::memory_order_release);
  if (told_ != nullptr) told_(fault);
}

std::optional<WireFault> WireFaults::first() const {
  const std::scoped_lock lock(mutex_);
  return first_;
}

}  // namespace snf
