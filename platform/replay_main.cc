// SPDX-License-Identifier: Apache-2.0
// The program with `replay` alone, which is built in half the time. ./snf runs
// it as long as the whole program (main.cc) has not been built.
#include <cstdlib>

#include "base/version.h"
#include "platform/commands/replay/replay_command.h"
#include "platform/drivers/loops/unit_process.h"
#include "platform/process/command_group.h"

int main(int argc, char** argv) {
  // Units run in processes of this program (--isolation).
  if (argc == 3 && argv[1] == snf::kUnitProcessCommand) {
    return snf::UnitProcessMain(std::atoi(argv[2]));
  }
  const snf::Program program = {
      .name = "snf",
      .version = snf::kVersion,
      .about = "SNF replays captures through network functions.",
      .commands = {{"replay", snf::CreateCommand<snf::ReplayCommand>}}};
  return snf::RunProgram(program, argc, argv);
}
