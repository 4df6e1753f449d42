// SPDX-License-Identifier: Apache-2.0
#include "platform/process/child_program.h"

#include <atomic>
#include <chrono>
#include <string>
#include <thread>

#include "gtest/gtest.h"

namespace snf {
namespace {

TEST(ChildProgram, ReturnsWhatAProgramMakesOfItsInput) {
  const std::string long_input(1 << 20, 'x');
  const auto output = RunChildProgram({.words = {"cat"}, .input = long_input});
  ASSERT_TRUE(output.ok()) << output.status();
  EXPECT_EQ(*output, long_input);
}

TEST(ChildProgram, PassesWordsAsTheyAre) {
  const auto output =
      RunChildProgram({.words = {"printf", "%s,", "a b", "$(c)"}});
  ASSERT_TRUE(output.ok()) << output.status();
  EXPECT_EQ(*output, "a b,$(c),");
}

TEST(ChildProgram, TellsWhyAProgramFailed) {
  ChildProgram program = {
      .words = {"sh", "-c", "echo one >&2; echo two >&2; exit 3"}};
  auto status = RunChildProgram(program).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_EQ(status.message(), "sh: two");
  program.tells_first = true;
  EXPECT_EQ(RunChildProgram(program).status().message(), "sh: one");
}

TEST(ChildProgram, TellsHowAProgramEndedThatSaysNothing) {
  EXPECT_EQ(
      RunChildProgram({.words = {"sh", "-c", "kill -9 $$"}}).status().message(),
      "sh was killed by signal 9");
  EXPECT_EQ(
      RunChildProgram({.words = {"sh", "-c", "exit 3"}}).status().message(),
      "sh ended with exit code 3");
}

// Ignores what can be ignored, and so does its own child, which has its pipes.
const std::vector<std::string> kStubborn = {
    "sh", "-c", "trap '' ALRM TERM INT HUP; while :; do sleep 1; done"};

TEST(ChildProgram, KillsAProgramThatDoesNotEndInTime) {
  const auto begin = std::chrono::steady_clock::now();
  const auto status =
      RunChildProgram(
          {.words = kStubborn, .patience = std::chrono::milliseconds(100)})
          .status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(status.message(), "sh was killed: it did not end within 0.1 s");
  EXPECT_GE(std::chrono::steady_clock::now() - begin,
            std::chrono::milliseconds(100));
}

TEST(ChildProgram, KillsAProgramThatIsToStop) {
  std::atomic<bool> stop = false;
  std::thread other([&stop] { stop = true; });
  const auto status = RunChildProgram({.words = kStubborn,
                                       .patience = std::chrono::hours(1),
                                       .stop = &stop})
                          .status();
  other.join();
  EXPECT_EQ(status.code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(status.message(), "sh was stopped");
}

TEST(ChildProgram, AwaitsAProgramThatEndsInTime) {
  ChildProgram program = {
      .words = {"cat"}, .input = "text", .patience = std::chrono::hours(1)};
  const auto output = RunChildProgram(program);
  ASSERT_TRUE(output.ok()) << output.status();
  EXPECT_EQ(*output, "text");
  program.words = {"sh", "-c", "echo why >&2; exit 3"};
  EXPECT_EQ(RunChildProgram(program).status().message(), "sh: why");
}

TEST(ChildProgram, TellsThatThereIsNoSuchProgram) {
  const auto status =
      RunChildProgram({.words = {"snf-no-such-program"}}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(status.message(), "snf-no-such-program: No such file or directory");
}

}  // namespace
}  // namespace snf
