// SPDX-License-Identifier: Apache-2.0
#include "base/test_allocations.h"

#include <malloc.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <new>

namespace snf {
namespace {

std::atomic<uint64_t> allocations = 0;

// Returns nullptr if there is no memory.
void* TriedAllocation(size_t size, size_t alignment) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  const size_t whole = (size + alignment - 1) / alignment * alignment;
  return std::aligned_alloc(alignment, std::max(whole, alignment));
}

void* CountedAllocation(size_t size, size_t alignment) {
  void* p = TriedAllocation(size, alignment);
  if (p == nullptr) throw std::bad_alloc();
  return p;
}

}  // namespace

uint64_t Allocations() { return allocations.load(std::memory_order_relaxed); }

size_t BytesInUse() {
  const struct mallinfo2 info = mallinfo2();
  return info.uordblks + info.hblkhd;
}

}  // namespace snf

// The forms for arrays end up in these. AddressSanitizer has forms of its own
// that do not throw (std::stable_sort calls one), and their memory is not for
// std::free.
void* operator new(size_t size) {
  return snf::CountedAllocation(size, alignof(std::max_align_t));
}
void* operator new(size_t size, std::align_val_t alignment) {
  return snf::CountedAllocation(size, static_cast<size_t>(alignment));
}
void* operator new(size_t size, const std::nothrow_t&) noexcept {
  return snf::TriedAllocation(size, alignof(std::max_align_t));
}
void* operator new(size_t size, std::align_val_t alignment,
                   const std::nothrow_t&) noexcept {
  return snf::TriedAllocation(size, static_cast<size_t>(alignment));
}
void operator delete(void* p) noexcept { std::free(p); }
void operator delete(void* p, size_t) noexcept { std::free(p); }
void operator delete(void* p, std::align_val_t) noexcept { std::free(p); }
void operator delete(void* p, size_t, std::align_val_t) noexcept {
  std::free(p);
}
void operator delete(void* p, const std::nothrow_t&) noexcept { std::free(p); }
void operator delete(void* p, std::align_val_t,
                     const std::nothrow_t&) noexcept {
  std::free(p);
}
