// SPDX-License-Identifier: Apache-2.0
#include "platform/commands/nf/template_files.h"

#include <fmt/format.h>

#include "base/text/wording.h"
#include "platform/process/source_tree.h"
#include "traces/byte_sink.h"
#include "traces/file_status.h"

namespace snf {
namespace {

namespace fs = std::filesystem;

// Returns true if the program runs in its build tree. If it was installed,
// find_package(snf) finds the installed headers.
bool IsInBuildTree() {
  std::error_code error;
  const std::string program = fs::read_symlink("/proc/self/exe", error);
  return program.starts_with(std::string(kBuildDirectory) + "/");
}

}  // namespace

absl::Status WriteTemplate(const NfTemplate& begun, const fs::path& directory,
                           bool force) {
  std::error_code error;
  for (const NfTemplate::File& file : begun.files) {
    if (!force && fs::exists(directory / file.name, error)) {
      return absl::InvalidArgumentError(fmt::format(
          "{} exists; --force replaces it", (directory / file.name).string()));
    }
  }
  fs::create_directories(directory, error);
  if (error) {
    return FileStatus(directory.string() + ": cannot write", error.value());
  }
  for (const NfTemplate::File& file : begun.files) {
    const fs::path path = directory / file.name;
    absl::Status status = WriteFile(path, file.text);
    if (!status.ok()) return status;
    fmt::print("{}\n", path.string());
  }
  return absl::OkStatus();
}

std::string ShellPathOf(const fs::path& path) {
  std::error_code error;
  const fs::path near = fs::proximate(path, error);
  return ShellWord(error ? path.string() : near.string());
}

std::string ShellNameOfProgram() {
  if (!IsInBuildTree()) return "snf";
  const std::string script = ShellPathOf(fs::path(kSourceDirectory) / "snf");
  return script.find('/') == script.npos ? "./" + script : script;
}

std::string HowToBuild(const fs::path& directory, bool has_test) {
  const std::string source = ShellWord(directory.string());
  const std::string build = ShellWord((directory / "build").string());
  const bool in_tree = IsInBuildTree();
  std::string text;
  if (in_tree && has_test) {
    text += fmt::format("  cmake --build {} --target snf_nf_test\n",
                        ShellWord(kBuildDirectory));
  }
  text += fmt::format("  cmake -G Ninja -S {} -B {}", source, build);
  if (in_tree) {
    text += fmt::format(" -DCMAKE_PREFIX_PATH={}", ShellWord(kBuildDirectory));
  }
  text += fmt::format("\n  cmake --build {}\n", build);
  if (has_test) {
    text += fmt::format("  ctest --test-dir {} --output-on-failure\n", build);
  }
  return text;
}

std::string ShellPathOfModule(const fs::path& directory,
                              const std::string& name) {
  const std::string module = (directory / "build" / (name + ".so")).string();
  return ShellWord(module.find('/') == module.npos ? "./" + module : module);
}

}  // namespace snf
