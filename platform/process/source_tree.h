// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_PROCESS_SOURCE_TREE_H_
#define SNF_PLATFORM_PROCESS_SOURCE_TREE_H_

#include <cstdint>

namespace snf {

// The trees that the program was built from and in: absolute paths, which only
// source_tree.cc knows, so that all else compiles alike in every clone.
extern const char kSourceDirectory[];
extern const char kBuildDirectory[];

// `snf replay` runs this capture when no file is named, on units small enough
// that there is packing to see.
extern const char kBundledCapture[];
inline constexpr int64_t kBundledCaptureUnitBps = 300'000'000;

}  // namespace snf

#endif  // SNF_PLATFORM_PROCESS_SOURCE_TREE_H_
