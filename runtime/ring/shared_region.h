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

// Memory that several processes map, each at an address of its own. So it
// contains no pointers: the objects in a region (SpscRing, Doorbell,
// BufferPool) are found by their offsets. It has no name in any file system,
// and disappears with the last process that maps it.
//
// Worked example, a region with one ring, between a controller and a unit:
//     controller                            unit
//     region = Create({.bytes = n})         region = Map(descriptor)
//     RegionCarver carver(region.bytes())   RegionCarver carver(region.bytes())
//     memory = carver.Take(m)               memory = carver.Take(m)
//     Ring::Format(memory, 1'024)
//     Ring::Producer::Attach(memory, …)     Ring::Consumer::Attach(memory)
// The unit gets the descriptor fd() by fork, or over a unix socket.
//
// The size is sealed: no process can shrink the memory and so kill another one
// (SIGBUS). All pages are allocated before Create and Map return, so that
// traffic never waits for one, and a lack of memory is an error of Create or
// Map; or as many as Options::in_advance says, of memory that is sized for a
// limit which hardly any run comes near.
//
// It can be moved but not copied. Thread-compatible; the objects inside have
// rules of their own.
class SharedRegion {
 public:
  struct Options {
    std::string name = "region";  // seen in /proc/*/maps
    size_t bytes = 0;             // > 0; rounded up to whole pages
    bool huge_pages = true;       // if the system has them
    // Bytes at the begin of the region whose pages are filled in advance; other
    // pages are filled on first use.
    size_t in_advance = kAll;
  };
  static constexpr size_t kAll = ~size_t{0};

  // Makes a zeroed region. Errors, with the size and the system's reason:
  // InvalidArgument for an impossible size, ResourceExhausted if there is not
  // enough memory, Unavailable if the system has no memfd or cannot fill it in
  // advance (Linux before 5.14).
  static absl::StatusOr<SharedRegion> Create(const Options& options);

  // Maps the region of a descriptor that another process made; its contents
  // stay as they are. The caller keeps the descriptor. Errors: InvalidArgument
  // if `fd` is not memory of sealed size, and the errors of Create.
  static absl::StatusOr<SharedRegion> Map(int fd, size_t in_advance = kAll);

  // Makes zeroed memory of that size, in whole pages, for processes that map it
  // (Map, or parts of it). Returns its descriptor, which the caller closes.
  // Errors: as Create, but nothing is filled.
  static absl::StatusOr<int> CreateUnmapped(const std::string& name,
                                            size_t bytes);

  SharedRegion(SharedRegion&& other) noexcept;
  SharedRegion& operator=(SharedRegion&& other) noexcept;
  ~SharedRegion();

  // The memory, aligned to a page. Valid as long as the region.
  std::span<std::byte> bytes() const { return bytes_; }
  // The descriptor to hand to another process; closed with the region, and by
  // exec.
  int fd() const { return fd_; }
  // The bytes of it that are in huge pages in this process: all, none (the
  // default of most systems), or those for which the kernel found room.
  size_t huge_bytes() const { return huge_bytes_; }

 private:
  explicit SharedRegion(int fd) : fd_(fd) {}
  absl::Status MapAndTouch(size_t bytes, bool huge_pages, size_t in_advance);

  int fd_ = -1;
  std::span<std::byte> bytes_;
  size_t huge_bytes_ = 0;
};

// Hands out a region part by part. The same calls in the same order give the
// same offsets in every process.
class RegionCarver {
 public:
  static constexpr size_t kAlignment = 128;  // two cache lines
  // Returns the bytes that a part of `bytes` bytes occupies.
  static constexpr size_t RoundUp(size_t bytes) {
    return (bytes + kAlignment - 1) / kAlignment * kAlignment;
  }

  explicit RegionCarver(std::span<std::byte> bytes) : left_(bytes) {}
  // Returns the next part, or an empty span if fewer than `bytes` bytes are
  // left.
  std::span<std::byte> Take(size_t bytes);

 private:
  std::span<std::byte> left_;
};

}  // namespace snf

#endif  // SNF_RUNTIME_RING_SHARED_REGION_H_
