// SPDX-License-Identifier: Apache-2.0
#include "nfs/ids_stream.h"

#include <algorithm>

namespace snf {

OldPart CompareOld(uint32_t sequence, std::string_view payload, uint32_t next,
                   std::string_view window) {
  OldPart old;
  const auto behind = -int64_t{static_cast<int32_t>(sequence - next)};
  if (behind <= 0) return old;
  old.bytes = std::min(static_cast<size_t>(behind), payload.size());
  // The window holds the bytes from `from` on.
  const auto kept = static_cast<int64_t>(window.size());
  const auto from = static_cast<size_t>(std::max<int64_t>(behind - kept, 0));
  if (from < old.bytes) {
    const size_t at = window.size() - (static_cast<size_t>(behind) - from);
    old.differs = payload.substr(from, old.bytes - from) !=
                  window.substr(at, old.bytes - from);
  }
  old.is_known = from == 0 && !old.differs;
  return old;
}

}  // namespace snf
