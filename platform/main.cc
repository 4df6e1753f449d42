// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <exception>

#include "platform/exit_code.h"
#include "platform/replay.h"
#include "platform/version.h"

namespace snf {
namespace {

int Main(int argc, char** argv) {
  CLI::App app("SNF runs network functions as a service, scheduled by flowlets.",
               "snf");
  app.set_version_flag("--version", fmt::format("snf {}", kVersion));
  app.require_subcommand(1);
  app.get_formatter()->column_width(34);
  app.footer("snf COMMAND --help explains every flag of a command.");
  ReplayCommand replay(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& success) {
    return app.exit(success);  // --help, --version
  } catch (const CLI::ParseError& error) {
    const char* command = replay.chosen() ? " replay" : "";
    fmt::print(stderr, "snf{}: {} (see snf{} --help)\n", command, error.what(),
               command);
    return kExitUsage;
  }
  return replay.Run();
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
