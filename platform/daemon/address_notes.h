// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_DAEMON_ADDRESS_NOTES_H_
#define SNF_PLATFORM_DAEMON_ADDRESS_NOTES_H_

#include <string>
#include <vector>

#include "platform/options/run_request.h"

namespace snf {

// Returns what NotesOnExternal says of the ports and the external addresses of
// all chains. The NFs must be good; it makes them if ports have addresses.
std::vector<std::string> AddressNotes(const RunRequest& options);

}  // namespace snf

#endif  // SNF_PLATFORM_DAEMON_ADDRESS_NOTES_H_
