// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_MODULES_NF_WARNINGS_H_
#define SNF_PLATFORM_MODULES_NF_WARNINGS_H_

#include <string>
#include <vector>

#include "runtime/sdk/nf_spec.h"

namespace snf {

// Returns a printable line for each warning of an NF of the chain, such as
// "firewall: fw.txt:3: no packet comes to this rule". Makes the NFs;
// NfSpec::check must be OK.
std::vector<std::string> WarningsOf(const NfSpec& spec);

}  // namespace snf

#endif  // SNF_PLATFORM_MODULES_NF_WARNINGS_H_
