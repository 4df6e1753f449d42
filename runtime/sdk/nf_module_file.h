// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RUNTIME_SDK_NF_MODULE_FILE_H_
#define SNF_RUNTIME_SDK_NF_MODULE_FILE_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/sdk/nf_abi.h"

namespace snf {

// An open file of a module: reading and loading use the same file, even if
// another one takes its name meanwhile. Move-only.
class NfModuleFile {
 public:
  static constexpr uint64_t kMaxBytes = 1u << 30;

  static absl::StatusOr<NfModuleFile> Open(const std::string& path);
  NfModuleFile(NfModuleFile&& other) noexcept
      : path_(std::move(other.path_)), file_(std::exchange(other.file_, -1)) {}
  NfModuleFile& operator=(NfModuleFile&&) = delete;
  ~NfModuleFile();

  absl::StatusOr<std::vector<std::byte>> Read() const;
  // Loads the module for good, which registers its NFs. A loaded file stays
  // open, for the dynamic linker knows it by its descriptor. Call once.
  absl::Status Load();

 private:
  NfModuleFile(std::string path, int file)
      : path_(std::move(path)), file_(file) {}

  std::string path_;
  int file_;
};

// Reads the ABI that a module's file names (symbol snf_nf_abi). The bytes may
// be anything: if they are not a shared object of this machine that has the
// symbol exactly once, InvalidArgument says why, such as "is not an ELF file".
absl::StatusOr<NfAbi> ReadNfAbi(std::span<const std::byte> file);

// Returns OK if a module built for `theirs` can run with `ours`, else an error
// that names both.
absl::Status CheckNfAbi(const NfAbi& theirs, const NfAbi& ours);

}  // namespace snf

#endif  // SNF_RUNTIME_SDK_NF_MODULE_FILE_H_
