// SPDX-License-Identifier: Apache-2.0
#include "platform/trace_info.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "base/quantity.h"
#include "traces/merged_reader.h"

namespace snf {

TraceInfo::TraceInfo(CLI::App& trace)
    : TraceSubcommand(
          trace, {.name = "info",
                  .summary = "what is in captures, and what of it is usable",
                  .usage = "snf trace info FILE… [--FLAG=VALUE…]",
                  .about = "Reads captures, merged by time, and tells what is "
                           "in them."}) {
  command().add_option("FILE", files_)->required();
}

absl::Status TraceInfo::Run() {
  auto reader = MergedReader::Open(files_);
  if (!reader.ok()) return reader.status();
  CapturedPacket packet;
  while ((*reader)->Next(packet) == ReadResult::kPacket) {
  }
  if (!(*reader)->status().ok()) return (*reader)->status();
  fmt::print("Packets  {}\n", FormatCount((*reader)->packets_read()));
  return absl::OkStatus();
}

}  // namespace snf
