// SPDX-License-Identifier: Apache-2.0
#include "platform/commands/nf/policy_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

#include "controller/core/placement.h"
#include "platform/commands/nf/nf_template.h"
#include "platform/commands/nf/template_files.h"
#include "platform/process/clean_interrupt.h"
#include "platform/process/command_group.h"

namespace snf {
namespace {

class PolicyList final : public FlagCommand {
 public:
  PolicyList()
      : FlagCommand({.summary = "list all placement policies, one a line",
                     .usage = "snf policy list [--json]",
                     .about = "Prints the name and summary of every placement "
                              "policy."}) {
    flags().Switch("json", json_, "as JSON");
  }

 private:
  absl::Status Run() override {
    EndCleanlyWhenInterrupted(name());
    nlohmann::ordered_json all = nlohmann::ordered_json::array();
    size_t width = 0;
    for (const PlacementPolicy* policy : PlacementPolicies()) {
      width = std::max(width, policy->name().size());
      all.push_back({{"name", policy->name()}, {"help", policy->help()}});
    }
    if (json_) {
      fmt::print("{}\n", all.dump(2));
      return absl::OkStatus();
    }
    for (const PlacementPolicy* policy : PlacementPolicies()) {
      fmt::print("{:<{}}  {}\n", policy->name(), width, policy->help());
    }
    return absl::OkStatus();
  }

  bool json_ = false;
};

class PolicyNew final : public FlagCommand {
 public:
  PolicyNew()
      : FlagCommand({.summary = "write the source of a new placement policy",
                     .usage = "snf policy new NAME [--dir=DIR] [--force]",
                     .about =
                         "Writes a small working placement policy called NAME "
                         "(such as my_fit) with its CMakeLists.txt, and prints "
                         "how to build it as a module and how to run it."}) {
    flags().Argument("NAME", policy_);
    flags().Text("dir", directory_, "DIR",
                 "directory to write to; without this flag a new one NAME");
    flags().Switch("force", force_, "replace existing files");
  }

 private:
  absl::Status Run() override {
    EndCleanlyWhenInterrupted(name());
    if (absl::Status s = CheckPolicyName(policy_); !s.ok()) return s;
    if (directory_.empty()) directory_ = policy_;
    if (absl::Status s =
            WriteTemplate(MakePolicyTemplate(policy_), directory_, force_);
        !s.ok()) {
      return s;
    }
    fmt::print(R"(
Build it, and compare it with the policy of SNF:
{}  {} replay --policy={} --compare=snf
)",
               HowToBuild(directory_, false), ShellNameOfProgram(),
               ShellPathOfModule(directory_, policy_));
    return absl::OkStatus();
  }

  std::string policy_;
  std::string directory_;
  bool force_ = false;
};

}  // namespace

std::unique_ptr<Command> CreatePolicyCommand() {
  return std::make_unique<CommandGroup>(
      "list placement policies; write a new one",
      "Lists placement policies, which choose the unit of a flowlet; writes "
      "one "
      "to start from.",
      CommandTable{{"list", CreateCommand<PolicyList>},
                   {"new", CreateCommand<PolicyNew>}});
}

}  // namespace snf
