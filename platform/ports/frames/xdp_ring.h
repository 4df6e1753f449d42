// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_PORTS_FRAMES_XDP_RING_H_
#define SNF_PLATFORM_PORTS_FRAMES_XDP_RING_H_

#include <linux/if_xdp.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace snf {

// One of the four rings of an AF_XDP socket, in memory that the kernel shares:
// the fill and the completion ring have numbers of bytes in the frames' memory,
// the receive and the transmit ring xdp_desc. This process writes the entries
// of the rings that it produces (fill, transmit) and reads the entries of the
// others. Owner-thread only.
template <typename Entry>
class XdpRing {
 public:
  XdpRing() = default;
  XdpRing(const XdpRing&) = delete;
  XdpRing& operator=(const XdpRing&) = delete;
  ~XdpRing() {
    if (memory_ != nullptr) munmap(memory_, bytes_);
  }

  // Maps the ring of `entries`, a power of 2, at the socket's `page_offset`.
  // Returns false, with errno, if it cannot be. Call it once.
  bool Map(int socket, off_t page_offset, const xdp_ring_offset& offset,
           uint32_t entries) {
    bytes_ = offset.desc + entries * sizeof(Entry);
    void* const mapped = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE,
                              MAP_SHARED | MAP_POPULATE, socket, page_offset);
    if (mapped == MAP_FAILED) return false;
    memory_ = static_cast<std::byte*>(mapped);
    producer_ = reinterpret_cast<uint32_t*>(memory_ + offset.producer);
    consumer_ = reinterpret_cast<uint32_t*>(memory_ + offset.consumer);
    flags_ = reinterpret_cast<uint32_t*>(memory_ + offset.flags);
    entries_ = reinterpret_cast<Entry*>(memory_ + offset.desc);
    size_ = entries;
    return true;
  }

  // For a ring that this process consumes: returns the number of waiting
  // entries. The i-th is valid until they are released.
  uint32_t waiting() const { return Load(producer_) - at_; }
  const Entry& waiting_at(uint32_t i) const {
    return entries_[(at_ + i) & (size_ - 1)];
  }
  void Release(uint32_t count) {
    at_ += count;
    Store(consumer_, at_);
  }

  // For a ring that this process produces: returns the number of free entries.
  // Pushed entries belong to the kernel from Publish on.
  uint32_t room() const { return size_ - (at_ - Load(consumer_)); }
  void Push(const Entry& entry) { entries_[at_++ & (size_ - 1)] = entry; }
  void Publish() { Store(producer_, at_); }
  // Returns true if the kernel has not taken all published entries.
  bool has_unsent() const { return Load(consumer_) != at_; }

  // Returns true if the kernel wants to be called to look at the ring.
  bool wants_wakeup() const {
    return (std::atomic_ref(*flags_).load(std::memory_order_seq_cst) &
            XDP_RING_NEED_WAKEUP) != 0;
  }

 private:
  static uint32_t Load(uint32_t* position) {
    return std::atomic_ref(*position).load(std::memory_order_acquire);
  }
  static void Store(uint32_t* position, uint32_t value) {
    std::atomic_ref(*position).store(value, std::memory_order_release);
  }

  std::byte* memory_ = nullptr;
  size_t bytes_ = 0;
  uint32_t* producer_ = nullptr;
  uint32_t* consumer_ = nullptr;
  uint32_t* flags_ = nullptr;
  Entry* entries_ = nullptr;
  uint32_t size_ = 0;
  uint32_t at_ = 0;  // this process's position
};

}  // namespace snf

#endif  // SNF_PLATFORM_PORTS_FRAMES_XDP_RING_H_
