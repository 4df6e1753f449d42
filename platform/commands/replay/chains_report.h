// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_COMMANDS_REPLAY_CHAINS_REPORT_H_
#define SNF_PLATFORM_COMMANDS_REPLAY_CHAINS_REPORT_H_

#include "absl/status/statusor.h"
#include "platform/commands/replay/replay_run.h"
#include "platform/options/run_request.h"
#include "platform/process/exit_code.h"

namespace snf {

// Writes the reports of all chains where `request` says, one after the other as
// text, or as one JSON object with the keys packets_in, packets_without_chain
// and chains; with them the CSV and the files of NFs. Returns kExitCheckFailed
// if a run is not sound, or if a packet was neither a chain's nor dropped
// because no chain takes it. Errors name the file that cannot be written.
absl::StatusOr<ExitCode> WriteChains(const RunRequest& request,
                                     const ReplayedChains& replayed);

}  // namespace snf

#endif  // SNF_PLATFORM_COMMANDS_REPLAY_CHAINS_REPORT_H_
