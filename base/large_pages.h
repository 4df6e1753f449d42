// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_BASE_LARGE_PAGES_H_
#define SNF_BASE_LARGE_PAGES_H_

#include <cstddef>

namespace snf {

// What the memory of a table is to come in. Large pages (2 MB on x86-64) spare
// the processor most walks through its page tables, which is what a table waits
// for that is many times larger than the caches; but all of one is used up as
// soon as a byte of it is touched.
enum class Pages : unsigned char {
  kSmall,
  // For a table whose entries are used from the first on: small ones in its
  // first 2 MB.
  kGrowing,
  // For one that is used all over as soon as there is something in it.
  kLarge,
};

// Asks the system for these for a table that was not touched yet. A hint: a
// system that has no large pages goes on as before.
void AskForPages(Pages pages, void* table, size_t bytes);

}  // namespace snf

#endif  // SNF_BASE_LARGE_PAGES_H_
