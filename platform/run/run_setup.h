// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_RUN_RUN_SETUP_H_
#define SNF_PLATFORM_RUN_RUN_SETUP_H_

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "controller/core/controller.h"
#include "platform/run/run.h"
#include "runtime/core/unit_options.h"
#include "runtime/sdk/nf.h"
#include "runtime/tables/table_message.h"

// Sets up what every driver of a run has.
namespace snf {

// Returns the options of the run's units; `replicas` is Controller::replicas().
UnitOptions UnitOptionsOf(const RunOptions& options, uint32_t replicas);
TableOptions TableOptionsOf(const RunOptions& options, bool are_logged = false);

// Sets the limits of a controller whose units, or itself, may fail.
void PrepareForFailures(ControllerOptions& options);
// Number of spare units of a run in which units may fail: of two neighbours,
// one is of another process than any that has ended, if there are several
// processes.
inline constexpr uint32_t kSpareUnits = 2;
// Adds spare units (ControllerOptions::spare_units) unless there are some.
void AddSpareUnits(ControllerOptions& options);
// Sets what such a controller does for its units' loggers and for a successor:
// awaits ends of flows, names flows, and lets go of old copies.
void AwaitEnds(bool units_may_fail, bool controller_may_fail,
               ControllerOptions& options);

// Returns true if the NF's flows are inside endpoints.
bool HasSides(const NetworkFunction& nf);

// Returns the result of a run that has not begun, of an NF like `example`.
RunResult EmptyResult(const NetworkFunction& example);

// The range of a pool's pieces that the i-th of `count` controllers has: whole
// words of 64 pieces, or less at the pool's ends. None if there are too few.
struct PieceRange {
  uint32_t first = 0;
  uint32_t last = 0;
  friend bool operator==(const PieceRange&, const PieceRange&) = default;
};
std::optional<PieceRange> PartOf(const NetworkFunction::Pool& pool, uint32_t i,
                                 uint32_t count);

// Returns an error that names the first pool of which a controller would have
// no part. `controllers` is their number.
absl::Status CheckParts(const NetworkFunction& example, uint32_t controllers);
// Returns the parts of the pools that each controller has, by controller. Pools
// of an address have the same few ranges: each range is named once. The NF must
// pass CheckParts.
std::vector<std::vector<PieceRange>> PartsOf(
    std::span<const NetworkFunction::Pool> pools, uint32_t controllers);

// Gives the i-th of `count` controllers its part of the NF's pools of pieces,
// before the first packet. There must be one of each pool.
void AddPiecePools(const NetworkFunction& example, Controller& controller,
                   uint32_t i = 0, uint32_t count = 1);

}  // namespace snf

#endif  // SNF_PLATFORM_RUN_RUN_SETUP_H_
