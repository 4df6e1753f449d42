// SPDX-License-Identifier: Apache-2.0
#include "platform/trace/trace_command.h"

#include "platform/process/command_group.h"
#include "platform/trace/trace_compose.h"
#include "platform/trace/trace_convert.h"
#include "platform/trace/trace_info.h"
#include "platform/trace/trace_synth.h"

namespace snf {

std::unique_ptr<Command> CreateTraceCommand() {
  return std::make_unique<CommandGroup>(
      "tell what is in captures, and make others of them",
      "Tells what is in captures, and makes others of them.",
      CommandTable{{"info", CreateCommand<TraceInfo>},
                   {"compose", CreateCommand<TraceCompose>},
                   {"synth", CreateCommand<TraceSynth>},
                   {"convert", CreateCommand<TraceConvert>}});
}

}  // namespace snf
