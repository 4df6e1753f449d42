// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_OPTIONS_STORE_FLAG_H_
#define SNF_PLATFORM_OPTIONS_STORE_FLAG_H_

#include <string>

#include "absl/status/statusor.h"
#include "runtime/store/store_options.h"

namespace snf {

// Reads the options of an external store from 'KEY=VALUE …', as in
// 'round_trips=12us,23us,32us,64us,180us operation=2us threads=1 poll=50us
// timeout=10ms patience=1s'; what is not named keeps its default. Errors:
// InvalidArgument, which names key and value.
absl::StatusOr<StoreOptions> ParseStore(const std::string& text);
// Returns the text with all keys, which ParseStore reads back.
std::string FormatStore(const StoreOptions& store);

}  // namespace snf

#endif  // SNF_PLATFORM_OPTIONS_STORE_FLAG_H_
