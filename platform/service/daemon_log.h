// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_SERVICE_DAEMON_LOG_H_
#define SNF_PLATFORM_SERVICE_DAEMON_LOG_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace snf {

// The log of a daemon: a line for each event of the daemon, none for packets or
// flows. Nothing is written before OpenLog. Thread-safe, except OpenLog.
enum class LogLevel : uint8_t { kDebug, kInfo, kWarning, kError };

struct LogOptions {
  std::string file;   // appended to; "-" is stderr
  bool json = false;  // each line is a JSON object
  LogLevel level = LogLevel::kInfo;
};

// Opens the log; a second call takes its place. Error: Unavailable, which names
// the file.
absl::Status OpenLog(const LogOptions& options);
// Opens the file of that name again, which may be another by now: lines go
// there. If it cannot be opened, they go on where they went, and a line says
// why. Does nothing for a log on stderr.
void ReopenLog();
// Writes a line, if the log's level is no higher than this one. A line that
// cannot be written is counted, and the log reports the count once it can be
// written again.
void LogLine(LogLevel level, std::string_view text);
void SetLogLevel(LogLevel level);

// The names of levels, and the reverse, which returns false for another text.
std::string_view Name(LogLevel level);
bool ParseLogLevel(std::string_view text, LogLevel& level);

}  // namespace snf

#endif  // SNF_PLATFORM_SERVICE_DAEMON_LOG_H_
