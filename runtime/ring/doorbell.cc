// SPDX-License-Identifier: Apache-2.0
#include "runtime/ring/doorbell.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

namespace snf {
namespace {

// Calls without FUTEX_PRIVATE_FLAG, since several processes share the word.
void Futex(std::atomic<uint32_t>& word, int operation, uint32_t operand,
           const timespec* timeout) {
  syscall(SYS_futex, &word, operation, operand, timeout, nullptr, 0);
}

}  // namespace

void Doorbell::Wake() {
  rings_.fetch_add(1, std::memory_order_seq_cst);
  Futex(rings_, FUTEX_WAKE, 1, nullptr);
}

void Doorbell::SleepWhile(uint32_t rings, Nanos timeout) {
  if (timeout == Nanos::max()) {
    Futex(rings_, FUTEX_WAIT, rings, nullptr);
  } else if (timeout > Nanos{0}) {
    constexpr int64_t kSecond = Seconds(1).ns;
    const timespec time = {.tv_sec = timeout.ns / kSecond,
                           .tv_nsec = timeout.ns % kSecond};
    Futex(rings_, FUTEX_WAIT, rings, &time);
  }
}

}  // namespace snf
