// SPDX-License-Identifier: Apache-2.0
#include "platform/nf/nf_command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "platform/nf/nf_description.h"
#include "platform/nf/nf_template.h"
#include "platform/process/exit_code.h"
#include "platform/process/version.h"
#include "platform/report/report_advice.h"
#include "runtime/sdk/nf.h"
#include "runtime/sdk/nf_module.h"

namespace snf {
namespace {

constexpr char kHelp[] =
    R"(Usage: snf nf COMMAND [ARGUMENT…]

Tells of network functions, which `snf replay --nf NAME` runs.

  list       all of them, a line each
  show       one: its options, counters and drop reasons, and what it keeps
  new        write one to begin with, and its test

snf nf COMMAND --help explains a command.
)";

namespace fs = std::filesystem;

absl::Status IoError(const fs::path& path, const std::string& reason) {
  return absl::UnavailableError(
      fmt::format("{}: cannot write: {}", path.string(), reason));
}

absl::Status Write(const NfTemplate& begun, const fs::path& directory,
                   bool force) {
  std::error_code error;
  for (const NfTemplate::File& file : begun.files) {
    if (!force && fs::exists(directory / file.name, error)) {
      return absl::InvalidArgumentError(
          fmt::format("{} is there already; --force replaces it",
                      (directory / file.name).string()));
    }
  }
  fs::create_directories(directory, error);
  if (error) return IoError(directory, error.message());
  for (const NfTemplate::File& file : begun.files) {
    const fs::path path = directory / file.name;
    std::ofstream stream(path, std::ios::binary);
    stream << file.text << std::flush;
    if (!stream) return IoError(path, std::strerror(errno));
    fmt::print("{}\n", path.string());
  }
  return absl::OkStatus();
}

// In nfs/, x_y.cc is a part of the NF x: nobody is to become one by its name.
absl::Status CheckParts(const std::string& name) {
  std::error_code error;
  for (const fs::directory_entry& entry :
       fs::directory_iterator(fs::path(kSourceDirectory) / "nfs", error)) {
    const std::string file = entry.path().filename();
    const std::string other = entry.path().stem();
    if (entry.path().extension() != ".cc" || other.ends_with("_test") ||
        other.ends_with("_bench")) {
      continue;
    }
    if (name.starts_with(other + "_") || other.starts_with(name + "_")) {
      return absl::InvalidArgumentError(fmt::format(
          "\"{}\" cannot be the name of an NF: nfs/{} is there, and by its "
          "name one would be a part of the other",
          name, file));
    }
  }
  return absl::OkStatus();
}

// As a shell in this directory takes it.
std::string Near(const fs::path& path) {
  std::error_code error;
  const fs::path near = fs::proximate(path, error);
  return ShellWord(error ? path.string() : near.string());
}

std::string Script() {
  const std::string script = Near(fs::path(kSourceDirectory) / "snf");
  return script.find('/') == script.npos ? "./" + script : script;
}

std::string NextInTree(const std::string& name) {
  return fmt::format(R"(
Build it and run its test, and then the NF itself:
  {0} test {1}
  {0} replay --nf {1}:limit=10
)",
                     Script(), name);
}

std::string NextOutside(const std::string& name, const fs::path& directory) {
  const fs::path build = directory / "build";
  const fs::path module = build / (name + ".so");
  std::string nf = module.string();
  if (nf.find('/') == nf.npos) nf = "./" + nf;
  return fmt::format(R"(
Build it and its test, run the test, and then the NF itself:
  cmake --build {0} --target snf_nf_test
  cmake -G Ninja -S {1} -B {2} -DCMAKE_PREFIX_PATH={0}
  cmake --build {2}
  ctest --test-dir {2} --output-on-failure
  {3} replay --nf {4}
)",
                     ShellWord(kBuildDirectory), ShellWord(directory.string()),
                     ShellWord(build.string()), Script(),
                     ShellWord(nf + ":limit=10"));
}

}  // namespace

