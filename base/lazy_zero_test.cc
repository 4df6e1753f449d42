// SPDX-License-Identifier: Apache-2.0
#include "base/lazy_zero.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

namespace snf {
namespace {

TEST(LazyZero, ZeroesAnyBytes) {
  for (const size_t size : {0u, 1u, 1'023u, 1'024u, 1'025u, 5'000u}) {
    for (size_t at = 0; at < size; at += 97) {
      std::vector<std::byte> bytes(size + 1, std::byte{0});
      bytes[at] = bytes[size] = std::byte{7};
      ZeroLazily(std::span(bytes).first(size));
      EXPECT_EQ(bytes[at], std::byte{0}) << size << " " << at;
      EXPECT_EQ(bytes[size], std::byte{7});
    }
  }
}

// Returns the number of pages in memory.
size_t ResidentPages() {
  std::ifstream file("/proc/self/statm");
  size_t size = 0, resident = 0;
  file >> size >> resident;
  return resident;
}

TEST(LazyZero, GivesNoMemoryToPagesWithoutAWrite) {
  constexpr size_t kBytes = 64u << 20;
  void* const pages = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(pages, MAP_FAILED);
  madvise(pages, kBytes, MADV_NOHUGEPAGE);
  const std::span bytes(static_cast<std::byte*>(pages), kBytes);
  const size_t before = ResidentPages();
  ZeroLazily(bytes);
  EXPECT_LT(ResidentPages(), before + kBytes / 4'096 / 8);
  bytes[0] = bytes[kBytes / 2] = std::byte{1};
  ZeroLazily(bytes);
  EXPECT_EQ(bytes[kBytes / 2], std::byte{0});
  EXPECT_LT(ResidentPages(), before + kBytes / 4'096 / 8);
  munmap(pages, kBytes);
}

}  // namespace
}  // namespace snf
