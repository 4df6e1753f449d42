// SPDX-License-Identifier: Apache-2.0
#include "runtime/ring/shared_region.h"

#include <fcntl.h>
#include <linux/memfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <limits>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/text_file.h"

namespace snf {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;
constexpr int kSizeSeals = F_SEAL_SHRINK | F_SEAL_GROW;

absl::Status Error(std::string_view what, size_t bytes) {
  const int error = errno;
  const std::string text =
      absl::StrCat("shared region of ", bytes,
                   " bytes: ", absl::string_view(what.data(), what.size()),
                   ": ", std::strerror(error));
  const bool no_memory = error == ENOMEM || error == ENOSPC || error == EFBIG ||
                         error == EMFILE || error == ENFILE;
  return no_memory ? absl::ResourceExhaustedError(text)
                   : absl::UnavailableError(text);
}

// Returns the descriptor of zeroed memory whose size is sealed.
absl::StatusOr<int> MakeSealed(const std::string& name, size_t bytes,
                               unsigned flags) {
  const int fd =
      memfd_create(name.c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING | flags);
  if (fd < 0) return Error("memfd_create", bytes);
  const char* failed = nullptr;
  if (ftruncate(fd, static_cast<off_t>(bytes)) != 0) {
    failed = "ftruncate";
  } else if (fcntl(fd, F_ADD_SEALS, kSizeSeals | F_SEAL_SEAL) != 0) {
    failed = "sealing its size";
  }
  if (failed == nullptr) return fd;
  absl::Status status = Error(failed, bytes);
  close(fd);
  return status;
}

bool IsPossible(size_t bytes) {
  return bytes > 0 && bytes <= std::numeric_limits<off_t>::max() - kHugePage;
}

absl::Status Impossible(size_t bytes) {
  return absl::InvalidArgumentError(
      absl::StrCat("shared region of ", bytes, " bytes"));
}

// Returns, in bytes, the figure of the line "key:   figure kB" in a file of
// /proc, the first one from the line on that begins with `after`; 0 if there is
// none.
size_t ProcBytes(const char* path, std::string_view after,
                 std::string_view key) {
  constexpr size_t kMostBytes = size_t{64} << 20;
  const auto text = ReadTextFile(path, kMostBytes);
  if (!text.ok()) return 0;
  bool is_reached = after.empty();
  for (std::string_view rest = *text; !rest.empty();) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    is_reached = is_reached || line.starts_with(after);
    if (!is_reached || !line.starts_with(key)) continue;
    const size_t digit = line.find_first_of("0123456789", key.size());
    size_t kib = 0;
    if (digit != std::string_view::npos) {
      std::from_chars(&line[digit], line.data() + line.size(), kib);
    }
    return kib * 1024;
  }
  return 0;
}

// Returns how many bytes of a mapping of this process are in huge pages.
size_t HugeBytes(std::span<const std::byte> mapping) {
  const std::string begin =
      absl::StrCat(absl::Hex(reinterpret_cast<uintptr_t>(mapping.data())), "-");
  const auto bytes = [&](std::string_view key) {
    return ProcBytes("/proc/self/smaps", begin, key);
  };
  return bytes("KernelPageSize:") >= kHugePage ? mapping.size()
                                               : bytes("ShmemPmdMapped:");
}

// Refuses a size for which the machine has no memory. The kernel would give
// pages one by one until it has to kill a process.
absl::Status CheckMemory(size_t bytes) {
  const size_t available = ProcBytes("/proc/meminfo", "", "MemAvailable:");
  if (available == 0 || bytes <= available) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("shared region of ", bytes, " bytes: the machine has ",
                   available, " bytes of memory available"));
}

}  // namespace

absl::StatusOr<SharedRegion> SharedRegion::Create(const Options& options) {
  if (!IsPossible(options.bytes)) return Impossible(options.bytes);
  const auto create = [&](unsigned flags,
                          size_t page) -> absl::StatusOr<SharedRegion> {
    const size_t bytes = (options.bytes + page - 1) / page * page;
    const auto fd = MakeSealed(options.name, bytes, flags);
    if (!fd.ok()) return fd.status();
    SharedRegion region(*fd);
    const absl::Status status =
        region.MapAndTouch(bytes, options.huge_pages, options.in_advance);
    if (!status.ok()) return status;
    return region;
  };
  // Try the huge pages that an administrator has set aside first, then ordinary
  // pages, of which the kernel may make huge ones.
  if (options.huge_pages && options.bytes >= kHugePage &&
      options.in_advance >= options.bytes) {
    auto region = create(MFD_HUGETLB | MFD_HUGE_2MB, kHugePage);
    if (region.ok()) return region;
  }
  const absl::Status status =
      CheckMemory(std::min(options.bytes, options.in_advance));
  if (!status.ok()) return status;
  return create(0, static_cast<size_t>(sysconf(_SC_PAGESIZE)));
}

absl::StatusOr<int> SharedRegion::CreateUnmapped(const std::string& name,
                                                 size_t bytes) {
  if (!IsPossible(bytes)) return Impossible(bytes);
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return MakeSealed(name, (bytes + page - 1) / page * page, 0);
}

absl::StatusOr<SharedRegion> SharedRegion::Map(int fd, size_t in_advance) {
  const int seals = fcntl(fd, F_GET_SEALS);
  struct stat facts {};
  if (seals < 0 || (seals & kSizeSeals) != kSizeSeals ||
      fstat(fd, &facts) != 0 || facts.st_size <= 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "shared region: descriptor ", fd, " is no memory of sealed size"));
  }
  const auto bytes = static_cast<size_t>(facts.st_size);
  SharedRegion region(fcntl(fd, F_DUPFD_CLOEXEC, 0));
  if (region.fd_ < 0) return Error("dup", bytes);
  const absl::Status status =
      region.MapAndTouch(bytes, /*huge_pages=*/true, in_advance);
  if (!status.ok()) return status;
  return region;
}

absl::Status SharedRegion::MapAndTouch(size_t bytes, bool huge_pages,
                                       size_t in_advance) {
  void* const address =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd_, 0);
  if (address == MAP_FAILED) return Error("mmap", bytes);
  bytes_ = {static_cast<std::byte*>(address), bytes};
  if (huge_pages) madvise(address, bytes, MADV_HUGEPAGE);  // if it can
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const size_t first = std::min(in_advance, bytes);
  if (madvise(address, (first + page - 1) / page * page, MADV_POPULATE_WRITE) !=
      0) {
    return Error("filling it with pages", bytes);
  }
  huge_bytes_ = HugeBytes(bytes_);
  return absl::OkStatus();
}

SharedRegion::SharedRegion(SharedRegion&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)),
      bytes_(std::exchange(other.bytes_, {})),
      huge_bytes_(other.huge_bytes_) {}

SharedRegion& SharedRegion::operator=(SharedRegion&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(bytes_, other.bytes_);
  std::swap(huge_bytes_, other.huge_bytes_);
  return *this;
}

SharedRegion::~SharedRegion() {
  if (!bytes_.empty()) munmap(bytes_.data(), bytes_.size());
  if (fd_ >= 0) close(fd_);
}

std::span<std::byte> RegionCarver::Take(size_t bytes) {
  if (bytes > left_.size()) return {};
  const std::span<std::byte> taken = left_.first(bytes);
  left_ = left_.subspan(std::min(RoundUp(bytes), left_.size()));
  return taken;
}

}  // namespace snf
