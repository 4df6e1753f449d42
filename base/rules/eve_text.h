// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_BASE_RULES_EVE_TEXT_H_
#define SNF_BASE_RULES_EVE_TEXT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/packet/flow_key.h"

namespace snf {

// Parts of events in the form of EVE, JSON in lines (Suricata 7).

// An event about a packet.
struct EveEvent {
  std::string_view type;  // "alert"
  uint64_t time_ns = 0;
  uint64_t begin_ns = 0;  // of the packet's flow
  FlowKey ends;           // of the packet, as FiveTuple gives them
  // Type · 256 + code of an ICMP packet.
  std::optional<uint64_t> icmp = std::nullopt;
};

// Returns the beginning of an event, from "{" to its protocol. The flow_id is
// that of all events of the flow.
std::string EveBegin(const EveEvent& event);

// Returns a time as "2026-11-27T22:31:12.123456+0000".
std::string EveTime(uint64_t time_ns);

// Returns a text as a string of JSON. Bytes that are not ASCII are taken as
// Latin-1, so that any text gives valid JSON.
std::string EveQuoted(std::string_view text);

}  // namespace snf

#endif  // SNF_BASE_RULES_EVE_TEXT_H_
