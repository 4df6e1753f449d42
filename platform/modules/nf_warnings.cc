// SPDX-License-Identifier: Apache-2.0
#include "platform/modules/nf_warnings.h"

#include <fmt/format.h>

#include <memory>

#include "base/text/wording.h"
#include "runtime/sdk/nf.h"
#include "runtime/sdk/nf_call.h"

namespace snf {

std::vector<std::string> WarningsOf(const NfSpec& spec) {
  std::vector<std::string> warnings;
  const std::unique_ptr<NetworkFunction> chain = spec.create();
  for (const NetworkFunction::Part& part : chain->parts()) {
    std::vector<std::string> told;
    CallNf(*part.nf, NfCall::Hook::kWarnings, nullptr, kNoPacket,
           [&] { told = part.nf->warnings(); });
    for (const std::string& warning : told) {
      warnings.push_back(
          fmt::format("{}: {}", part.nf->name(), Printable(warning)));
    }
  }
  return warnings;
}

}  // namespace snf
