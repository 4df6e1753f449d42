// SPDX-License-Identifier: Apache-2.0
#include "platform/process/command.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <new>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "platform/process/command_group.h"

namespace snf {
namespace {

using testing::HasSubstr;
using testing::MatchesRegex;

// Ends as --how says, and prints what it was given.
class Echo final : public FlagCommand {
 public:
  Echo()
      : FlagCommand({.summary = "print words",
                     .usage = "prog echo WORD… [--how=HOW]",
                     .about = "Prints words."}) {
    flags().Arguments("WORD", words_, 1);
    flags().Choice("how", how_,
                   {{"well", "all is well"},
                    {"unsound", "a check failed"},
                    {"bad", "bad data"},
                    {"memory", "there is none"}},
                   "how it ends:");
  }

 private:
  absl::Status Run() override {
    for (const std::string& word : words_) fmt::print("{} ", word);
    if (how_ == 1) set_exit_code(kExitCheckFailed);
    if (how_ == 2) return absl::DataLossError("a.pcap: is cut");
    if (how_ == 3) throw std::bad_alloc();
    return absl::OkStatus();
  }

  std::vector<std::string> words_;
  size_t how_ = 0;
};

std::unique_ptr<Command> CreateGroup() {
  return std::make_unique<CommandGroup>(
      "all about words", "Works on words.",
      CommandTable{{"echo", CreateCommand<Echo>}});
}

struct Ended {
  int exit_code = 0;
  std::string out;
  std::string err;
};

int CodeOf(std::vector<std::string> words) {
  const Program program = {
      .name = "prog",
      .version = "1.2.3",
      .about = "A program for tests.",
      .commands = {{"echo", CreateCommand<Echo>}, {"words", CreateGroup}}};
  words.insert(words.begin(), "prog");
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  return RunProgram(program, static_cast<int>(argv.size()), argv.data());
}

Ended RunWith(const std::vector<std::string>& words) {
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  Ended ended;
  ended.exit_code = CodeOf(words);
  ended.out = testing::internal::GetCapturedStdout();
  ended.err = testing::internal::GetCapturedStderr();
  return ended;
}

TEST(ExitCode, IsThatOfACommandWhichAnotherHasStarted) {
  for (const ExitCode code :
       {kExitOk, kExitUsage, kExitBadData, kExitUnavailable, kExitInternal,
        kExitIo, kExitPermission, kExitInterrupted}) {
    const absl::Status status = StatusOfExit(code, "has told why");
    EXPECT_EQ(ExitCodeFor(status), code);
    EXPECT_EQ(status.message(), code == kExitOk ? "" : "has told why");
  }
  for (const int code : {kExitCheckFailed + 0, kExitNf + 0, 127, 255}) {
    EXPECT_EQ(ExitCodeFor(StatusOfExit(code, "has told why")), kExitInternal);
  }
}

TEST(Program, ListsItsCommands) {
  for (const char* flag : {"--help", "-h"}) {
    EXPECT_EQ(RunWith({flag}).out,
              "A program for tests.\n\n"
              "Usage: prog COMMAND [ARGUMENT…]\n\n"
              "  echo       print words\n"
              "  words      all about words\n"
              "  --version  print the version\n\n"
              "prog COMMAND --help explains a command and every flag of it.\n");
  }
  EXPECT_EQ(RunWith({"--version"}).out, "prog 1.2.3\n");
}

TEST(Program, RunsTheCommandThatIsNamed) {
  const Ended ended = RunWith({"echo", "a", "--how=well", "echo"});
  EXPECT_EQ(ended.exit_code, kExitOk);
  EXPECT_EQ(ended.out, "a echo ");
  EXPECT_EQ(ended.err, "");
}

TEST(Program, SaysWhichCommandsThereAreNot) {
  const auto expect = [](const std::vector<std::string>& words,
                         const std::string& error) {
    const Ended ended = RunWith(words);
    EXPECT_EQ(ended.exit_code, kExitUsage);
    EXPECT_EQ(ended.out, "");
    EXPECT_EQ(ended.err, error + "\n");
  };
  expect({}, "prog: which command? (see prog --help)");
  expect({"nosuch"}, "prog: there is no command \"nosuch\" (see prog --help)");
  expect({"--bad", "echo"},
         "prog: The following argument was not expected: --bad (see prog "
         "--help)");
  expect({"words"}, "prog words: which command? (see prog words --help)");
  expect({"words", "nosuch"},
         "prog words: there is no command \"nosuch\" (see prog words --help)");
  expect({"words", "--version"},
         "prog words: The following argument was not expected: --version (see "
         "prog words --help)");
}

// Redirects a stream of the process to a file, while the object lives.
class OnFile {
 public:
  OnFile(int stream, const char* file) : stream_(stream), before_(dup(stream)) {
    std::fflush(stdout);
    const int fd = open(file, O_WRONLY);
    dup2(fd, stream);
    close(fd);
  }
  ~OnFile() {
    std::fflush(stdout);
    dup2(before_, stream_);
    close(before_);
  }

