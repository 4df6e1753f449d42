// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_DRIVERS_REAL_TIME_HOST_UNITS_H_
#define SNF_PLATFORM_DRIVERS_REAL_TIME_HOST_UNITS_H_

#include <cstddef>
#include <span>

#include "platform/drivers/real_time/unit_process.h"
#include "platform/service/tls_files.h"

namespace snf {

// Counts the loops of which the last ones may be on other hosts: the loops of
// spare units are on this host, since spare units only replace failed ones.
uint32_t PlacedLoops(uint32_t loops, uint32_t max_units);

// Is the process of the loop of units `setup.loop.index`, which runs on another
// host (HomeSide), in place of a process of this host. `nf` has the bytes
// of a LaunchedNf. Returns the exit code if the host starts nothing;
// else ends as the process there does.
int RunUnitsOnHost(const UnitProcessSetup& setup, std::span<const std::byte> nf,
                   int region, int socket);

// Serves a daemon that has connected to this host's agent: starts a process of
// units as RunUnitsOnHost asks, and returns the exit code once it has ended. In
// a process of its own with one thread. With `files` the connection is
// encrypted; else the pointer is null.
int ServeHostSession(int socket, const TlsFiles* files);

}  // namespace snf

#endif  // SNF_PLATFORM_DRIVERS_REAL_TIME_HOST_UNITS_H_
