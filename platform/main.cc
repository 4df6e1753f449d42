// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <exception>
#include <new>
#include <string>

#include "platform/bench/bench_command.h"
#include "platform/nf/nf_command.h"
#include "platform/process/exit_code.h"
#include "platform/process/version.h"
#include "platform/replay/replay.h"
#include "platform/trace/trace_command.h"

namespace snf {
namespace {

constexpr char kHelp[] =
    R"(SNF runs network functions as a service, scheduled by flowlets.

Usage: snf COMMAND [ARGUMENT…]

  replay     run captures through flowlets and compute units
  trace      tell what is in captures, and make others of them
  nf         tell of network functions; begin a new one
  bench      measure the budgets on this machine
  --version  print the version

snf COMMAND --help explains a command and every flag of it.
)";

int Main(int argc, char** argv) {
  CLI::App app;
  app.set_version_flag("--version", fmt::format("snf {}", kVersion));
  app.formatter_fn([](const CLI::App*, std::string, CLI::AppFormatMode) {
    return std::string(kHelp);
  });
  ReplayCommand replay(app);
  NfCommand nf(app);
  BenchCommand bench(app);
  TraceCommand trace(app);
  if (argc < 2) {
    fmt::print(stderr, "snf: which command? (see snf --help)\n");
    return kExitUsage;
  }
  const auto is_named = [&](const CLI::App* command) {
    return command->get_name() == argv[1];
  };
  if (argv[1][0] != '-' && app.get_subcommands(is_named).empty()) {
    fmt::print(stderr, "snf: there is no command \"{}\" (see snf --help)\n",
               argv[1]);
    return kExitUsage;
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& success) {
    return app.exit(success);  // --help, --version
  } catch (const CLI::ParseError& error) {
    std::string command;
    for (const CLI::App* one = &app; !one->get_subcommands().empty();) {
      one = one->get_subcommands().front();
      command += " " + one->get_name();
    }
    fmt::print(stderr, "snf{}: {} (see snf{} --help)\n", command, error.what(),
               command);
    return kExitUsage;
  }
  if (bench.chosen()) return bench.Run();
  if (trace.chosen()) return trace.Run();
  return replay.chosen() ? replay.Run() : nf.Run();
}

}  // namespace
}  // namespace snf

int main(int argc, char** argv) {
  try {
    return snf::Main(argc, argv);
  } catch (const std::bad_alloc&) {
    fmt::print(stderr, "snf: not enough memory for these limits\n");
    return snf::kExitUnavailable;
  } catch (const std::exception& error) {
    fmt::print(stderr, "snf: {}\n", error.what());
    return snf::kExitInternal;
  }
}
