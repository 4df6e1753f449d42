// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_REPORT_EXPLAIN_DECISION_LOG_H_
#define SNF_PLATFORM_REPORT_EXPLAIN_DECISION_LOG_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/packet/flow_key.h"
#include "base/time.h"
#include "platform/report/explain/explain_story.h"
#include "platform/run/run_events.h"
#include "traces/byte_sink.h"

namespace snf {

// Writes every placement of a flowlet, with what the policy saw, to a file: a
// line each, in the order of the decisions. The name says the form: .csv, with
// a line of names first, or .jsonl, an object a line; .gz or .zst behind that
// compresses. The columns of the former are the keys of the latter:
//
//   time_s           since the run's first packet
//   flow, flowlet    the flow's key, and the flowlet's number in the flow
//   cause            why it began: new_flow, gap, bytes, late
//   gap_s            since the flow's packet before; 0 of a new flow
//   demand_bps       its expected rate
//   demand           the same as a share of a unit's capacity
//   owner            the unit of the flow's last packet; empty or null: none
//   replicas         other units that have its state
//   unit             the one chosen; empty or null: none could take it
//   reason           room: it has room; no_room: no unit had; kept: the policy
//                    had no choice to make; no_unit: none was there
//   load             of that unit before, as a share of its capacity
//   units            that could be chosen, …
//   units_with_room  … that of these had room, and …
//   units_starting   … that were not ready to be chosen yet
//   candidates       units as the policy saw them: unit, load, score (the share
//                    by which it was ranked; null or "-" without room), state
//                    (whether the flow's state is there). Of more than
//                    FlowletStory::kMaxCandidates, the most telling ones. In
//                    CSV, unit:load:score, with :state behind, and blanks
//                    between.
//
// Owner-thread only.
class DecisionLog final : public RunObserver {
 public:
  // Returns true if a file's name ends in one of the forms of a log.
  static bool Names(std::string_view file);

  // `file` must be one of Names(). Errors as in ByteSink::Open.
  static absl::StatusOr<std::unique_ptr<DecisionLog>> Open(
      const std::string& file);

  void on_start(Instant first_packet) override { start_ = first_packet; }
  void on_arrival(Instant /*now*/, const FlowKey& key,
                  uint32_t /*original_length*/) override {
    key_ = key;
  }
  void on_decision(const Decision& decision, const UnitPool& units) override;

  // Returns OK, or the first failure, which names the file.
  const absl::Status& status() const { return sink_->status(); }
  // Gives the file its name. Call it once, at the end of the run.
  absl::Status Close() { return sink_->Close(); }

 private:
  DecisionLog(std::unique_ptr<ByteSink> sink, bool is_csv);
  void Write(std::string_view text);
  std::string Line(const Decision& decision, const UnitPool& units) const;

  std::unique_ptr<ByteSink> sink_;
  bool is_csv_;
  Instant start_;
  FlowKey key_;  // of the latest packet
};

}  // namespace snf

#endif  // SNF_PLATFORM_REPORT_EXPLAIN_DECISION_LOG_H_
