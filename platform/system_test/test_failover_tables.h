// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_SYSTEM_TEST_TEST_FAILOVER_TABLES_H_
#define SNF_PLATFORM_SYSTEM_TEST_TEST_FAILOVER_TABLES_H_

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/rng.h"
#include "base/time.h"
#include "platform/system_test/test_failover_nf.h"
#include "runtime/logger/update_log.h"
#include "runtime/tables/table_home.h"
#include "runtime/tables/table_message.h"
#include "runtime/tables/update_sender.h"

namespace snf {

// The home of FailoverNf's table in a world of failures, and the way to it,
// which loses, doubles and reorders messages. It counts what each clock that is
// done has merged, and holds the home to that sum.
class FailoverTables {
 public:
  // Without `numbers`, the home merges updates again.
  FailoverTables(const TableShape& shape, uint32_t units, bool numbers);

  // The effects of a clock are in a logger, for good.
  void on_done(const FailoverNf::Did& did);
  // Does something about the unit, whose logger has this log; it is null while
  // the logger has failed. Returns false if nothing is to be done.
  bool Step(Instant now, UnitId unit, UpdateLog* log, Rng& rng);
  // Returns true if nothing is on its way for the unit's logger.
  bool IsQuiet(UnitId unit) const;
  // Returns the first wrong sum at the end of a world, or "".
  std::string End() const;

  uint64_t refused() const { return refused_; }
  uint64_t in_rest() const { return home_.refused(); }
  uint64_t erased() const { return home_.erased(); }

 private:
  void Send(const TableMessage& message, Rng& rng);
  void Deliver(Instant now, size_t which, UpdateLog* log, Rng& rng);

  bool numbers_;
  TableHome home_;
  std::vector<UpdateSender> senders_;   // by unit
  std::vector<TableMessage> messages_;  // on their way
  std::array<uint64_t, FailoverNf::kCountKeys> sums_{};
  uint64_t refused_ = 0;  // messages whose updates begin elsewhere
};

}  // namespace snf

#endif  // SNF_PLATFORM_SYSTEM_TEST_TEST_FAILOVER_TABLES_H_
