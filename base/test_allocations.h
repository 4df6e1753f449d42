// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_BASE_TEST_ALLOCATIONS_H_
#define SNF_BASE_TEST_ALLOCATIONS_H_

#include <cstddef>
#include <cstdint>

namespace snf {

// Returns how often global operator new was called so far, in all its forms and
// by all threads. A program that links this function gets an operator new that
// counts.
uint64_t Allocations();

// Returns the bytes that malloc has handed out and not got back, with those of
// LazyArray, which bypasses operator new. 0 under AddressSanitizer.
size_t BytesInUse();

}  // namespace snf

#endif  // SNF_BASE_TEST_ALLOCATIONS_H_
