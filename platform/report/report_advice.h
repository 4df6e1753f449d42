// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_REPORT_REPORT_ADVICE_H_
#define SNF_PLATFORM_REPORT_REPORT_ADVICE_H_

#include <string>
#include <vector>

#include "platform/report/report.h"

namespace snf {

// Says what a result means, in a plain sentence; in a second and third one what
// went wrong, if something did.
std::string Meaning(const RunOptions& options, const RunResult& result,
                    const RunInfo& info = {});

// Says why the result shows little packing: the traffic is too slow for units
// of this size. Empty if it is not.
std::string SlownessHint(const RunOptions& options, const RunResult& result,
                         const RunInfo& info = {});

struct Proposal {
  std::string purpose;  // "see every decision about the busiest flow"
  std::vector<std::string> words;  // of the command, quoted for a shell
};

// Three commands worth trying after this result: first what would mend it.
std::vector<Proposal> Proposals(const RunOptions& options,
                                const RunResult& result, const RunInfo& info);

}  // namespace snf

#endif  // SNF_PLATFORM_REPORT_REPORT_ADVICE_H_
