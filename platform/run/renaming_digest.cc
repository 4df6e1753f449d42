// SPDX-License-Identifier: Apache-2.0
#include "platform/run/renaming_digest.h"

#include "base/packet/endpoint.h"
#include "base/packet/rewrite.h"

namespace snf {

void RenamingDigest::Add(Instant now, FlowId flow, LinkType link,
                         std::span<const std::byte> bytes) {
  if (flow == kNoFlow) {
    digest_.Add(flow, bytes);
    return;
  }
  copy_.assign(bytes.begin(), bytes.end());
  Restore(now, link);
  digest_.Add(flow, copy_);
}

void RenamingDigest::Restore(Instant now, LinkType link) {
  ParsedPacket headers;
  FlowKey connection;
  const Direction direction =
      classifier_.Classify(now, link, copy_, headers, connection);
  if (direction == Direction::kNone || !HasEnds(connection)) return;
  const Endpoints ends = EndpointsOf(connection, direction);
  if (const FlowKey* const from = InsideOf(ends.from); from != nullptr) {
    RewriteSource(copy_, headers, from->source.ipv4(), from->source_port);
  }
  if (const FlowKey* const to = InsideOf(ends.to); to != nullptr) {
    RewriteDestination(copy_, headers, to->source.ipv4(), to->source_port);
  }
}

const FlowKey* RenamingDigest::InsideOf(const FlowKey& external) const {
  const auto granted = inside_of_.find(external);
  return granted == inside_of_.end() ? nullptr : &granted->second;
}

}  // namespace snf
