// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_DRIVERS_LOOPS_HOST_MAPPING_H_
#define SNF_PLATFORM_DRIVERS_LOOPS_HOST_MAPPING_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "absl/status/statusor.h"
#include "runtime/live/host_store.h"

namespace snf {

// Two descriptors of the memory of a host's records (HostStore), of which the
// second one may only be read. -1: no such memory.
struct HostDescriptors {
  int writable = -1;
  int readable = -1;
  bool empty() const { return writable < 0; }
};

// Returns a descriptor of the same memory that may only be read; the caller
// closes it. Errors: Unavailable, with the system's reason.
absl::StatusOr<int> OpenReadable(int fd);

// Says in the memory that the loop's process is on this host, until the object
// ends. The descriptor must outlive the object, and be writable; -1: none.
class HostPresence {
 public:
  HostPresence(const HostStore::Options& options, uint32_t loop, int writable);
  HostPresence(const HostPresence&) = delete;
  HostPresence& operator=(const HostPresence&) = delete;
  ~HostPresence();

  // Says once whether the loop's process is on this host.
  static void Set(const HostStore::Options& options, uint32_t loop,
                  int writable, bool is_here);

 private:
  const HostStore::Options options_;
  const uint32_t loop_;
  const int writable_;
};

// The memory of a host's records as a process of units maps it: the part of its
// own loop for writing, and all of it for reading. The process cannot make the
// second mapping writable, and has no descriptor of the memory afterwards. So
// the kernel ends a unit that writes into the part of another loop.
//
// A mapping can be moved but not copied.
class HostMapping {
 public:
  // Maps the memory, and closes both descriptors. Call it before any code of an
  // NF is loaded. Errors: Unavailable, with the system's reason.
  static absl::StatusOr<HostMapping> Map(const HostStore::Options& options,
                                         uint32_t loop,
                                         const HostDescriptors& descriptors);
  HostMapping(HostMapping&& other) noexcept;
  HostMapping& operator=(HostMapping&& other) = delete;
  ~HostMapping();

  std::span<std::byte> own() const { return own_; }
  std::span<const std::byte> all() const { return all_; }

 private:
  HostMapping(std::span<std::byte> own, std::span<std::byte> all)
      : own_(own), all_(all) {}

  std::span<std::byte> own_;
  std::span<std::byte> all_;  // for reading only
};

}  // namespace snf

#endif  // SNF_PLATFORM_DRIVERS_LOOPS_HOST_MAPPING_H_
