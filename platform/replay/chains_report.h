// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_REPLAY_CHAINS_REPORT_H_
#define SNF_PLATFORM_REPLAY_CHAINS_REPORT_H_

#include <string>
#include <vector>

#include "platform/replay/config.h"
#include "platform/replay/replay_run.h"
#include "platform/report/report.h"
#include "platform/text/terminal.h"

namespace snf {

// Returns true if every packet was some chain's, or was dropped because no
// chain takes it.
bool PacketsAddUp(const ReplayedChains& replayed);

// Returns the reports of all chains, of which `infos` has one each, and how
// many packets there were in all: one after the other as text, or as one JSON
// object with the keys packets_in, packets_without_chain and chains.
std::string TextOfChains(const Config& config, const ReplayedChains& replayed,
                         const std::vector<RunInfo>& infos,
                         const Terminal& terminal);
std::string JsonOfChains(const Config& config, const ReplayedChains& replayed,
                         const std::vector<RunInfo>& infos);

}  // namespace snf

#endif  // SNF_PLATFORM_REPLAY_CHAINS_REPORT_H_
