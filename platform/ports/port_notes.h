// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_PORTS_PORT_NOTES_H_
#define SNF_PLATFORM_PORTS_PORT_NOTES_H_

#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/byte_order.h"
#include "platform/ports/port_spec.h"

namespace snf {

// Returns a line for each outside port to which no answer for some of these
// addresses comes, which are external ones of a NAT: the port has the address
// itself, or the address is in the port's network. Either way the port answers
// for it only if proxy= says so. No line is of ports without addresses.
std::vector<std::string> NotesOnExternal(const std::vector<PortSpec>& ports,
                                         std::span<const be32> addresses);

// Returns a FailedPrecondition error, which names the port, if the kernel of
// this machine has an address of a port that routes: it would answer as well. A
// link-local address may be that of another link.
absl::Status CheckKernel(const PortSpec& port);

// Returns a line for each port that would not open on this machine as it is
// now: its interface is missing or down, its capture is missing, or the kernel
// has its address. Opens no port and wants no rights.
std::vector<std::string> NotesOnMachine(const std::vector<PortSpec>& ports);

}  // namespace snf

#endif  // SNF_PLATFORM_PORTS_PORT_NOTES_H_
