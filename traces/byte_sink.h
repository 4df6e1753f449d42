// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_TRACES_BYTE_SINK_H_
#define SNF_TRACES_BYTE_SINK_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "traces/compression.h"

namespace snf {

// Writes a file that gets its name only when it is complete; .gz and .zst
// compress. The bytes go to PATH.partial, which Close() renames and the
// destructor removes. "-" (stdout) and existing files that are not regular are
// written directly. Owner-thread only.
class ByteSink {
 public:
  // Opens the file for writing. Errors: kNotFound, kPermissionDenied,
  // kUnavailable (any other errno).
  static absl::StatusOr<std::unique_ptr<ByteSink>> Open(
      const std::string& path);

  ~ByteSink();
  ByteSink(const ByteSink&) = delete;
  ByteSink& operator=(const ByteSink&) = delete;

  // Appends `bytes`, in most cases to a buffer only. If the file fails,
  // status() says so, and nothing more is written.
  void Append(std::span<const std::byte> bytes);

  // Returns OK, or the first failure with its path and cause.
  const absl::Status& status() const { return status_; }

  // Writes the rest of the buffer, ends the compression and gives the file its
  // name. Returns the errors of status(). Call it once, and no Append() after
  // it.
  absl::Status Close();

  // Removes the unfinished files of all sinks, for a process that will end
  // without their destructors. While the lock that is returned lives, no sink
  // of a regular file is opened, closed or destroyed. Thread-safe.
  [[nodiscard]] static std::unique_lock<std::mutex> RemovePartialFiles();

 private:
  ByteSink(std::string path, std::string partial_path, int fd);

  // Sends the buffer on to the file, through the compressor if there is one.
  bool Flush(bool finish);
  bool WriteToFile(std::span<const std::byte> bytes);
  bool Fail(const char* what, int error_number);

  std::string path_;
  std::string partial_path_;  // empty: written directly, or already renamed
  int fd_;
  std::unique_ptr<Compressor> compressor_;  // null: not compressed
  std::unique_ptr<std::byte[]> buffer_;
  size_t buffered_bytes_ = 0;
  std::unique_ptr<std::byte[]> compressed_;
  absl::Status status_;
};

// Writes a whole file by a ByteSink, so that a part of it is never visible.
// Errors are those of ByteSink and name the path and the reason.
absl::Status WriteFile(const std::string& path, std::string_view bytes);

}  // namespace snf

#endif  // SNF_TRACES_BYTE_SINK_H_
