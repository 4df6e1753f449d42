// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_MODULES_MODULE_STAND_INS_H_
#define SNF_PLATFORM_MODULES_MODULE_STAND_INS_H_

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/module.pb.h"
#include "runtime/sdk/nf_spec.h"

namespace snf {

// Theory of operation. A module is somebody else's code. With
// --isolation=lxc it runs in containers only: in the containers of units, and
// in a container that only asks it for its declarations (module_process.h). All
// other processes of SNF know the answers, and have stand-ins (described_nf.h)
// for its NFs:
//
//   snf up ──question──► snf describe-module ──► container: loads, declares
//     │    ◄─────────answer──────────────────────────┘
//     └──LaunchedNf──► launcher (stand-ins) ──► container of a unit: loads
//                             └───────────────► loggers (stand-ins)
//
// What a module says of itself is bounded and checked. A module that says
// something else in a unit's container makes that unit a hostile one.
//
// Functions of this file are for the thread that parses chains.

// Asks a module in a confined process (AskModuleProcess).
using ModuleAsker = std::function<absl::StatusOr<proto::ModuleAnswer>(
    const proto::ModuleQuestion& question)>;

// From now on this process has stand-ins for the NFs of modules, which `ask`
// describes. Does nothing if it is so already.
void ConfineModules(ModuleAsker ask);

// Returns the NF for another process: its text, modules and stand-ins.
proto::LaunchedNf LaunchedNfOf(const NfSpec& nf);

// Returns the files that an option names: one file, or several, joined by +.
std::vector<std::string> PathsOf(const NfSpec::InputFile& input);

// Returns the files that the confined process must see: modules, and files that
// options name.
template <typename Message>
std::vector<std::string> FilesOf(const Message& message) {
  std::vector<std::string> files(message.module().begin(),
                                 message.module().end());
  files.insert(files.end(), message.file().begin(), message.file().end());
  return files;
}

// The NF of a process that another one has started with LaunchedNfOf.
struct ReadNf {
  // Good (NfSpec::check). Has stand-ins if modules are confined.
  NfSpec nf;
  proto::LaunchedNf launched;

  // Loads the modules, in place of the stand-ins, and returns the NF; for a
  // confined process. Errors: as ReplaceByNfModule and NfSpec::check; Internal
  // if an NF differs from its stand-in.
  absl::StatusOr<NfSpec> Load() const;
};
// Makes the NFs known to this process. Errors: as NfSpec::Parse and check.
absl::StatusOr<ReadNf> MakeKnown(proto::LaunchedNf launched);
// The same for its bytes; Internal if they are no such NF.
absl::StatusOr<ReadNf> ReadLaunchedNf(std::string_view bytes);

}  // namespace snf

#endif  // SNF_PLATFORM_MODULES_MODULE_STAND_INS_H_
