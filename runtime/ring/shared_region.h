// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RUNTIME_RING_SHARED_REGION_H_
#define SNF_RUNTIME_RING_SHARED_REGION_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace snf {

// Memory that several processes map, each where its own address space has room.
// So nothing in it is a pointer: what lies in a region (SpscRing, Doorbell,
// BufferPool) is found by its offset. It has no name in any file system, and is
// gone when the last process that maps it is.
//
// Worked example, a region with one ring, between a controller and a unit:
//     controller                            unit
//     region = Create({.bytes = n})         region = Map(descriptor)
//     RegionCarver carver(region.bytes())   RegionCarver carver(region.bytes())
//     memory = carver.Take(m)               memory = carver.Take(m)
//     Ring::Format(memory, 1'024)
//     Ring::Producer::Attach(memory, …)     Ring::Consumer::Attach(memory)
// The descriptor fd() goes to the unit by fork, or over a unix socket.
//
// The size is sealed: no process can shrink the memory under another one, which
// would die of it (SIGBUS). All pages are there before Create and Map return,
// so that traffic never waits for one, and a lack of memory is an error then.
//
// Moves, does not copy. Thread-compatible; what lies inside has rules of its
// own.
class SharedRegion {
 public:
  struct Options {
    std::string name = "region";  // seen in /proc/*/maps
    size_t bytes = 0;             // > 0; rounded up to whole pages
    bool huge_pages = true;       // where the system gives them
  };

  // A new region, zeroed. Errors, with the size and the system's reason:
  // ResourceExhausted if there is not so much memory, Unavailable if the system
  // has no memfd or cannot fill it in advance (Linux before 5.14).
  static absl::StatusOr<SharedRegion> Create(const Options& options);

  // The region behind a descriptor that another process made; what it holds
  // stays as it is. The descriptor is not taken over. Errors: InvalidArgument
  // if it is no memory of sealed size, else as Create.
  static absl::StatusOr<SharedRegion> Map(int fd);

  SharedRegion(SharedRegion&& other) noexcept;
  SharedRegion& operator=(SharedRegion&& other) noexcept;
  ~SharedRegion();

  // Valid as long as the region. Aligned to a page.
  std::span<std::byte> bytes() const { return bytes_; }
  // To hand to another process; closed with the region, and by exec.
  int fd() const { return fd_; }
  // How much of it lies in huge pages here: all of it, nothing (the default of
  // most systems), or what the kernel found room for.
  size_t huge_bytes() const { return huge_bytes_; }

 private:
  explicit SharedRegion(int fd) : fd_(fd) {}
  absl::Status MapAndTouch(size_t bytes, bool huge_pages);

  int fd_ = -1;
  std::span<std::byte> bytes_;
  size_t huge_bytes_ = 0;
};

// Hands out a region piece by piece. The same takes in the same order give the
// same offsets in every process.
class RegionCarver {
 public:
  static constexpr size_t kAlignment = 128;  // two cache lines
  // What a piece of so many bytes takes up.
  static constexpr size_t RoundUp(size_t bytes) {
    return (bytes + kAlignment - 1) / kAlignment * kAlignment;
  }

  explicit RegionCarver(std::span<std::byte> bytes) : left_(bytes) {}
  // The next piece; empty if so much is not left.
  std::span<std::byte> Take(size_t bytes);

 private:
  std::span<std::byte> left_;
};

}  // namespace snf

#endif  // SNF_RUNTIME_RING_SHARED_REGION_H_
