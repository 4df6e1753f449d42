// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_DRIVERS_REAL_CLUSTER_LEASE_MAIL_H_
#define SNF_PLATFORM_DRIVERS_REAL_CLUSTER_LEASE_MAIL_H_

#include <variant>

#include "base/messages/lease_messages.h"
#include "base/messages/manager_commands.h"
#include "base/messages/manager_messages.h"
#include "runtime/ring/mail.h"

// The mailboxes by which the threads of a run in real time send each other
// messages about leases.
namespace snf {

using ManagerMail = Mail<ToManager>;
using ControllerMail = Mail<ToController>;

// The controller has failed: its successor asks for its leases. The mail for
// the answer must outlive it.
struct AskLeases {
  ControllerId controller;
  ControllerMail* answer_to;
};
using ToUnit =
    std::variant<SetShare, StartUnit, StopUnit, AskReport, AskLeases>;
using UnitMail = Mail<ToUnit>;

}  // namespace snf

#endif  // SNF_PLATFORM_DRIVERS_REAL_CLUSTER_LEASE_MAIL_H_
