// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_TRACES_BYTE_SOURCE_H_
#define SNF_TRACES_BYTE_SOURCE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "traces/compression.h"

namespace snf {

// The uncompressed bytes of a file as a window that moves forward: Require()
// widens it at its end, Consume() narrows it at its front.
//
// A plain regular file is mapped; the window is a few MiB of it, and the pages
// behind are given back. Anything else (pipes, gzip, zstd) goes through one
// buffer that grows to the largest Require() and is never cleared. So memory
// does not grow with the file. Owner-thread only.
class ByteSource {
 public:
  // Opens `path`, "-" being stdin, and recognises compression by its magic.
  // Errors: kNotFound, kPermissionDenied, kUnavailable (any other errno).
  static absl::StatusOr<std::unique_ptr<ByteSource>> Open(
      const std::string& path);

  virtual ~ByteSource() = default;
  ByteSource(const ByteSource&) = delete;
  ByteSource& operator=(const ByteSource&) = delete;

  // The window of unread bytes, which is valid until the next Require().
  const std::byte* data() const { return begin_; }
  size_t size() const { return static_cast<size_t>(end_ - begin_); }

  // Widens the window to at least `bytes` bytes, reading on if it is smaller.
  // Returns false if the stream ends before that or fails: see status() and
  // odd_end().
  bool Require(size_t bytes) { return bytes <= size() || Fill(bytes); }

  // Moves the front of the window over `bytes` ≤ size() bytes, which stay
  // readable until the next Require().
  void Consume(size_t bytes) {
    begin_ += bytes;
    offset_ += bytes;
  }

  // The number of uncompressed bytes that were consumed.
  uint64_t offset() const { return offset_; }
  // The name of the file in messages.
  const std::string& name() const { return name_; }

  // The reason why Require() failed, without file and offset: kDataLoss for
  // bad compressed data, else an error of I/O. OK if the stream just ended.
  const absl::Status& status() const { return status_; }
  // Says how the end of the compressed stream differs from a proper one; empty
  // if it does not.
  const std::string& odd_end() const { return odd_end_; }

  virtual Compression compression() const { return Compression::kNone; }
  virtual uint64_t input_bytes_read() const = 0;
  virtual uint64_t input_bytes_total() const = 0;  // 0 if unknown

 protected:
  explicit ByteSource(std::string name) : name_(std::move(name)) {}

  // Widens the window to at least `bytes`. Returns false as Require() does.
  virtual bool Fill(size_t bytes) = 0;

  const std::byte* begin_ = nullptr;
  const std::byte* end_ = nullptr;
  absl::Status status_;
  std::string odd_end_;

 private:
  uint64_t offset_ = 0;
  std::string name_;
};

}  // namespace snf

#endif  // SNF_TRACES_BYTE_SOURCE_H_
