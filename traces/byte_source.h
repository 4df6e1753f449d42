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

  // The unread bytes at hand, valid until the next Require().
  const std::byte* data() const { return begin_; }
  size_t size() const { return static_cast<size_t>(end_ - begin_); }

  // True when at least `bytes` unread bytes are at hand, reading on if need be;
  // false when the stream ends before, or failed: see status(), cut_short().
  bool Require(size_t bytes) { return bytes <= size() || Fill(bytes); }

  // Moves over `bytes` ≤ size() bytes. They stay readable until Require().
  void Consume(size_t bytes) {
    begin_ += bytes;
    offset_ += bytes;
  }

  // Uncompressed bytes consumed so far.
  uint64_t offset() const { return offset_; }
  // How messages name the file.
  const std::string& name() const { return name_; }

  // What made Require() fail, without file and offset: kDataLoss for bad
  // compressed data, else I/O. OK when the stream just ended.
  const absl::Status& status() const { return status_; }
  // How the compressed stream's end differs from a proper one; else empty.
  const std::string& odd_end() const { return odd_end_; }

  virtual Compression compression() const { return Compression::kNone; }
  virtual uint64_t input_bytes_read() const = 0;
  virtual uint64_t input_bytes_total() const = 0;  // 0 if unknown

 protected:
  explicit ByteSource(std::string name) : name_(std::move(name)) {}

  // Widens the window to at least `bytes`; false as in Require().
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
