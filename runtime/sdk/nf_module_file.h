// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RUNTIME_SDK_NF_MODULE_FILE_H_
#define SNF_RUNTIME_SDK_NF_MODULE_FILE_H_

#include <cstddef>
#include <span>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/sdk/nf_abi.h"

namespace snf {

// Reads the ABI that a module's file names (symbol snf_nf_abi). The bytes may
// be anything: if they are not a shared object of this machine that has the
// symbol exactly once, InvalidArgument says why, as "is no ELF file".
absl::StatusOr<NfAbi> ReadNfAbi(std::span<const std::byte> file);

// Returns OK if a module built for `theirs` can run with `ours`, else an error
// that names both.
absl::Status CheckNfAbi(const NfAbi& theirs, const NfAbi& ours);

}  // namespace snf

#endif  // SNF_RUNTIME_SDK_NF_MODULE_FILE_H_
