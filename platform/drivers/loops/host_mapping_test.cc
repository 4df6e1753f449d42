// SPDX-License-Identifier: Apache-2.0
#include "platform/drivers/loops/host_mapping.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <csignal>
#include <cstddef>
#include <utility>

#include "base/ids.h"
#include "gtest/gtest.h"
#include "runtime/ring/shared_region.h"
#include "runtime/ring/test_process.h"

namespace snf {
namespace {

constexpr HostStore::Options kOptions = {
    .max_units = 2, .loops = 2, .slots = 8, .record_bytes = 8};

class HostMappingTest : public ::testing::Test {
 protected:
  // As the process of a loop does; the descriptors are gone afterwards.
  HostMapping MapAs(uint32_t loop) {
    const int readable = OpenReadable(region_.fd()).value();
    auto mapping =
        HostMapping::Map(kOptions, loop,
                         {.writable = fcntl(region_.fd(), F_DUPFD_CLOEXEC, 0),
                          .readable = readable});
    EXPECT_TRUE(mapping.ok()) << mapping.status();
    return *std::move(mapping);
  }
  static std::byte& PartOf(const HostMapping& mapping, uint32_t loop) {
    // A hostile unit casts const away.
    return const_cast<std::byte&>(
        mapping.all()[loop * HostStore::PartBytes(kOptions)]);
  }

  SharedRegion region_ = MakeRegion(HostStore::BytesFor(kOptions));
};

TEST_F(HostMappingTest, WhatALoopWritesIsReadByAll) {
  const HostMapping first = MapAs(0);
  const HostMapping second = MapAs(1);
  first.own()[5] = std::byte{7};
  second.own()[5] = std::byte{8};
  for (const HostMapping* mapping : {&first, &second}) {
    EXPECT_EQ(mapping->all()[5], std::byte{7});
    EXPECT_EQ(mapping->all()[HostStore::PartBytes(kOptions) + 5], std::byte{8});
  }
}

TEST_F(HostMappingTest, AUnitThatWritesIntoAnotherPartIsEnded) {
  for (const uint32_t loop : {0u, 1u}) {
    Child child([&] {
      signal(SIGSEGV, SIG_DFL);  // a sanitizer would exit
      const HostMapping mapping = MapAs(0);
      mapping.own()[0] = std::byte{1};
      PartOf(mapping, loop) = std::byte{9};  // its own one as well
      return 0;
    });
    EXPECT_EQ(child.Join(), -1) << "not ended by a signal";
  }
  EXPECT_EQ(region_.bytes()[0], std::byte{1});
  EXPECT_EQ(region_.bytes()[HostStore::PartBytes(kOptions)], std::byte{0});
}

TEST_F(HostMappingTest, TheOtherPartsCannotBeMadeWritable) {
  const HostMapping mapping = MapAs(0);
  EXPECT_NE(mprotect(&PartOf(mapping, 1), HostStore::PartBytes(kOptions),
                     PROT_READ | PROT_WRITE),
            0);
}

TEST_F(HostMappingTest, NoUnitSaysWhichLoopsAreOnTheHost) {
  HostStore::Options spread = kOptions;
  spread.spread = true;
  const size_t at = HostStore::PresenceAt(spread, 1);
  {
    const HostPresence here(spread, 1, region_.fd());
    EXPECT_EQ(region_.bytes()[at], std::byte{1});
    EXPECT_EQ(region_.bytes()[at - 1], std::byte{0});
    Child child([&] {
      signal(SIGSEGV, SIG_DFL);
      const HostMapping mapping = MapAs(1);
      const_cast<std::byte&>(mapping.all()[at]) = std::byte{0};
      return 0;
    });
    EXPECT_EQ(child.Join(), -1) << "not ended by a signal";
    EXPECT_EQ(region_.bytes()[at], std::byte{1});
  }
  EXPECT_EQ(region_.bytes()[at], std::byte{0});
}

TEST_F(HostMappingTest, NoDescriptorIsLeft) {
  const int writable = fcntl(region_.fd(), F_DUPFD_CLOEXEC, 0);
  const int readable = OpenReadable(region_.fd()).value();
  const auto mapping = HostMapping::Map(
      kOptions, 0, {.writable = writable, .readable = readable});
  ASSERT_TRUE(mapping.ok());
  EXPECT_LT(fcntl(writable, F_GETFD), 0);
  EXPECT_LT(fcntl(readable, F_GETFD), 0);
}

TEST_F(HostMappingTest, RefusesWhatIsNoMemory) {
  const auto mapping =
      HostMapping::Map(kOptions, 0, {.writable = -1, .readable = -1});
  EXPECT_FALSE(mapping.ok());
}

}  // namespace
}  // namespace snf
