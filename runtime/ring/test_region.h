// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RUNTIME_RING_TEST_REGION_H_
#define SNF_RUNTIME_RING_TEST_REGION_H_

#include <cstddef>
#include <cstdint>
#include <new>
#include <span>

#include "base/check.h"
#include "runtime/ring/buffer_pool.h"
#include "runtime/ring/doorbell.h"
#include "runtime/ring/loop_progress.h"
#include "runtime/ring/shared_region.h"
#include "runtime/ring/thread_link.h"

namespace snf {

// Memory for what connects event loops, for their tests.
class TestRegion {
 public:
  TestRegion()
      : region_(*SharedRegion::Create(
            {.name = "test", .bytes = 4 << 20, .huge_pages = false})),
        carver_(region_.bytes()) {}

  template <typename T>
  T* New() {
    return new (carver_.Take(sizeof(T)).data()) T;
  }
  LinkRing Ring(Doorbell* receiver) {
    return LinkRing::Make(carver_, 256, receiver);
  }
  // The same, for ends that attach more than once.
  std::span<std::byte> RingMemory() {
    const auto memory = carver_.Take(CellRing::BytesFor(256));
    SNF_CHECK(CellRing::Format(memory, 256).ok());
    return memory;
  }
  // Makes a pool with these shares; each Party attaches to it.
  void MakePool(std::span<const BufferPool::Options> shares) {
    pool_ = carver_.Take(BufferPool::BytesFor(shares));
    SNF_CHECK(BufferPool::Format(pool_, shares).ok());
  }
  BufferPool Attach(uint8_t party) {
    return *BufferPool::Attach(pool_, BufferPool::Party{party});
  }

 private:
  SharedRegion region_;
  RegionCarver carver_;
  std::span<std::byte> pool_;
};

}  // namespace snf

#endif  // SNF_RUNTIME_RING_TEST_REGION_H_
