// SPDX-License-Identifier: Apache-2.0
#include "platform/commands/nf/nf_new.h"

#include <fmt/format.h>

#include <filesystem>

#include "platform/commands/nf/nf_template.h"
#include "platform/commands/nf/template_files.h"
#include "platform/process/clean_interrupt.h"
#include "platform/process/source_tree.h"

namespace snf {
namespace {

namespace fs = std::filesystem;

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

std::string NextInTree(const std::string& name) {
  return fmt::format(R"(
Build it and run its test, and then the NF itself:
  {0} test {1}
  {0} replay --nf {1}:limit=10
)",
                     ShellNameOfProgram(), name);
}

std::string NextOutside(const std::string& name, const fs::path& directory) {
  return fmt::format(R"(
Build it and its test, run the test, and then the NF itself:
{}  {} replay --nf {}:limit=10
)",
                     HowToBuild(directory, true), ShellNameOfProgram(),
                     ShellPathOfModule(directory, name));
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
  if (absl::Status s = WriteTemplate(begun, directory_, force_); !s.ok())
    return s;
  fmt::print("{}", in_tree ? NextInTree(nf_) : NextOutside(nf_, directory_));
  return absl::OkStatus();
}

}  // namespace snf
