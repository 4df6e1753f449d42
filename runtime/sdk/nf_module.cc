// SPDX-License-Identifier: Apache-2.0
#include "runtime/sdk/nf_module.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "runtime/sdk/nf_module_file.h"
#include "runtime/sdk/nf_registry.h"

namespace snf {
namespace {

using Nfs = std::vector<const NfRegistration*>;

absl::Status Bad(const std::string& what) {
  return absl::InvalidArgumentError(what);
}

// The NFs of each loaded module, by the file's path without symbolic links.
std::map<std::string, Nfs>& Loaded() {
  static std::map<std::string, Nfs> loaded;
  return loaded;
}

// The files of which modules are copies.
std::map<std::string, std::string>& Origins() {
  static std::map<std::string, std::string> origins;
  return origins;
}

std::string OriginOf(const std::string& path) {
  const auto origin = Origins().find(path);
  return origin == Origins().end() ? path : origin->second;
}

NfModuleStandIns& StandIns() {
  static NfModuleStandIns make;
  return make;
}

std::string HashOf(const NfRegistration& nf) {
  return absl::StrCat(
      absl::Hex(nf.example()->schema().hash(), absl::kZeroPad16));
}

// Returns OK if a module may register this NF.
absl::Status CheckPlace(const NfRegistration& nf) {
  if (const absl::Status s = nf.example()->declared(); !s.ok()) {
    return Bad(absl::StrCat("has an NF \"", std::string(nf.name),
                            "\": ", std::string(s.message())));
  }
  for (const auto& [path, nfs] : Loaded()) {
    if (std::ranges::find(nfs, nf.name, &NfRegistration::name) != nfs.end()) {
      const std::string name = absl::StrCat("\"", std::string(nf.name), "\"");
      return Bad(absl::StrCat("has an NF ", name, ", as ", OriginOf(path),
                              " has: name it ", name,
                              " for that module; snf nf deploy puts this file "
                              "in its place"));
    }
  }
  const NfRegistration* const linked = FindNf(nf.name);
  if (linked == nullptr || HashOf(*linked) == HashOf(nf)) {
    return absl::OkStatus();
  }
  return Bad(absl::StrCat(
      "has an NF \"", std::string(nf.name),
      "\" whose state differs from that of the NF in this program, from ",
      linked->where.file_name(), ": its schema is ", HashOf(nf),
      ", the other one's is ", HashOf(*linked), "; give it another name"));
}

absl::StatusOr<Nfs> Load(const std::string& path, bool replaces) {
  absl::StatusOr<NfModuleFile> file = NfModuleFile::Open(path);
  if (!file.ok()) return file.status();
  const auto bytes = file->Read();
  if (!bytes.ok()) return bytes.status();
  const absl::StatusOr<NfAbi> abi = ReadNfAbi(*bytes);
  if (!abi.ok()) return abi.status();
  if (absl::Status s = CheckNfAbi(*abi, MakeNfAbi()); !s.ok()) return s;

  CaughtNfs caught;
  if (StandIns() != nullptr) {
    if (absl::Status s = StandIns()(path); !s.ok()) return s;
  } else if (absl::Status s = file->Load(); !s.ok()) {
    return s;
  }
  if (caught.nfs().empty()) return Bad("registers no NF");
  for (const NfRegistration* nf : caught.nfs()) {
    if (replaces) continue;
    if (absl::Status s = CheckPlace(*nf); !s.ok()) return s;
  }
  caught.Add();
  return caught.nfs();
}

absl::StatusOr<const NfRegistration*> Choose(const Nfs& nfs,
                                             const std::string& name) {
  if (nfs.size() == 1) return nfs.front();
  const auto found = std::ranges::find(nfs, name, &NfRegistration::name);
  if (found != nfs.end()) return *found;
  return Bad(absl::StrCat(
      "has several NFs, none of them of the file's name: ",
      absl::StrJoin(nfs, ", ", [](std::string* to, const NfRegistration* nf) {
        to->append(nf->name);
      })));
}

absl::StatusOr<const NfRegistration*> LoadModule(const std::string& file,
                                                 bool replaces) {
  const auto named = [&file](const absl::Status& status) {
    return Bad(absl::StrCat(file, ": ", std::string(status.message())));
  };
  std::error_code error;
  const std::filesystem::path path = std::filesystem::canonical(file, error);
  if (error) return named(Bad(error.message()));
  auto loaded = Loaded().find(path);
  if (loaded == Loaded().end()) {
    absl::StatusOr<Nfs> nfs = Load(path, replaces);
    if (!nfs.ok()) return named(nfs.status());
    loaded = Loaded().emplace(path, *std::move(nfs)).first;
  }
  auto nf = Choose(loaded->second, std::filesystem::path(file).stem());
  return nf.ok() ? nf : named(nf.status());
}

}  // namespace

void set_nf_module_origin(const std::string& module, const std::string& file) {
  std::error_code error;
  const auto path = std::filesystem::canonical(module, error);
  if (!error) Origins()[path] = file;
}

std::string FileOfNf(const NfRegistration& nf) {
  for (const auto& [path, nfs] : Loaded()) {
    if (std::ranges::find(nfs, &nf) == nfs.end()) continue;
    const auto chosen = Choose(nfs, std::filesystem::path(path).stem());
    return chosen.ok() && *chosen == &nf ? OriginOf(path) : "";
  }
  return "";
}

bool NamesNfModule(std::string_view name) {
  return name.find('/') != name.npos || name.ends_with(".so");
}

absl::StatusOr<const NfRegistration*> LoadNfModule(const std::string& file) {
  return LoadModule(file, false);
}

absl::StatusOr<const NfRegistration*> ReplaceByNfModule(
    const std::string& file) {
  return LoadModule(file, true);
}

std::vector<const NfRegistration*> NfsOfModule(const std::string& file) {
  std::error_code error;
  const auto loaded = Loaded().find(std::filesystem::canonical(file, error));
  return error || loaded == Loaded().end() ? Nfs() : loaded->second;
}

void set_nf_module_stand_ins(NfModuleStandIns make) {
  StandIns() = std::move(make);
}

std::vector<std::string> LoadedNfModules() {
  std::vector<std::string> files;
  for (const auto& [path, nfs] : Loaded()) {
    const bool is_known = std::ranges::any_of(
        nfs, [](const NfRegistration* nf) { return FindNf(nf->name) == nf; });
    if (is_known) files.push_back(path);
  }
  return files;
}

}  // namespace snf
