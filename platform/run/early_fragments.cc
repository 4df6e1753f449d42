// SPDX-License-Identifier: Apache-2.0
#include "platform/run/early_fragments.h"

#include <algorithm>
#include <utility>

namespace snf {

bool EarlyFragments::Keep(Instant now, const FlowKey& packet,
                          const CapturedPacket& fragment) {
  if (kept_.size() >= most_) return false;
  const size_t length = fragment.bytes.size();
  Kept kept{.since = now,
            .packet = packet,
            .fragment = fragment,
            .bytes = std::make_unique_for_overwrite<std::byte[]>(length)};
  std::ranges::copy(fragment.bytes, kept.bytes.get());
  kept.fragment.bytes = {kept.bytes.get(), length};
  kept_.push_back(std::move(kept));
  return true;
}

void EarlyFragments::Release(const FlowKey& packet) {
  for (Kept& kept : kept_) {
    if (kept.is_released || kept.packet != packet) continue;
    kept.is_released = true;
    ++released_;
  }
}

const CapturedPacket* EarlyFragments::Next(Instant now) {
  last_.reset();
  const auto found = released_ > 0
                         ? std::ranges::find(kept_, true, &Kept::is_released)
                         : kept_.begin();
  if (found == kept_.end()) return nullptr;
  if (!found->is_released && now - found->since <= kLongest) return nullptr;
  if (found->is_released) --released_;
  last_ = std::move(*found);
  kept_.erase(found);
  return &last_->fragment;
}

}  // namespace snf
