// SPDX-License-Identifier: Apache-2.0
//
// Two threads write the same word without a lock. ThreadSanitizer has to say
// so: where it does not, the tests that it finds nothing in show nothing.
#include <thread>

int main() {
  int written_by_both = 0;
  const auto write = [&written_by_both] {
    for (int i = 0; i < 1'000; ++i) ++written_by_both;
  };
  std::thread one(write);
  std::thread other(write);
  one.join();
  other.join();
  return written_by_both == 0 ? 1 : 0;
}
