// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_BASE_DIFFERENCE_H_
#define SNF_BASE_DIFFERENCE_H_

#include <map>
#include <string>
#include <string_view>

namespace snf {

// Values by name, as of flags.
using NamedValues = std::map<std::string, std::string>;

// Names the values that differ, in the order of names: `--max_flows "1000", not
// "2000"; --nf nothing, not "nat"`. Each name follows `prefix`. Returns "" if
// all are equal.
std::string DifferenceOf(const NamedValues& was, const NamedValues& is,
                         std::string_view prefix = "");

}  // namespace snf

#endif  // SNF_BASE_DIFFERENCE_H_
