// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RESOURCE_MANAGER_LIVE_ETCD_NOTES_H_
#define SNF_RESOURCE_MANAGER_LIVE_ETCD_NOTES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "resource_manager/etcd/etcd_client.h"
#include "resource_manager/etcd/leadership.h"
#include "resource_manager/live/member_file.h"

namespace snf {

// Keeps the notes of the leading resource manager in etcd, for the next leader,
// and in the leader's own file, which daemons read. etcd refuses the notes of a
// manager that no longer leads. Owner-thread only.
class EtcdNotes final : public MemberNotes {
 public:
  // The client and the leadership must outlive the notes.
  EtcdNotes(EtcdClient& client, const Leadership& leadership, std::string key,
            std::string file)
      : client_(client),
        leadership_(leadership),
        key_(std::move(key)),
        file_(std::move(file)) {}

  absl::StatusOr<std::optional<MemberFile>> Read() override;
  // Error besides: FailedPrecondition, another manager leads.
  absl::Status Write(const MemberFile& notes) override;
  // Removes the file only: epochs in etcd only grow.
  void Remove() override;

 private:
  EtcdClient& client_;
  const Leadership& leadership_;
  const std::string key_;
  const std::string file_;
  int64_t revision_ = 0;  // of the key, as last read or written
};

}  // namespace snf

#endif  // SNF_RESOURCE_MANAGER_LIVE_ETCD_NOTES_H_
