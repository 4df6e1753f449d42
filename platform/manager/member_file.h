// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_MANAGER_MEMBER_FILE_H_
#define SNF_PLATFORM_MANAGER_MEMBER_FILE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/messages/lease_messages.h"
#include "platform/manager/process_watch.h"

namespace snf {

// What a resource manager notes for the next one, and for daemons that are to
// be members: its epoch, what its units are, and the processes that may have
// leases. Without it the next one would promise again what those have.
struct MemberFile {
  struct Member {
    ControllerId controller{};
    ProcessId process;
    std::string name;  // of the daemon
    friend bool operator==(const Member&, const Member&) = default;
  };
  uint64_t epoch = 0;
  uint32_t units = 0;
  int64_t unit_capacity_bps = 0;
  std::vector<Member> members{};
  friend bool operator==(const MemberFile&, const MemberFile&) = default;

  // None if there is no such file. Errors: those of the file; DataLoss, it is
  // not what Write has written.
  static absl::StatusOr<std::optional<MemberFile>> Read(
      const std::string& file);
  // The file is the old one or the new one at any time. Error: Unavailable.
  absl::Status Write(const std::string& file) const;
};

}  // namespace snf

#endif  // SNF_PLATFORM_MANAGER_MEMBER_FILE_H_
