// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_PROCESS_STANDARD_STREAMS_H_
#define SNF_PLATFORM_PROCESS_STANDARD_STREAMS_H_

#include "absl/status/status.h"

namespace snf {

// Writes what was printed on stdout to its file. Unavailable, with the system's
// reason, if not all of it could be written, now or earlier; the rest is
// dropped, and the next call begins anew.
absl::Status FlushStdout();

// Opens each of stdin, stdout and stderr that is closed, so that no file or
// socket of the process gets its number. Reading it, or writing to it, fails as
// before. Call it before anything is opened.
void OccupyStandardStreams();

}  // namespace snf

#endif  // SNF_PLATFORM_PROCESS_STANDARD_STREAMS_H_
