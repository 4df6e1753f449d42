// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_COMMANDS_NF_REMOTE_STATE_H_
#define SNF_PLATFORM_COMMANDS_NF_REMOTE_STATE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/ids.h"
#include "runtime/redis/redis_values.h"
#include "runtime/sdk/table_copy.h"

namespace snf {

// Keeps a program's state in its own Redis, like platforms that keep no state
// with the code (Serpens §V, Fig. 12): either all state, or only the part that
// all instances of an NF share, tables and pools of pieces. Requests of one
// call go together. Owner-thread only. Errors as in RedisValues.
class RemoteState {
 public:
  struct Record {
    FlowId flow{};
    std::span<std::byte> bytes;
  };

  // Starts the Redis. `has_flows`: flows' state is there as well.
  static absl::StatusOr<std::unique_ptr<RemoteState>> Start(bool has_flows);

  bool has_flows() const { return has_flows_; }
  // Reads the flows' records; a missing record is all zeros.
  absl::Status Load(std::span<const Record> records);
  // Writes them, and leaves zeros here.
  absl::Status Save(std::span<const Record> records);
  absl::Status Forget(FlowId flow);

  // Merges the tables' updates since the last call into the store, and reads
  // the updates of other instances: one request reads the totals, a second
  // writes them.
  absl::Status Merge(std::span<const std::unique_ptr<TableCopy>> tables);
  // A piece of a pool is taken or given back, which all instances must agree
  // about.
  absl::Status CountPiece() { return values_->Increase("pieces"); }

  uint64_t requests() const { return values_->requests(); }

 private:
  explicit RemoteState(bool has_flows) : has_flows_(has_flows) {}
  absl::Status MergeTable(size_t index, TableCopy& table);
  void NameRecords(std::span<const Record> records);

  bool has_flows_;
  uint64_t version_ = 0;  // of totals
  std::unique_ptr<RedisValues> values_;
  std::vector<std::string> keys_;  // of a call
  std::vector<std::string> found_;
};

}  // namespace snf

#endif  // SNF_PLATFORM_COMMANDS_NF_REMOTE_STATE_H_
