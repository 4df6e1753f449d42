// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RESOURCE_MANAGER_LIVE_LEASE_WORDS_H_
#define SNF_RESOURCE_MANAGER_LIVE_LEASE_WORDS_H_

#include <cstddef>
#include <optional>
#include <variant>

#include "base/messages/lease_messages.h"
#include "base/messages/manager_commands.h"
#include "base/messages/manager_messages.h"
#include "base/time.h"
#include "proto/leases.pb.h"

// The messages about leases as they go between processes (proto/leases.proto).
// ReadWord refuses numbers that are out of range; the cores refuse messages
// that contradict others.
namespace snf {

// The longest name of a member, in bytes.
inline constexpr size_t kMostOfMemberName = 64;

// All leases of the member have ended: a resource manager took the member for
// dead.
struct LeasesEnded {};
// A message of a resource manager to a member.
using FromManager = std::variant<SetShare, AskReport, StopUnit, Grant, Revoke,
                                 Gone, NewManager, NewLife, LeasesEnded>;

// Returns a member's message as a word; none for a message that stays in its
// process.
std::optional<proto::ToManager> WordOf(const ToManager& message);
// Returns the message of the member of that id; none if the word is invalid, or
// a Hello.
std::optional<ToManager> ReadWord(const proto::ToManager& word,
                                  ControllerId sender);

// Returns a command to a member as a word.
proto::ToMember WordOf(Instant now, const ManagerCommand& command);
// Returns the message to the member of that id; none if the word is invalid, or
// for the link alone.
std::optional<FromManager> ReadWord(Instant now, const proto::ToMember& word,
                                    ControllerId receiver);

}  // namespace snf

#endif  // SNF_RESOURCE_MANAGER_LIVE_LEASE_WORDS_H_
