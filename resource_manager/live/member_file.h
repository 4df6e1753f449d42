// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RESOURCE_MANAGER_LIVE_MEMBER_FILE_H_
#define SNF_RESOURCE_MANAGER_LIVE_MEMBER_FILE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/messages/lease_messages.h"
#include "resource_manager/live/process_watch.h"

namespace snf {

// The notes of a resource manager for its successor, and for daemons that are
// to be members: its epoch, its units, and the processes that may have leases.
// Without the file a successor would grant the shares of these leases again.
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

  // Returns none if there is no such file. Errors: those of reading the file;
  // DataLoss if Write has not written it.
  static absl::StatusOr<std::optional<MemberFile>> Read(
      const std::string& file);
  // The file is the old one or the new one at any time. Error: Unavailable.
  absl::Status Write(const std::string& file) const;
};

}  // namespace snf

#endif  // SNF_RESOURCE_MANAGER_LIVE_MEMBER_FILE_H_