NfCommand::NfCommand(CLI::App& app)
    : command_(*app.add_subcommand("nf", "tell of network functions")),
      list_(*command_.add_subcommand("list", "all network functions")),
      show_(*command_.add_subcommand("show", "one network function")),
      new_(*command_.add_subcommand("new", "a new network function")),
      list_flags_(list_),
      show_flags_(show_),
      new_flags_(new_) {
  command_.require_subcommand(1);
  command_.formatter_fn([](const CLI::App*, std::string, CLI::AppFormatMode) {
    return std::string(kHelp);
  });
  list_flags_.Switch("json", json_, "as JSON");
  list_.formatter_fn([this](const CLI::App*, std::string, CLI::AppFormatMode) {
    return list_flags_.Help("snf nf list [--json]",
                            "Prints name and summary of every NF.");
  });
  show_.add_option("NAME", nf_)->required();
  show_flags_.Switch("json", json_, "as JSON");
  show_.formatter_fn([this](const CLI::App*, std::string, CLI::AppFormatMode) {
    return show_flags_.Help(
        "snf nf show NAME|FILE.so [--json]",
        "Prints what an NF, by name or of a module, is: what it takes for a "
        "flow, its options with "
        "values, default and meaning, its labels, drop reasons and counters, "
        "what it keeps of each flow, and its pools.");
  });
  new_.add_option("NAME", nf_)->required();
  new_flags_.Text("dir", directory_, "DIR",
                  "where to; without it, nfs in the source tree of SNF, and "
                  "elsewhere a new directory NAME");
  new_flags_.Switch("force", force_, "replace files that are there");
  new_.formatter_fn([this](const CLI::App*, std::string, CLI::AppFormatMode) {
    return new_flags_.Help(
        "snf nf new NAME [--dir=DIR] [--force]",
        "Writes an NF to begin with, as in my_nf, and its test, and says how "
        "to build and run both. Outside of the source tree of SNF it is built "
        "as a module, by a CMakeLists.txt of its own.");
  });
}

int NfCommand::Run() {
  const absl::Status status = list_.parsed()   ? List()
                              : show_.parsed() ? Show()
                                               : New();
  if (status.ok()) return kExitOk;
  fmt::print(stderr, "snf nf {}: {}\n",
             command_.get_subcommands().front()->get_name(),
             std::string(status.message()));
  return ExitCodeFor(status);
}

absl::Status NfCommand::List() const {
  const std::vector<const NfRegistration*> nfs = ListNfs();
  fmt::print("{}", json_ ? JsonListOf(nfs) : ListOf(nfs));
  return absl::OkStatus();
}

absl::Status NfCommand::Show() const {
  absl::StatusOr<const NfRegistration*> nf = FindNf(nf_);
  if (NamesNfModule(nf_)) nf = LoadNfModule(nf_);
  if (!nf.ok()) return nf.status();
  if (*nf == nullptr) {
    return absl::InvalidArgumentError(
        fmt::format("there is no NF \"{}\"; snf nf list names them", nf_));
  }
  fmt::print("{}", json_ ? JsonDescriptionOf(**nf) : DescriptionOf(**nf));
  return absl::OkStatus();
}

absl::Status NfCommand::New() {
  if (absl::Status s = CheckNfName(nf_); !s.ok()) return s;
  std::error_code none;
  const fs::path tree = kSourceDirectory;
  if (directory_.empty()) {
    directory_ = fs::equivalent(".", tree, none) ? "nfs" : nf_;
  }
  const bool in_tree = fs::equivalent(directory_, tree / "nfs", none);
  if (in_tree) {
    if (absl::Status s = CheckParts(nf_); !s.ok()) return s;
  }
  const NfTemplate begun = MakeNfTemplate(nf_, in_tree);
  if (absl::Status s = Write(begun, directory_, force_); !s.ok()) return s;
  fmt::print("{}", in_tree ? NextInTree(nf_) : NextOutside(nf_, directory_));
  return absl::OkStatus();
}

}  // namespace snf