 private:
  const int stream_;
  const int before_;
};

TEST(Program, TellsThatStdoutIsFull) {
  for (const std::string& word :
       {std::string("a"), std::string(100'000, 'a')}) {
    testing::internal::CaptureStderr();
    int exit_code = kExitOk;
    {
      const OnFile full(STDOUT_FILENO, "/dev/full");
      exit_code = CodeOf({"echo", word});
    }
    EXPECT_EQ(exit_code, kExitIo);
    EXPECT_THAT(testing::internal::GetCapturedStderr(),
                MatchesRegex("prog: stdout: [a-z :]*No space left on "
                             "device\n"));
  }
}

TEST(Program, KeepsTheExitCodeOfWhatFailedOnAFullStdout) {
  testing::internal::CaptureStderr();
  int exit_code = kExitOk;
  {
    const OnFile full(STDOUT_FILENO, "/dev/full");
    exit_code = CodeOf({"echo", "a", "--how=bad"});
  }
  EXPECT_EQ(exit_code, kExitBadData);
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "prog echo: a.pcap: is cut\n"
            "prog: stdout: No space left on device\n");
}

TEST(Program, OutlivesAFullStderr) {
  const OnFile full(STDERR_FILENO, "/dev/full");
  EXPECT_EQ(CodeOf({"nosuch"}), kExitUsage);
  EXPECT_EQ(CodeOf({"echo", "a", "--how=memory"}), kExitUnavailable);
}

TEST(Program, NamesALackOfMemory) {
  const Ended ended = RunWith({"echo", "a", "--how=memory"});
  EXPECT_EQ(ended.exit_code, kExitUnavailable);
  EXPECT_EQ(ended.err, "prog: not enough memory for these limits\n");
}

TEST(CommandGroup, IsAProgramWithinTheProgram) {
  EXPECT_EQ(RunWith({"words", "--help"}).out,
            "Usage: prog words COMMAND [ARGUMENT…]\n\nWorks on words.\n\n"
            "  echo       print words\n\n"
            "prog words COMMAND --help explains a command.\n");
  EXPECT_EQ(RunWith({"words", "echo", "b"}).out, "b ");
}

TEST(FlagCommand, ExplainsItself) {
  const Ended ended = RunWith({"words", "echo", "--nosuch", "--help"});
  EXPECT_EQ(ended.exit_code, kExitOk);
  EXPECT_THAT(ended.out, HasSubstr("Usage: prog echo WORD… [--how=HOW]\n\n"
                                   "Prints words.\n\nOptions:\n"));
  EXPECT_THAT(ended.out,
              HasSubstr("  --how=CHOICE  [well]\n      how it ends:\n"
                        "        well             all is well\n"));
}

TEST(FlagCommand, RefusesABadCommandLineInOneLine) {
  const Ended missing = RunWith({"words", "echo"});
  EXPECT_EQ(missing.exit_code, kExitUsage);
  EXPECT_EQ(missing.err,
            "prog words echo: WORD is required (see prog words echo --help)\n");
  EXPECT_EQ(RunWith({"echo", "a", "--how=so"}).err,
            "prog echo: --how: \"so\" is none of well, unsound, bad, memory "
            "(see prog echo --help)\n");
}

TEST(FlagCommand, TakesNoWordForAnEmptyValue) {
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"echo", "--how=", "well", "a"},
        {"echo", "a", "--how="},
        {"echo", "a", "--how=well", "--how="}}) {
    const Ended ended = RunWith(words);
    EXPECT_EQ(ended.exit_code, kExitUsage);
    EXPECT_EQ(ended.out, "");
    EXPECT_EQ(ended.err,
              "prog echo: --how: the value is empty (see prog echo --help)\n");
  }
  EXPECT_EQ(RunWith({"echo", "--", "--how="}).out, "--how= ");
  EXPECT_EQ(RunWith({"echo", "a="}).out, "a= ");
  EXPECT_THAT(RunWith({"echo", "--nosuch=", "a"}).err, HasSubstr("--nosuch="));
}

TEST(FlagCommand, EndsWithTheCodeOfItsStatusOrItsOwn) {
  EXPECT_EQ(RunWith({"echo", "a", "--how=unsound"}).exit_code,
            kExitCheckFailed);
  const Ended bad = RunWith({"words", "echo", "a", "--how=bad"});
  EXPECT_EQ(bad.exit_code, kExitBadData);
  EXPECT_EQ(bad.err, "prog words echo: a.pcap: is cut\n");
}

}  // namespace
}  // namespace snf
