// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RESOURCE_MANAGER_LIVE_MEMBER_FILE_H_
#define SNF_RESOURCE_MANAGER_LIVE_MEMBER_FILE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/messages/lease_messages.h"
#include "resource_manager/core/unit_sites.h"
#include "resource_manager/live/process_watch.h"

namespace snf {

// The notes of a resource manager for its successor, and for daemons that are
// to be members: its epoch, its units, and the processes that may have leases.
// Without the file a successor would grant the shares of these leases again.
struct MemberFile {
  struct Member {
    ControllerId controller{};
    ProcessId process;
    std::string name;       // of the daemon
    std::string machine{};  // OwnMachine() of the daemon; "": the manager's
    friend bool operator==(const Member&, const Member&) = default;
  };
  uint64_t epoch = 0;
  uint32_t units = 0;
  int64_t unit_capacity_bps = 0;
  std::vector<Member> members{};
  // Units run on the hosts of a cluster, and these have a host.
  struct Site {
    uint32_t unit = 0;
    UnitSites::Site of;
    friend bool operator==(const Site&, const Site&) = default;
  };
  bool follows_hosts = false;
  std::vector<Site> sites{};
  friend bool operator==(const MemberFile&, const MemberFile&) = default;

  // Returns none if there is no such file. Errors: those of reading the file;
  // DataLoss if Write has not written it.
  static absl::StatusOr<std::optional<MemberFile>> Read(
      const std::string& file);
  // The file is the old one or the new one at any time. Error: Unavailable.
  absl::Status Write(const std::string& file) const;

  // The same of a text. Errors name `source`.
  static absl::StatusOr<MemberFile> Parse(const std::string& text,
                                          const std::string& source);
  std::string Text() const;
};

// A place for the notes of a resource manager. Owner-thread only.
class MemberNotes {
 public:
  virtual ~MemberNotes() = default;
  // As MemberFile::Read and Write.
  virtual absl::StatusOr<std::optional<MemberFile>> Read() = 0;
  virtual absl::Status Write(const MemberFile& notes) = 0;
  // Called at the end, if no member lives.
  virtual void Remove() = 0;
};

// Keeps the notes in a file.
class FileNotes final : public MemberNotes {
 public:
  explicit FileNotes(std::string file) : file_(std::move(file)) {}
  absl::StatusOr<std::optional<MemberFile>> Read() override {
    return MemberFile::Read(file_);
  }
  absl::Status Write(const MemberFile& notes) override {
    return notes.Write(file_);
  }
  void Remove() override;

 private:
  const std::string file_;
};

}  // namespace snf

#endif  // SNF_RESOURCE_MANAGER_LIVE_MEMBER_FILE_H_
