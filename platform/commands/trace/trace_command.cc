// SPDX-License-Identifier: Apache-2.0
#include "platform/commands/trace/trace_command.h"

#include "platform/commands/trace/trace_compose.h"
#include "platform/commands/trace/trace_convert.h"
#include "platform/commands/trace/trace_info.h"
#include "platform/commands/trace/trace_synth.h"
#include "platform/process/command_group.h"

namespace snf {

std::unique_ptr<Command> CreateTraceCommand() {
  return std::make_unique<CommandGroup>(
      "describe captures, and make new ones from them",
      "Describes captures, and makes new ones from them.",
      CommandTable{{"info", CreateCommand<TraceInfo>},
                   {"compose", CreateCommand<TraceCompose>},
                   {"synth", CreateCommand<TraceSynth>},
                   {"convert", CreateCommand<TraceConvert>}});
}

}  // namespace snf
