// SPDX-License-Identifier: Apache-2.0
#include "platform/drivers/loops/host_mapping.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace snf {
namespace {

absl::Status Error(const char* what) {
  return absl::UnavailableError(fmt::format("the records of the host: {}: {}",
                                            what, std::strerror(errno)));
}

std::span<std::byte> MapPart(int fd, int rights, size_t at, size_t bytes) {
  void* const address =
      mmap(nullptr, bytes, rights, MAP_SHARED, fd, static_cast<off_t>(at));
  if (address == MAP_FAILED) return {};
  return {static_cast<std::byte*>(address), bytes};
}

}  // namespace

absl::StatusOr<int> OpenReadable(int fd) {
  const int readable =
      open(fmt::format("/proc/self/fd/{}", fd).c_str(), O_RDONLY | O_CLOEXEC);
  if (readable < 0) return Error("open for reading");
  return readable;
}

HostPresence::HostPresence(const HostStore::Options& options, uint32_t loop,
                           int writable)
    : options_(options), loop_(loop), writable_(writable) {
  Set(options_, loop_, writable_, true);
}

HostPresence::~HostPresence() { Set(options_, loop_, writable_, false); }

// Maps nothing, so that no unit inherits a mapping. A failure lets states be
// pulled.
void HostPresence::Set(const HostStore::Options& options, uint32_t loop,
                       int writable, bool is_here) {
  if (writable < 0 || !options.spread) return;
  const char byte = is_here ? 1 : 0;
  [[maybe_unused]] const ssize_t written =
      pwrite(writable, &byte, sizeof(byte),
             static_cast<off_t>(HostStore::PresenceAt(options, loop)));
}

absl::StatusOr<HostMapping> HostMapping::Map(
    const HostStore::Options& options, uint32_t loop,
    const HostDescriptors& descriptors) {
  const size_t part = HostStore::PartBytes(options);
  HostMapping mapping(
      MapPart(descriptors.writable, PROT_READ | PROT_WRITE, loop * part, part),
      MapPart(descriptors.readable, PROT_READ, 0,
              HostStore::BytesFor(options)));
  if (mapping.own_.empty() || mapping.all_.empty()) return Error("mmap");
  close(descriptors.writable);
  close(descriptors.readable);
  return mapping;
}

HostMapping::HostMapping(HostMapping&& other) noexcept
    : own_(std::exchange(other.own_, {})),
      all_(std::exchange(other.all_, {})) {}

HostMapping::~HostMapping() {
  if (!own_.empty()) munmap(own_.data(), own_.size());
  if (!all_.empty()) munmap(all_.data(), all_.size());
}

}  // namespace snf
