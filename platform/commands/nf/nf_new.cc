// SPDX-License-Identifier: Apache-2.0
#include "platform/commands/nf/nf_new.h"

#include <fmt/format.h>

#include <filesystem>

#include "base/text/wording.h"
#include "platform/commands/nf/nf_template.h"
#include "platform/process/clean_interrupt.h"
#include "platform/process/source_tree.h"
#include "traces/byte_sink.h"
#include "traces/file_status.h"

namespace snf {
namespace {

namespace fs = std::filesystem;

absl::Status Write(const NfTemplate& begun, const fs::path& directory,
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

// In nfs/, x_y.cc is a part of the NF x: refuses names that would make one NF a
// part of another.
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
      return absl::InvalidArgumentError(
          fmt::format("\"{}\" cannot be the name of an NF: by their names, it "
                      "or nfs/{} would be a part of the other",
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

// Returns whether the program runs from where it was built. Else
// find_package(snf) finds what was installed with it.
bool IsInBuildTree() {
  std::error_code error;
  const std::string program = fs::read_symlink("/proc/self/exe", error);
  return program.starts_with(std::string(kBuildDirectory) + "/");
}

std::string NextOutside(const std::string& name, const fs::path& directory) {
  const fs::path build = directory / "build";
  const fs::path module = build / (name + ".so");
  std::string nf = module.string();
  if (nf.find('/') == nf.npos) nf = "./" + nf;
  if (!IsInBuildTree()) {
    return fmt::format(R"(
Build it and its test, run the test, and then the NF itself:
  cmake -G Ninja -S {0} -B {1}
  cmake --build {1}
  ctest --test-dir {1} --output-on-failure
  snf replay --nf {2}
)",
                       ShellWord(directory.string()), ShellWord(build.string()),
                       ShellWord(nf + ":limit=10"));
  }
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

NfNew::NfNew()
    : FlagCommand(
          {.summary = "write the source and test of a new NF",
           .usage = "snf nf new NAME [--dir=DIR] [--force]",
           .about = "Writes a small working NF called NAME (such as my_nf) and "
                    "its test, and prints how to build and run both. Outside "
                    "of the source tree of SNF the NF is built as a module, "
                    "with its own CMakeLists.txt."}) {
  flags().Argument("NAME", nf_);
  flags().Text("dir", directory_, "DIR",
               "directory to write to. Without this flag: nfs in the source "
               "tree of SNF, elsewhere a new directory NAME");
  flags().Switch("force", force_, "replace existing files");
}

absl::Status NfNew::Run() {
  EndCleanlyWhenInterrupted(name());
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
