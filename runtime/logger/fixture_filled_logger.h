// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RUNTIME_LOGGER_FIXTURE_FILLED_LOGGER_H_
#define SNF_RUNTIME_LOGGER_FIXTURE_FILLED_LOGGER_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/check.h"
#include "runtime/logger/log_entry.h"
#include "runtime/logger/output_logger.h"
#include "runtime/sdk/nf.h"

namespace snf {

// FilledLogger is for benchmarks of memory: it has as many flows as it may
// keep, each with a timer, and without state.
class FilledLogger {
 public:
  explicit FilledLogger(uint32_t flows)
      : logger_(1, {.max_flows = flows}, nf_.schema()) {
    std::vector<std::byte> bytes(sizeof(LogEntry));
    LoggerOut out;
    for (uint32_t flow = 0; flow < flows; ++flow) {
      LogEntry entry;
      entry.number = flow + 1;
      entry.meta.flow = MakeFlowId(0, flow, 1);
      entry.meta.clock = entry.state = Clock{1};
      entry.timer = Instant{1'000};
      entry.schema = nf_.schema().hash();
      entry.incarnation = 1;
      entry.flags = LogEntry::kWhole;
      WriteLogEntry(entry, {}, {}, nullptr, {}, bytes);
      out.clear();
      SNF_CHECK(logger_.on_entry(bytes, out) == OutputLogger::Result::kTaken);
    }
    SNF_CHECK(logger_.flows() == flows);
  }

 private:
  class Forward final : public NetworkFunction {
    Verdict process_packet(Packet&, FlowState&) override {
      return Verdict::forward();
    }
  };
  Forward nf_;
  OutputLogger logger_;
};

}  // namespace snf

#endif  // SNF_RUNTIME_LOGGER_FIXTURE_FILLED_LOGGER_H_
