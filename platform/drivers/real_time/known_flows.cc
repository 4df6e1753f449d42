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

KnownFlows::Seen KnownFlows::Look(const CapturedPacket& captured) {
  Seen seen;
  seen.direction = looker().Classify(captured.time, captured.link,
                                     captured.bytes, seen.headers, seen.key);
  return seen;
}

bool KnownFlows::IsOfFragment(const FlowKey& key) {
  return key.form == FlowKeyForm::kIpv4Fragment ||
         key.form == FlowKeyForm::kIpv6Fragment;
}

bool KnownFlows::MayHaveAskedFor(const CapturedPacket& captured) {
  const OwnKeys own_keys(example_);
  if (!own_keys.any()) return false;
  const Seen seen = Look(captured);
  return seen.direction != Direction::kNone &&
         own_keys.IsAnswer(captured.bytes, seen.headers, seen.direction,
                           seen.key);
}

std::optional<KnownFlows::Sought> KnownFlows::SoughtBy(
    const CapturedPacket& captured) {
  const Seen seen = Look(captured);
  if (seen.direction == Direction::kNone || IsOfFragment(seen.key)) {
    return std::nullopt;
  }
  return SoughtBy(captured, seen);
}

std::optional<KnownFlows::Sought> KnownFlows::SoughtBy(
    const CapturedPacket& captured, const Seen& seen) const {
  FlowKey key = seen.key;
  IpAddress host;
  if (HasEnds(key)) {
    const Endpoints ends = EndpointsOf(key, seen.direction);
    const bool comes_in = captured.side == Side::kOutside;
    host = (comes_in ? ends.to : ends.from).source;
  }
  if (HasSides(example_)) {
    if (!HasEnds(key)) return std::nullopt;
    const Endpoints ends = EndpointsOf(key, seen.direction);
    if (captured.side == Side::kOutside) {
      const std::optional<FlowKey> inside = OwnKeys(example_).InsideOf(
          captured.bytes, seen.headers, seen.direction, key);
      if (inside.has_value()) return Sought{.key = *inside, .host = host};
      return Sought{.key = ends.to, .by_alias = true, .host = host};
    }
    key = ends.from;
  }
  if (const OwnKeys own_keys(example_); own_keys.any()) {
    own_keys.Apply(captured.bytes, seen.headers, seen.direction, key);
  }
  return Sought{.key = key, .host = host};
}

bool KnownFlows::Knows(const CapturedPacket& captured) {
  const Seen seen = Look(captured);
  if (seen.direction == Direction::kNone) return false;
  if (IsOfFragment(seen.key)) {
    return older_since_ != Instant::min() &&
           captured.time - older_since_ < kLateFragments;
  }
  const std::optional<Sought> sought = SoughtBy(captured, seen);
  if (!sought.has_value()) return false;
  const Controller& controller = loop_.controller();
  const uint64_t hash = controller.flows().HashOf(sought->key);
  if (sought->by_alias) {
    return controller.aliases().Find(sought->key, hash) != AliasTable::kNone;
  }
  return controller.flows().Find(sought->key, hash) != FlowTable::kNone;
}

}  // namespace snf
