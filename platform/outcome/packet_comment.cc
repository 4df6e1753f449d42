// SPDX-License-Identifier: Apache-2.0
#include "platform/outcome/packet_comment.h"

#include <fmt/format.h>

namespace snf {

std::string_view CommentOf(const PacketRoute& route, std::string_view reason,
                           CommentRoom& room) {
  if (reason.empty() && route.unit == kNoUnit) return "passed_through";
  char* const begin = room.data();
  char* const end = begin + room.size();
  char* at = begin;
  const auto add = [&](std::string_view name, const auto& what) {
    at = fmt::format_to_n(at, end - at, "{}{}{}", at == begin ? "" : " ", name,
                          what)
             .out;
  };
  constexpr size_t kMostReason = 128;
  if (!reason.empty()) add("dropped=", reason.substr(0, kMostReason));
  if (route.unit != kNoUnit) add("unit=", value(route.unit));
  if (route.generated) {
    add("", "generated");
    return {begin, at};
  }
  if (route.flowlet > 0) {
    add("flowlet=", route.flowlet);
    add("clock=", value(route.clock));
  }
  add("latency_ns=", route.latency.ns);
  return {begin, at};
}

}  // namespace snf
