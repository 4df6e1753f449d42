// SPDX-License-Identifier: Apache-2.0
#include "platform/drivers/real_time/known_flows.h"

#include "base/packet/endpoint.h"
#include "platform/run/own_keys.h"
#include "platform/run/run_setup.h"

namespace snf {

FlowClassifier& KnownFlows::looker() {
  if (!looker_.has_value()) looker_.emplace(options_.flow);
  return *looker_;
}

bool KnownFlows::MayHaveAskedFor(const CapturedPacket& captured) {
  const OwnKeys own_keys(example_);
  if (!own_keys.any()) return false;
  ParsedPacket headers;
  FlowKey key;
  const Direction direction = looker().Classify(captured.time, captured.link,
                                                captured.bytes, headers, key);
  return direction != Direction::kNone &&
         own_keys.IsAnswer(captured.bytes, headers, direction, key);
}

bool KnownFlows::Knows(const CapturedPacket& captured) {
  ParsedPacket headers;
  FlowKey key;
  const Direction direction = looker().Classify(captured.time, captured.link,
                                                captured.bytes, headers, key);
  if (direction == Direction::kNone) return false;
  if (key.form == FlowKeyForm::kIpv4Fragment ||
      key.form == FlowKeyForm::kIpv6Fragment) {
    return older_since_ != Instant::min() &&
           captured.time - older_since_ < kLateFragments;
  }
  const FlowTable& flows = loop_.controller().flows();
  if (HasSides(example_)) {
    if (!HasEnds(key)) return false;
    const Endpoints ends = EndpointsOf(key, direction);
    if (captured.side == Side::kOutside) {
      const std::optional<FlowKey> inside =
          OwnKeys(example_).InsideOf(captured.bytes, headers, direction, key);
      if (inside.has_value()) {
        return flows.Find(*inside, flows.HashOf(*inside)) != FlowTable::kNone;
      }
      return loop_.controller().aliases().Find(
                 ends.to, flows.HashOf(ends.to)) != AliasTable::kNone;
    }
    key = ends.from;
  }
  if (const OwnKeys own_keys(example_); own_keys.any()) {
    own_keys.Apply(captured.bytes, headers, direction, key);
  }
  return flows.Find(key, flows.HashOf(key)) != FlowTable::kNone;
}

}  // namespace snf
