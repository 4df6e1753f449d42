// SPDX-License-Identifier: Apache-2.0
#include "base/large_pages.h"

#include <sys/mman.h>

#include <cstdint>

namespace snf {

void AskForPages(Pages pages, void* table, size_t bytes) {
  constexpr uintptr_t kLarge = uintptr_t{2} << 20;
  if (pages == Pages::kSmall || bytes < kLarge) return;
  const auto address = reinterpret_cast<uintptr_t>(table);
  uintptr_t begin = (address + kLarge - 1) / kLarge * kLarge;
  if (pages == Pages::kGrowing) begin += kLarge;
  const uintptr_t end = (address + bytes) / kLarge * kLarge;
  if (begin >= end) return;
  // A failure means that there are no large pages; small ones serve as well.
  static_cast<void>(madvise(static_cast<std::byte*>(table) + (begin - address),
                            end - begin, MADV_HUGEPAGE));
}

void* MapZeroPages(size_t bytes) {
  void* const pages = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return pages == MAP_FAILED ? nullptr : pages;
}

void UnmapPages(void* pages, size_t bytes) { munmap(pages, bytes); }

}  // namespace snf
