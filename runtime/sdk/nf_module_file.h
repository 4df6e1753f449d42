// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RUNTIME_SDK_NF_MODULE_FILE_H_
#define SNF_RUNTIME_SDK_NF_MODULE_FILE_H_

#include <cstddef>
#include <span>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/sdk/nf_abi.h"

namespace snf {

// What a module's file says that it was built for (symbol snf_nf_abi), whatever
// these bytes are. InvalidArgument where they are no shared object of this
// machine that has that symbol once: "is no ELF file".
absl::StatusOr<NfAbi> ReadNfAbi(std::span<const std::byte> file);

// Whether what was built for `theirs` can run with `ours`; if not, both.
absl::Status CheckNfAbi(const NfAbi& theirs, const NfAbi& ours);

}  // namespace snf

#endif  // SNF_RUNTIME_SDK_NF_MODULE_FILE_H_
