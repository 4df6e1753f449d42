// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_BASE_LAZY_ARRAY_H_
#define SNF_BASE_LAZY_ARRAY_H_

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>
#include <new>
#include <span>
#include <type_traits>
#include <utility>

#include "base/large_pages.h"

namespace snf {

// A fixed array of zeroed T whose pages the system gives on first touch, so
// that a table may be sized for its limit at start and cost only what is used.
// T is trivially copyable and valid when all its bytes are zero. A value:
// copying copies every element (and touches them). Owner-thread only.
template <typename T>
class LazyArray {
 public:
  static_assert(std::is_trivially_copyable_v<T>);
  static_assert(alignof(T) <= 64);

  LazyArray() = default;
  // Throws std::bad_alloc if the address space does not suffice. A copy of the
  // array has small pages, whatever the original has.
  explicit LazyArray(size_t size, Pages pages = Pages::kSmall)
      : memory_(AllocateZeroed(size)),
        data_(Align(memory_.get())),
        size_(size) {
    AskForPages(pages, data_, size * sizeof(T));
  }
  LazyArray(const LazyArray& other)
      : memory_(AllocateToCopy(other.size_)),
        data_(Align(memory_.get())),
        size_(other.size_) {
    if (size_ != 0) std::memcpy(data(), other.data(), size_ * sizeof(T));
  }
  LazyArray(LazyArray&& other) noexcept
      : memory_(std::move(other.memory_)),
        data_(std::exchange(other.data_, nullptr)),
        size_(std::exchange(other.size_, 0)) {}
  LazyArray& operator=(LazyArray other) noexcept {
    std::swap(memory_, other.memory_);
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~LazyArray() = default;

  size_t size() const { return size_; }
  T* data() { return data_; }
  const T* data() const { return data_; }
  T& operator[](size_t i) { return data()[i]; }
  const T& operator[](size_t i) const { return data()[i]; }
  std::span<T> span() { return {data(), size_}; }

 private:
  struct Free {
    size_t mapped_bytes = 0;  // 0: it came from calloc
    void operator()(std::byte* p) const {
      if (mapped_bytes != 0) {
        UnmapPages(p, mapped_bytes);
      } else {
        std::free(p);
      }
    }
  };
  using Memory = std::unique_ptr<std::byte[], Free>;
  static constexpr size_t kLine = 64;

  // Bytes of `size` elements, wherever the first cache line begins.
  static size_t BytesOf(size_t size) {
    if (size > (std::numeric_limits<size_t>::max() - kLine) / sizeof(T)) {
      throw std::bad_alloc();
    }
    return size * sizeof(T) + kLine;
  }
  static Memory AllocateZeroed(size_t size) {
    const size_t bytes = BytesOf(size);
    // calloc would write zeroes, and so touch every page, where it serves a
    // large block from memory that was freed before.
    constexpr size_t kLeastMapped = size_t{128} << 10;
    const bool mapped = bytes >= kLeastMapped;
    void* const p = mapped ? MapZeroPages(bytes) : std::calloc(bytes, 1);
    if (p == nullptr) throw std::bad_alloc();
    return Memory(static_cast<std::byte*>(p), Free{mapped ? bytes : 0});
  }
  // Each byte is written at once: pages that were used before serve best.
  static Memory AllocateToCopy(size_t size) {
    void* const p = std::malloc(BytesOf(size));
    if (p == nullptr) throw std::bad_alloc();
    return Memory(static_cast<std::byte*>(p), Free{});
  }
  static T* Align(std::byte* p) {
    const auto address = reinterpret_cast<uintptr_t>(p);
    return reinterpret_cast<T*>((address + kLine - 1) & ~(kLine - 1));
  }

  Memory memory_;
  T* data_ = nullptr;  // in memory_, at the beginning of a cache line
  size_t size_ = 0;
};

}  // namespace snf

#endif  // SNF_BASE_LAZY_ARRAY_H_
