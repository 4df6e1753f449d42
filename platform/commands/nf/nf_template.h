// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_COMMANDS_NF_NF_TEMPLATE_H_
#define SNF_PLATFORM_COMMANDS_NF_NF_TEMPLATE_H_

#include <string>
#include <vector>

#include "absl/status/status.h"

namespace snf {

// Holds the files that an NF or a placement policy begins with. They compile;
// an NF has a slot, an option, a counter and a drop reason, and a test that
// passes.
struct NfTemplate {
  struct File {
    std::string name;  // "my_nf.cc"
    std::string text;
  };
  std::vector<File> files;
};

// Returns InvalidArgument for a name that a file, a class and a CMake target
// cannot have, or that an NF has.
absl::Status CheckNfName(const std::string& name);

// The same for a placement policy.
absl::Status CheckPolicyName(const std::string& name);

// Returns the files of a new NF: with `in_tree` for nfs/, with the licence and
// without a CMakeLists.txt.
NfTemplate MakeNfTemplate(const std::string& name, bool in_tree);

// Returns the files of a new placement policy: one that chooses as `snf` does,
// without regard to state, and a CMakeLists.txt.
NfTemplate MakePolicyTemplate(const std::string& name);

}  // namespace snf

#endif  // SNF_PLATFORM_COMMANDS_NF_NF_TEMPLATE_H_
