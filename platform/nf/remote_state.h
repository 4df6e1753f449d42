// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_NF_REMOTE_STATE_H_
#define SNF_PLATFORM_NF_REMOTE_STATE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/ids.h"
#include "platform/redis/redis_values.h"
#include "runtime/sdk/table_copy.h"

namespace snf {

// State of a program in a Redis of its own, as platforms have it that keep no
// state with the code (Serpens §V, Fig. 12): all of it, or what all instances
// of an NF share, that is tables and pools of pieces. Requests of one call go
// together. Owner-thread only. Errors are those of RedisValues.
class RemoteState {
 public:
  struct Record {
    FlowId flow{};
    std::span<std::byte> bytes;
  };

  // Starts the Redis. `has_flows`: flows' state is there as well.
  static absl::StatusOr<std::unique_ptr<RemoteState>> Start(bool has_flows);

  bool has_flows() const { return has_flows_; }
  // Reads the flows' records; one that is not there is zeros.
  absl::Status Load(std::span<const Record> records);
  // Writes them, and leaves zeros here.
  absl::Status Save(std::span<const Record> records);
  absl::Status Forget(FlowId flow);

  // Merges into the store what was updated in the tables since, and takes from
  // there what others did: one request reads the totals, a second writes them.
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

#endif  // SNF_PLATFORM_NF_REMOTE_STATE_H_
