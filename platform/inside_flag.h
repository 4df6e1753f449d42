// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_INSIDE_FLAG_H_
#define SNF_PLATFORM_INSIDE_FLAG_H_

#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "platform/far_side.h"

namespace snf {

// What --inside takes: address prefixes with commas between them, IPv4 and
// IPv6, as "10.0.0.0/8,2001:db8::/32"; an address without a length is one host.
// What cannot be read, or has bits behind its length, is InvalidArgument with
// that part of the text.
absl::StatusOr<std::vector<IpPrefix>> ParseInside(const std::string& text);

// The shortest text that ParseInside reads as these; "" for none.
std::string FormatInside(std::span<const IpPrefix> prefixes);

}  // namespace snf

#endif  // SNF_PLATFORM_INSIDE_FLAG_H_
