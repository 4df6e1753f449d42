// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_BASE_TEST_ALLOCATIONS_H_
#define SNF_BASE_TEST_ALLOCATIONS_H_

#include <cstddef>
#include <cstdint>

namespace snf {

// What global operator new was asked for so far, in all its forms and by all
// threads: a program in which this is called has another one, which counts.
uint64_t Allocations();

// Bytes that malloc has handed out, which LazyArray takes without operator new;
// 0 under AddressSanitizer.
size_t BytesInUse();

}  // namespace snf

#endif  // SNF_BASE_TEST_ALLOCATIONS_H_
