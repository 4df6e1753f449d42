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

// Holds the commands of a core, in room of fixed size. The caller owns the
// buffer, executes the commands in it and clears it. A core looks at `room()`
// before it starts a step, and stops if the step might not fit; the caller then
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
  // Pushes what make() returns, and builds it in place. Copying a command that
  // was just written in narrower pieces would stall until they are stored.
  template <typename Make>
  void push_made(const Make& make) {
    SNF_CHECK(size_ < kCapacity);
    ::new (&bytes_[size_++ * sizeof(Command)]) Command(make());
  }
  std::span<const Command> commands() const {
    // Trivially copyable commands begin to live where their bytes are written
    // (C++20 [intro.object]/10); those not yet pushed are never constructed.
    return {reinterpret_cast<const Command*>(bytes_.data()), size_};
  }

 private:
  size_t size_ = 0;
  alignas(Command) std::array<std::byte, kCapacity * sizeof(Command)> bytes_;
};

}  // namespace snf

#endif  // SNF_BASE_MESSAGES_COMMAND_BUFFER_H_
