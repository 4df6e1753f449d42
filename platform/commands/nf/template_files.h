// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_COMMANDS_NF_TEMPLATE_FILES_H_
#define SNF_PLATFORM_COMMANDS_NF_TEMPLATE_FILES_H_

#include <filesystem>
#include <string>

#include "absl/status/status.h"
#include "platform/commands/nf/nf_template.h"

namespace snf {

// Writes the files of a template to a directory, which is made if it is not
// there, and prints their paths. Nothing is written if one exists, unless
// `force`.
absl::Status WriteTemplate(const NfTemplate& begun,
                           const std::filesystem::path& directory, bool force);

// Returns a path as a shell in the current directory takes it.
std::string ShellPathOf(const std::filesystem::path& path);
// Returns the command that runs this program, as a shell here takes it: "snf",
// if it was installed.
std::string ShellNameOfProgram();
// Returns the commands that build a project of modules in `directory`, and run
// its test if `has_test`; a line each, indented.
std::string HowToBuild(const std::filesystem::path& directory, bool has_test);
// Returns the module `name` that they build.
std::string ShellPathOfModule(const std::filesystem::path& directory,
                              const std::string& name);

}  // namespace snf

#endif  // SNF_PLATFORM_COMMANDS_NF_TEMPLATE_FILES_H_
