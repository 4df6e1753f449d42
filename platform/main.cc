// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>
#include <string>
#include <vector>

#include "platform/bench/bench_command.h"
#include "platform/control/chain_commands.h"
#include "platform/control/control_commands.h"
#include "platform/leases/leases_command.h"
#include "platform/manager/look_command.h"
#include "platform/manager/manager_command.h"
#include "platform/nf/nf_command.h"
#include "platform/process/command_group.h"
#include "platform/process/version.h"
#include "platform/real_time/unit_process.h"
#include "platform/recovery/recovery_command.h"
#include "platform/replay/replay_command.h"
#include "platform/replay/run_command.h"
#include "platform/replay/try_chain.h"
#include "platform/tls/cert_command.h"
#include "platform/trace/trace_command.h"
#include "platform/up/up_command.h"

namespace snf {
namespace {

const Program kProgram = {
    .name = "snf",
    .version = kVersion,
    .about = "SNF runs network functions as a service, scheduled by flowlets.",
    .commands = {{"replay", CreateCommand<ReplayCommand>},
                 {"run", CreateCommand<RunCommand>},
                 {"up", CreateCommand<UpCommand>},
                 {"status", CreateStatusCommand},
                 {"units", CreateUnitsCommand},
                 {"flows", CreateFlowsCommand},
                 {"top", CreateTopCommand},
                 {"set", CreateSetCommand},
                 {"drain", CreateDrainCommand},
                 {"kill", CreateKillCommand},
                 {"chain", CreateChainCommand},
                 {"down", CreateDownCommand},
                 {"manager", CreateCommand<StartManagerCommand>},
                 {"leases", CreateCommand<LookCommand>},
                 {"cert", CreateCommand<CertCommand>},
                 {"simulate", CreateCommand<LeasesCommand>},
                 {"recovery", CreateCommand<RecoveryCommand>},
                 {"trace", CreateTraceCommand},
                 {"nf", CreateNfCommand},
                 {"bench", CreateCommand<BenchCommand>}}};

}  // namespace
}  // namespace snf

int main(int argc, char** argv) {
  // Are started by snf itself, and are no commands of a user's.
  if (argc == 3 && argv[1] == snf::kUnitProcessCommand) {
    return snf::UnitProcessMain(std::atoi(argv[2]));
  }
  if (argc > 1 && argv[1] == snf::kTryChainCommand) {
    const std::vector<std::string> words(argv + 2, argv + argc);
    return snf::TryChainCommand().Main(argv[1], words);
  }
  return snf::RunProgram(snf::kProgram, argc, argv);
}
