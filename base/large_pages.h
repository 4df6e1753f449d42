// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_BASE_LARGE_PAGES_H_
#define SNF_BASE_LARGE_PAGES_H_

#include <cstddef>

namespace snf {

// The size of the memory pages for a table. Large pages (2 MB on x86-64) spare
// the processor most walks through its page tables, on which a table many times
// larger than the caches spends most of its waiting; but touching one byte of a
// large page uses up all of it.
enum class Pages : unsigned char {
  kSmall,
  // For a table that fills up from its first entry on: the first 2 MB stay in
  // small pages, so that a nearly empty table costs little.
  kGrowing,
  // For a table whose entries are scattered, such as a hash table.
  kLarge,
};

// Asks the system for such pages for a table that was not touched yet. This is
// a hint: without large pages the system serves the table with small ones.
void AskForPages(Pages pages, void* table, size_t bytes);

// Returns memory of the caller's own, full of zeroes, at the beginning of a
// page; each page costs memory from its first touch on. Returns null if the
// address space does not suffice.
void* MapZeroPages(size_t bytes);
// Gives back the memory that MapZeroPages(bytes) returned.
void UnmapPages(void* pages, size_t bytes);

}  // namespace snf

#endif  // SNF_BASE_LARGE_PAGES_H_
