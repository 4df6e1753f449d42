// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>
#include <string>
#include <vector>

#include "base/version.h"
#include "platform/bypass/bypass_process.h"
#include "platform/commands/bench/bench_command.h"
#include "platform/commands/config/config_commands.h"
#include "platform/commands/control/capture_command.h"
#include "platform/commands/control/cert_command.h"
#include "platform/commands/control/chain_commands.h"
#include "platform/commands/control/control_commands.h"
#include "platform/commands/control/logs_command.h"
#include "platform/commands/host/host_commands.h"
#include "platform/commands/manager/leases_command.h"
#include "platform/commands/manager/manager_command.h"
#include "platform/commands/nf/nf_command.h"
#include "platform/commands/nf/policy_command.h"
#include "platform/commands/recovery/recovery_command.h"
#include "platform/commands/replay/replay_command.h"
#include "platform/commands/simulate/simulate_command.h"
#include "platform/commands/trace/trace_command.h"
#include "platform/commands/up/run_command.h"
#include "platform/commands/up/up_command.h"
#include "platform/daemon/try_chain.h"
#include "platform/drivers/loops/unit_process.h"
#include "platform/modules/module_process.h"
#include "platform/process/command_group.h"

namespace snf {
namespace {

std::unique_ptr<Command> CreateNf() {
  return CreateNfCommand({{"deploy", CreateNfDeployCommand}});
}

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
                 {"rules", CreateRulesCommand},
                 {"capture", CreateCaptureCommand},
                 {"logs", CreateLogsCommand},
                 {"top", CreateTopCommand},
                 {"set", CreateSetCommand},
                 {"config", CreateConfigCommand},
                 {"drain", CreateDrainCommand},
                 {"kill", CreateKillCommand},
                 {"chain", CreateChainCommand},
                 {"down", CreateDownCommand},
                 {"manager", CreateCommand<StartManagerCommand>},
                 {"leases", CreateCommand<LeasesCommand>},
                 {"host", CreateHostCommand},
                 {"cert", CreateCommand<CertCommand>},
                 {"simulate", CreateCommand<SimulateCommand>},
                 {"recovery", CreateCommand<RecoveryCommand>},
                 {"trace", CreateTraceCommand},
                 {"nf", CreateNf},
                 {"policy", CreatePolicyCommand},
                 {"bench", CreateCommand<BenchCommand>}}};

}  // namespace
}  // namespace snf

int main(int argc, char** argv) {
  // Are started by snf itself, and are no commands of a user's.
  if (argc == 3 && argv[1] == snf::kUnitProcessCommand) {
    return snf::UnitProcessMain(std::atoi(argv[2]));
  }
  if (argc == 2 && argv[1] == snf::kModuleProcessCommand) {
    return snf::ModuleProcessMain();
  }
  if (argc > 1 && argv[1] == snf::kBypassProcessCommand) {
    return snf::BypassProcessMain({argv + 2, argv + argc});
  }
  if (argc > 1 && argv[1] == snf::kTryChainCommand) {
    const std::vector<std::string> words(argv + 2, argv + argc);
    return snf::TryChainCommand().Main(argv[1], words);
  }
  return snf::RunProgram(snf::kProgram, argc, argv);
}
