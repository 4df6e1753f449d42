// SPDX-License-Identifier: Apache-2.0
#include "base/messages/command_buffer.h"

#include <cstdint>
#include <type_traits>

#include "gtest/gtest.h"

namespace snf {
namespace {

struct Command {
  uint64_t number = 1;
  uint8_t kind = 2;
};
using Buffer = CommandBuffer<Command, 4>;

TEST(CommandBuffer, GivesBackWhatWasPushedInOrder) {
  Buffer out;
  EXPECT_TRUE(out.empty());
  EXPECT_TRUE(out.commands().empty());
  EXPECT_EQ(out.room(), 4u);
  for (uint64_t n = 0; n < 4; ++n) out.push({.number = n, .kind = 9});
  EXPECT_EQ(out.room(), 0u);
  ASSERT_EQ(out.commands().size(), 4u);
  for (uint64_t n = 0; n < 4; ++n) {
    EXPECT_EQ(out.commands()[n].number, n);
    EXPECT_EQ(out.commands()[n].kind, 9);
  }
}

TEST(CommandBuffer, IsFilledAgainAfterClear) {
  Buffer out;
  for (uint64_t n = 0; n < 4; ++n) out.push({.number = n});
  out.clear();
  EXPECT_TRUE(out.empty());
  EXPECT_EQ(out.room(), 4u);
  out.push({.number = 7});
  ASSERT_EQ(out.commands().size(), 1u);
  EXPECT_EQ(out.commands()[0].number, 7u);
}

TEST(CommandBuffer, AbortsOnOneTooMany) {
  Buffer out;
  for (uint64_t n = 0; n < 4; ++n) out.push({});
  EXPECT_DEATH(out.push({}), "check failed");
}

TEST(CommandBuffer, IsAValueWithAlignedCommands) {
  static_assert(std::is_trivially_copyable_v<Buffer>);
  Buffer out;
  out.push({.number = 5});
  const Buffer copy = out;
  out.clear();
  ASSERT_EQ(copy.commands().size(), 1u);
  EXPECT_EQ(copy.commands()[0].number, 5u);
  EXPECT_EQ(
      reinterpret_cast<uintptr_t>(copy.commands().data()) % alignof(Command),
      0u);
}

}  // namespace
}  // namespace snf
