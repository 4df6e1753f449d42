// SPDX-License-Identifier: Apache-2.0
#include "platform/drivers/real_time/real_failure.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/packet/flow_key_text.h"
#include "base/quantity.h"

namespace snf {

std::string RealFailure::Why() const {
  const std::optional<WireFault> fault = faults_.first();
  if (fault.has_value()) {
    const uint64_t more = faults_.count() - 1;
    return ToString(*fault) +
           (more > 0 ? fmt::format("; {} more came", more) : "");
  }
  if (has_lost_store()) {
    return fmt::format("the store at {} did not answer for more than {}",
                       FormatRedisAddress(redis_->address()),
                       FormatDuration(store_patience_));
  }
  const UnitProcesses::Failure failure = *processes_->failure();
  if (!failure.nf.has_value() || failure.nf->flow == kNoFlow) {
    return failure.text;
  }
  std::string packet = ";";
  if (buffers_.IsHandle(failure.nf->packet)) {
    packet = fmt::format("; packet {},", names_.NumberOf(failure.nf->packet));
  }
  return fmt::format("{}{} clock {}, flow {}", failure.text, packet,
                     failure.nf->clock,
                     ToString(names_.FlowOf(failure.nf->flow)));
}

void RealFailure::Report(Egress& egress, RunResult& result) const {
  result.failure = Why();
  result.nf_failed = !faults_.first().has_value() && processes_ != nullptr &&
                     processes_->failure().has_value() &&
                     processes_->failure()->nf.has_value();
  egress.Violate(result.failure);
  const uint64_t begun = result.packets_begun();
  const uint64_t ended = result.packets_ended();
  result.dropped[static_cast<size_t>(WhyDropped())] +=
      begun - std::min(begun, ended);
}

}  // namespace snf
