// SPDX-License-Identifier: Apache-2.0
#include "base/lazy_array.h"

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <limits>
#include <new>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include "gtest/gtest.h"

namespace snf {
namespace {

struct alignas(64) Line {
  uint64_t first;
};

TEST(LazyArray, BeginsWithZeroes) {
  const LazyArray<uint32_t> array(1'000);
  EXPECT_EQ(array.size(), 1'000u);
  EXPECT_TRUE(std::all_of(array.data(), array.data() + array.size(),
                          [](uint32_t n) { return n == 0; }));
}

TEST(LazyArray, AlignsToCacheLines) {
  for (size_t size = 1; size < 40; ++size) {
    const LazyArray<char> bytes(size);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(bytes.data()) % 64, 0u);
    LazyArray<Line> lines(size);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(&lines[size - 1]) % 64, 0u);
    lines[size - 1].first = ~uint64_t{0};
  }
}

TEST(LazyArray, CopiesEveryElementAndKeepsThemApart) {
  LazyArray<uint64_t> array(3);
  array[2] = 7;
  LazyArray<uint64_t> copy = array;
  EXPECT_EQ(copy[2], 7u);
  copy[2] = 8;
  EXPECT_EQ(array[2], 7u);
  array = copy;
  EXPECT_EQ(array[2], 8u);
  const LazyArray<uint64_t>& same = array;
  array = same;
  EXPECT_EQ(array[2], 8u);
}

TEST(LazyArray, MovesWithoutTouchingElements) {
  static_assert(std::is_nothrow_move_constructible_v<LazyArray<int>>);
  LazyArray<uint64_t> array(3);
  array[0] = 7;
  const uint64_t* before = array.data();
  LazyArray<uint64_t> taken = std::move(array);
  EXPECT_EQ(taken.data(), before);
  EXPECT_EQ(taken[0], 7u);
  LazyArray<uint64_t> assigned(9);
  assigned = std::move(taken);
  EXPECT_EQ(assigned.data(), before);
  EXPECT_EQ(assigned.size(), 3u);
}

TEST(LazyArray, MayBeEmpty) {
  LazyArray<uint64_t> none;
  EXPECT_EQ(none.size(), 0u);
  EXPECT_EQ(none.data(), nullptr);
  EXPECT_TRUE(none.span().empty());
  LazyArray<uint64_t> copy = none;
  EXPECT_EQ(copy.size(), 0u);
  copy = LazyArray<uint64_t>(2);
  EXPECT_EQ(copy.span().size(), 2u);
}

TEST(LazyArray, ThrowsWhereTheAddressSpaceDoesNotSuffice) {
  constexpr size_t kAll = std::numeric_limits<size_t>::max();
  EXPECT_THROW(LazyArray<uint64_t>(kAll / 8 + 1), std::bad_alloc);
  EXPECT_THROW(LazyArray<char>(kAll - 10), std::bad_alloc);
}

// Returns the system's flags of the memory at this address, in words of two
// letters.
std::string FlagsOfMemory(const void* at) {
  const auto address = reinterpret_cast<uintptr_t>(at);
  std::ifstream maps("/proc/self/smaps");
  bool is_there = false;
  for (std::string line; std::getline(maps, line);) {
    uintptr_t first = 0;
    uintptr_t end = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx ", &first, &end) == 2) {
      is_there = first <= address && address < end;
    } else if (is_there && line.starts_with("VmFlags:")) {
      return line;
    }
  }
  return "";
}

TEST(LazyArray, AsksForLargePagesWhereItIsTold) {
  if (access("/sys/kernel/mm/transparent_hugepage", F_OK) != 0) {
    GTEST_SKIP() << "this kernel has no large pages";
  }
  constexpr size_t kBytes = size_t{16} << 20;
  for (const Pages pages : {Pages::kSmall, Pages::kGrowing, Pages::kLarge}) {
    LazyArray<char> array(kBytes, pages);
    const auto is_large = [&array](size_t at) {
      const std::string flags = FlagsOfMemory(&array[at << 20]);
      EXPECT_NE(flags, "");
      return flags.find(" hg") != std::string::npos;
    };
    EXPECT_EQ(is_large(2), pages == Pages::kLarge);
    EXPECT_EQ(is_large(8), pages != Pages::kSmall);
    EXPECT_EQ(std::count(array.data(), array.data() + kBytes, 0), kBytes);
  }
  EXPECT_EQ(LazyArray<char>(10, Pages::kLarge)[9], 0);
}

#ifndef __SANITIZE_ADDRESS__  // which has an allocator of its own

// Returns the resident bytes of this process, or 0 if the system does not tell.
size_t ResidentBytes() {
  std::FILE* file = std::fopen("/proc/self/statm", "r");
  if (file == nullptr) return 0;
  size_t total = 0;
  size_t resident = 0;
  const int fields = std::fscanf(file, "%zu %zu", &total, &resident);
  std::fclose(file);
  return fields == 2 ? resident * static_cast<size_t>(getpagesize()) : 0;
}

TEST(LazyArray, CostsOnlyThePagesThatAreTouched) {
  constexpr size_t kBytes = size_t{1} << 30;
  const size_t before = ResidentBytes();
  ASSERT_GT(before, 0u) << "no /proc/self/statm";
  LazyArray<char> array(kBytes);
  EXPECT_LT(ResidentBytes(), before + (size_t{4} << 20));
  for (size_t i = 0; i < kBytes; i += kBytes / 16) array[i] = 1;
  EXPECT_LT(ResidentBytes(), before + (size_t{40} << 20));
}

// As run after run of one process makes them.
TEST(LazyArray, CostsOnlyThePagesThatAreTouchedWhereOthersWereBefore) {
  constexpr size_t kBytes = size_t{31} << 20;
  { const LazyArray<char> first(kBytes); }
  std::optional<LazyArray<char>> below(kBytes);
  const LazyArray<char> above(kBytes);
  below.reset();
  const size_t before = ResidentBytes();
  const LazyArray<char> array(kBytes);
  EXPECT_EQ(array[kBytes / 2], 0);
  EXPECT_LT(ResidentBytes(), before + (size_t{4} << 20));
}

#endif

}  // namespace
}  // namespace snf
