// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RUNTIME_SDK_NF_MODULE_H_
#define SNF_RUNTIME_SDK_NF_MODULE_H_

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/sdk/nf.h"

namespace snf {

// Theory of operation. The file of an NF can be linked into the program, or be
// built as a module (snf_add_nf of CMake) that is loaded at start, by `--nf
// ./my_nf.so`. A module is a shared object that uses the SDK and base of the
// program, and names its build: compiler, library, and a hash of the headers
// (nf_abi.h). The build is compared before the file is opened as a library;
// then its registrations run, as those of linked NFs do before main.
//
// The comparison finds mistakes. It is no defence against a malicious module,
// which runs with the rights of the program.
//
// A module may take the place of a linked NF of the same name, if both keep the
// same state of a flow: their schemas have the same hash (without options, as
// `snf nf show` prints it).

// Returns true if the name is a module's file: it has a '/' or ends in ".so".
bool NamesNfModule(std::string_view name);

// Loads a module, unless it is loaded already, and makes its NFs known to
// FindNf. Returns its only NF, or the one with the file's name. Modules stay
// loaded. Error messages begin with the file.
absl::StatusOr<const NfRegistration*> LoadNfModule(const std::string& file);

// The same, but the module's NFs take the places of any others of their names,
// whatever their state and origin: for a process that makes no more NFs of the
// replaced specs, or shares no state with them. Existing specs keep their NFs.
absl::StatusOr<const NfRegistration*> ReplaceByNfModule(
    const std::string& file);

// From now on, FileOfNf names `file` for the NFs of a module: that of which the
// module's file is a copy.
void set_nf_module_origin(const std::string& module, const std::string& file);
// Returns the file of a loaded module, without symbolic links, or its origin,
// by which LoadNfModule would return this NF; "" if there is none.
std::string FileOfNf(const NfRegistration& nf);
// Returns a text that NfSpec::Parse reads with `files` in place of the names of
// NFs (or of other files). A file whose name no text can have is left out.
std::string WithNfFiles(std::string_view text,
                        const std::map<std::string, std::string>& files);

// Returns the NFs of a module that is loaded; none if it is not.
std::vector<const NfRegistration*> NfsOfModule(const std::string& file);

// Registers NFs that stand for the NFs of a module's file, whose code must not
// run in this process (platform/modules). The file's ABI is right.
using NfModuleStandIns = std::function<absl::Status(const std::string& file)>;
// From now on, modules are not loaded: `make` is called for each. Null: they
// are loaded again. NFs that are known stay.
void set_nf_module_stand_ins(NfModuleStandIns make);

// Returns the files of those loaded modules that FindNf knows NFs of, without
// symbolic links, for another process that is to load them, too.
std::vector<std::string> LoadedNfModules();

}  // namespace snf

#endif  // SNF_RUNTIME_SDK_NF_MODULE_H_
