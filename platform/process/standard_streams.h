// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_PROCESS_STANDARD_STREAMS_H_
#define SNF_PLATFORM_PROCESS_STANDARD_STREAMS_H_

#include "absl/status/status.h"

namespace snf {

// Writes the buffer of stdout to its file. Unavailable, with the system's
// reason, if any printed text could not be written, now or earlier. Drops such
// text, so that the next call tells only of later text.
absl::Status FlushStdout();

// Occupies the numbers of stdin, stdout and stderr if they are closed, so that
// no file or socket of the process gets such a number. Reading and writing them
// fails as before. Call OccupyStandardStreams before anything is opened.
void OccupyStandardStreams();

}  // namespace snf

#endif  // SNF_PLATFORM_PROCESS_STANDARD_STREAMS_H_
