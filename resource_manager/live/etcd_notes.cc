// SPDX-License-Identifier: Apache-2.0
#include "resource_manager/live/etcd_notes.h"

#include <unistd.h>

namespace snf {

absl::StatusOr<std::optional<MemberFile>> EtcdNotes::Read() {
  const auto found = client_.Get(key_);
  if (!found.ok()) return found.status();
  if (!found->has_value()) {
    revision_ = 0;
    return std::nullopt;
  }
  revision_ = (*found)->mod_revision;
  return MemberFile::Parse((*found)->value, "etcd: " + key_);
}

absl::Status EtcdNotes::Write(const MemberFile& notes) {
  const std::string text = notes.Text();
  const auto outcome = client_.Transact(
      {leadership_.condition(), {key_, revision_}}, {{key_, text}});
  if (!outcome.ok()) return outcome.status();
  bool is_written = outcome->is_done;
  if (is_written) revision_ = outcome->revision;
  for (const EtcdPair& pair : outcome->found) {
    // The answer to a first try was lost.
    if (pair.key != key_ || pair.value != text) continue;
    is_written = true;
    revision_ = pair.mod_revision;
  }
  if (!is_written || !leadership_.is_leader()) {
    return absl::FailedPreconditionError(
        "this resource manager is no longer the leader");
  }
  return notes.Write(file_);
}

void EtcdNotes::Remove() { unlink(file_.c_str()); }

}  // namespace snf
