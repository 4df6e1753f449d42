// SPDX-License-Identifier: Apache-2.0
#include "runtime/ring/shared_region.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstring>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/ring/test_process.h"

namespace snf {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

TEST(SharedRegion, IsZeroedAndHasWholePages) {
  const SharedRegion region = MakeRegion(5'000);
  EXPECT_GE(region.bytes().size(), 5'000u);
  EXPECT_EQ(region.bytes().size() % 4'096, 0u);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(region.bytes().data()) % 4'096, 0u);
  EXPECT_THAT(region.bytes(), Each(std::byte{0}));
}

TEST(SharedRegion, SaysHowMuchOfItLiesInHugePages) {
  const auto region = SharedRegion::Create({.bytes = size_t{4} << 20});
  ASSERT_TRUE(region.ok()) << region.status();
  EXPECT_LE(region->huge_bytes(), region->bytes().size());
  EXPECT_EQ(region->huge_bytes() % (size_t{2} << 20), 0u);
  const auto small =
      SharedRegion::Create({.bytes = size_t{4} << 20, .huge_pages = false});
  ASSERT_TRUE(small.ok()) << small.status();
  RecordProperty("huge_bytes", std::to_string(region->huge_bytes()));
}

// Not instrumented, so that a sanitizer's own memory is not counted.
__attribute__((no_sanitize("address", "thread"))) void TouchEachPage(
    std::byte* bytes, size_t size) {
  for (size_t i = 0; i < size; i += 4'096) bytes[i] = std::byte{1};
}

TEST(SharedRegion, HasAllItsPagesBeforeAnybodyTouchesIt) {
  const SharedRegion region = MakeRegion(size_t{8} << 20);
  struct rusage before {};
  getrusage(RUSAGE_SELF, &before);
  TouchEachPage(region.bytes().data(), region.bytes().size());
  struct rusage after {};
  getrusage(RUSAGE_SELF, &after);
  EXPECT_LE(after.ru_minflt - before.ru_minflt, 8);
}

TEST(SharedRegion, HasAsManyPagesInAdvanceAsItWasAskedFor) {
  constexpr size_t kInAdvance = size_t{1} << 20;
  const auto region = SharedRegion::Create({.name = "test",
                                            .bytes = size_t{8} << 20,
                                            .huge_pages = false,
                                            .in_advance = kInAdvance});
  ASSERT_TRUE(region.ok()) << region.status();
  const auto faults = [&](size_t at, size_t bytes) {
    struct rusage before {};
    getrusage(RUSAGE_SELF, &before);
    TouchEachPage(&region->bytes()[at], bytes);
    struct rusage after {};
    getrusage(RUSAGE_SELF, &after);
    return after.ru_minflt - before.ru_minflt;
  };
  EXPECT_LE(faults(0, kInAdvance), 8);
  EXPECT_GT(faults(kInAdvance, size_t{7} << 20), 8);
  const auto again = SharedRegion::Map(region->fd(), 1);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->bytes().back(), region->bytes().back());
}

TEST(SharedRegion, IsTheSameMemoryWhereverItIsMapped) {
  SharedRegion region = MakeRegion(8'192);
  const auto again = SharedRegion::Map(region.fd());
  ASSERT_TRUE(again.ok()) << again.status();
  ASSERT_NE(again->bytes().data(), region.bytes().data());
  ASSERT_EQ(again->bytes().size(), region.bytes().size());
  region.bytes()[8'191] = std::byte{7};
  EXPECT_EQ(again->bytes()[8'191], std::byte{7});
  const SharedRegion moved = std::move(region);
  EXPECT_EQ(moved.bytes()[8'191], std::byte{7});
  region = MakeRegion(4'096);
  EXPECT_EQ(moved.bytes()[8'191], std::byte{7});
}

TEST(SharedRegion, KeepsItsSizeWhateverAnotherProcessDoes) {
  const SharedRegion region = MakeRegion(8'192);
  EXPECT_NE(ftruncate(region.fd(), 4'096), 0);
  EXPECT_NE(ftruncate(region.fd(), 16'384), 0);
  EXPECT_NE(fcntl(region.fd(), F_ADD_SEALS, F_SEAL_FUTURE_WRITE), 0);
  region.bytes()[8'191] = std::byte{7};
}

TEST(SharedRegion, IsNotMadeOfWhatCouldShrink) {
  const int loose = memfd_create("loose", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  ASSERT_EQ(ftruncate(loose, 4'096), 0);
  for (const int fd : {loose, STDIN_FILENO, -1}) {
    const auto region = SharedRegion::Map(fd);
    ASSERT_FALSE(region.ok());
    EXPECT_EQ(region.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(region.status().ToString(), HasSubstr(std::to_string(fd)));
  }
  close(loose);
}

TEST(SharedRegion, IsRefusedWhereThereIsNotSoMuchMemory) {
  for (const size_t bytes : {size_t{1} << 45, ~size_t{0} >> 1, ~size_t{0}}) {
    const auto region = SharedRegion::Create({.bytes = bytes});
    ASSERT_FALSE(region.ok());
    EXPECT_THAT(region.status().ToString(), HasSubstr(std::to_string(bytes)));
  }
  EXPECT_FALSE(SharedRegion::Create({.bytes = 0}).ok());
}

// The system's own text is in the error.
TEST(SharedRegion, SaysWhyTheSystemRefusesIt) {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  const rlimit none = {.rlim_cur = 0, .rlim_max = limit.rlim_max};
  setrlimit(RLIMIT_NOFILE, &none);
  const auto region = SharedRegion::Create({.bytes = 4'096});
  setrlimit(RLIMIT_NOFILE, &limit);
  ASSERT_FALSE(region.ok());
  EXPECT_EQ(region.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(region.status().ToString(),
              HasSubstr("4096 bytes: memfd_create: Too many open files"));
}

TEST(RegionCarver, GivesTheSamePlacesInEveryProcess) {
  const SharedRegion region = MakeRegion(4'096);
  const auto again = SharedRegion::Map(region.fd());
  ASSERT_TRUE(again.ok());
  RegionCarver here(region.bytes());
  RegionCarver there(again->bytes());
  size_t end = 0;
  for (const size_t bytes : {1, 128, 129, 1'000}) {
    const std::span<std::byte> mine = here.Take(bytes);
    const std::span<std::byte> its = there.Take(bytes);
    const auto offset =
        static_cast<size_t>(mine.data() - region.bytes().data());
    EXPECT_EQ(its.data() - again->bytes().data(),
              mine.data() - region.bytes().data());
    EXPECT_EQ(mine.size(), bytes);
    EXPECT_EQ(offset, end);
    end += RegionCarver::RoundUp(bytes);
  }
  EXPECT_TRUE(here.Take(4'096).empty());
  EXPECT_EQ(here.Take(4'096 - end).size(), 4'096 - end);
  EXPECT_TRUE(here.Take(1).empty());
}

}  // namespace
}  // namespace snf
