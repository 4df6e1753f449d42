// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_BASE_MESSAGES_COMMAND_BUFFER_H_
#define SNF_BASE_MESSAGES_COMMAND_BUFFER_H_

#include <array>
#include <cstddef>
#include <cstring>
#include <new>
#include <span>
#include <type_traits>

#include "base/check.h"

namespace snf {

// The fixed room into which a core writes its commands; the caller owns it,
// executes what is in it and clears it. A core looks at `room()` before it
// starts a step and stops where the step might not fit; the caller then
// resumes it with an empty buffer. Owner-thread only.
template <typename Command, size_t kCapacity>
class CommandBuffer {
 public:
  static_assert(std::is_trivially_copyable_v<Command>);
  static_assert(sizeof(Command) <= 64);

  size_t room() const { return kCapacity - size_; }
  bool empty() const { return size_ == 0; }
  void clear() { size_ = 0; }
  void push(const Command& command) {
    SNF_CHECK(size_ < kCapacity);
    std::memcpy(&bytes_[size_++ * sizeof(Command)], &command, sizeof command);
  }
  // What make() returns, made in its place: a copy of what was written a moment
  // ago in narrower pieces has to wait for them.
  template <typename Make>
  void push_made(const Make& make) {
    SNF_CHECK(size_ < kCapacity);
    ::new (&bytes_[size_++ * sizeof(Command)]) Command(make());
  }
  std::span<const Command> commands() const {
    // Trivially copyable commands live where their bytes are (C++20
    // [intro.object]/10), without a constructor for those not yet pushed.
    return {reinterpret_cast<const Command*>(bytes_.data()), size_};
  }

 private:
  size_t size_ = 0;
  alignas(Command) std::array<std::byte, kCapacity * sizeof(Command)> bytes_;
};

}  // namespace snf

#endif  // SNF_BASE_MESSAGES_COMMAND_BUFFER_H_
