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
  if (blames() && fault.loop < blames_.size() - 1) {
    const auto loggers = static_cast<uint32_t>(blames_.size() - 1);
    return Blame(fault.of_logger ? loggers : fault.loop, ToString(fault));
  }
  const std::scoped_lock lock(mutex_);
  if (!first_.has_value()) first_ = fault;
  count_.fetch_add(1, std::memory_order_release);
  if (told_ != nullptr) told_(fault);
}

void WireFaults::Blame(uint32_t loop, std::string what) {
  const std::scoped_lock lock(mutex_);
  if (loop >= blames_.size() || blames_[loop].has_value()) return;
  blames_[loop] = std::move(what);
  untaken_.fetch_add(1, std::memory_order_release);
}

std::optional<std::string> WireFaults::TakeBlame(uint32_t loop) {
  const std::scoped_lock lock(mutex_);
  if (loop >= blames_.size() || !blames_[loop].has_value()) return std::nullopt;
  untaken_.fetch_sub(1, std::memory_order_relaxed);
  return std::exchange(blames_[loop], std::nullopt);
}

std::optional<WireFault> WireFaults::first() const {
  const std::scoped_lock lock(mutex_);
  return first_;
}

}  // namespace snf
