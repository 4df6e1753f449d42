// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_OUTCOME_NF_LOG_READER_H_
#define SNF_PLATFORM_OUTCOME_NF_LOG_READER_H_

#include <sys/types.h>

#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace snf {

// Theory of operation. Reads the logs that a daemon writes into a directory
// (NfLogFiles), also while it does: whole lines of all files, in the order of
// the times that they begin with. A line without a time goes with the line
// before it in its file.
//
// Files are opened by their names. If another file has a name, as after a
// rotation, the rest of the first one is read before the other one: the daemon
// writes nothing more into a file once it has opened the next. A file that had
// the name only between two calls of Next is not found. A file that gets
// shorter is read from its beginning, for it was emptied.
//
//   Worked example: nat.bindings.log has lines of 10:00:01 and 10:00:03, and
//   ids.alerts.log one of 10:00:02. Next returns the three in that order. Then
//   nat.bindings.log is renamed. The daemon still writes into it until it makes
//   a new nat.bindings.log: Next returns the lines of both.
//
// Owner-thread only.
class NfLogReader {
 public:
  static constexpr size_t kLongestLine = size_t{1} << 20;
  static constexpr size_t kMostReturned = size_t{256} << 10;

  // Reads the logs of these names, as "nat.bindings", or all if none is named.
  // Error: Unavailable, the directory cannot be read.
  static absl::StatusOr<NfLogReader> Open(std::string directory,
                                          std::vector<std::string> logs);
  NfLogReader(NfLogReader&&) = default;
  NfLogReader& operator=(NfLogReader&&) = default;

  // Returns some of the lines that were not returned yet, each with its end;
  // "" if there is none now. Fewer bytes than kMostReturned are all there are
  // now. Opens files that have come. A longer line than
  // kLongestLine comes in parts. Error: Unavailable, a file cannot be read.
  absl::StatusOr<std::string> Next();
  // Returns the names of the logs whose files were found so far.
  std::vector<std::string> found() const;

 private:
  struct File {
    File() = default;
    ~File();
    File(const File&) = delete;
    File& operator=(const File&) = delete;

    std::string path;
    int fd = -1;
    off_t read = 0;
    std::string pending{};  // was read, and not returned
    size_t begin = 0;       // of what is left of it
    size_t line = 0;        // bytes of the next line; 0: there is none
    std::string time{};     // of the next line
  };

  NfLogReader(std::string directory, std::vector<std::string> logs)
      : directory_(std::move(directory)), logs_(std::move(logs)) {}

  absl::Status FindFiles();
  static absl::Status OpenFile(File& file);
  // Finds the next line. Reads on, also in the next file, if there is none.
  static absl::Status FindLine(File& file);
  static bool SetLine(File& file, bool is_whole);
  static absl::StatusOr<size_t> Read(File& file);

  std::string directory_;
  std::vector<std::string> logs_;  // none: all
  std::map<std::string, File> files_;
};

}  // namespace snf

#endif  // SNF_PLATFORM_OUTCOME_NF_LOG_READER_H_
