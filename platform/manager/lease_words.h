// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_MANAGER_LEASE_WORDS_H_
#define SNF_PLATFORM_MANAGER_LEASE_WORDS_H_

#include <optional>
#include <variant>

#include "base/messages/lease_messages.h"
#include "base/time.h"
#include "platform/real_cluster/lease_mail.h"
#include "proto/leases.pb.h"
#include "resource_manager/core/manager_commands.h"

// The messages about leases as they go between processes (proto/leases.proto).
// Those that come are others' words: numbers that a word cannot have are
// refused here, what is at odds with the rest by the cores.
namespace snf {

// Is what a resource manager says to a member.
using FromManager = std::variant<SetShare, AskReport, StopUnit, Grant, Revoke,
                                 Gone, NewManager, NewLife>;

// Returns what a member says; none for a message that stays in its process.
std::optional<proto::ToManager> WordOf(const ToManager& message);
// Returns what a member of that id has said; none if it cannot be, or is
// Hello.
std::optional<ToManager> ReadWord(const proto::ToManager& word,
                                  ControllerId sender);

// Returns what the resource manager says to a member.
proto::ToMember WordOf(Instant now, const ManagerCommand& command);
// Returns what a member of that id has been told; none if it cannot be, or is
// for the link alone.
std::optional<FromManager> ReadWord(Instant now, const proto::ToMember& word,
                                    ControllerId receiver);

}  // namespace snf

#endif  // SNF_PLATFORM_MANAGER_LEASE_WORDS_H_
