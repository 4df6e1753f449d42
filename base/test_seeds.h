// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_BASE_TEST_SEEDS_H_
#define SNF_BASE_TEST_SEEDS_H_

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ranges>
#include <string>
#include <string_view>

namespace snf {

// The seeds of a random test: `count` of them from `from` on, or `long_count`
// with SNF_LONG_TESTS=1. SNF_TEST_SEED=n chooses the seed n alone,
// SNF_TEST_SEED=m-n those from m to n. Under a sanitizer, where a run takes ten
// times as long, a quarter of `count` is run: release runs them all.
struct TestSeeds {
  TestSeeds(uint64_t count, uint64_t long_count, uint64_t from = 1)
      : first(from) {
    const char* const long_tests = std::getenv("SNF_LONG_TESTS");
    const bool is_long =
        long_tests != nullptr && std::string_view(long_tests) == "1";
    last = from + (is_long ? long_count : count) - 1;
    constexpr uint64_t kFew = 8;
    if (kSanitized && !is_long && count >= kFew) {
      last = from + count / 4 - 1;
      is_part = true;
    }
    const char* const chosen = std::getenv("SNF_TEST_SEED");
    is_chosen = chosen != nullptr;
    if (!is_chosen) return;
    is_part = true;
    char* end = nullptr;
    first = last = std::strtoull(chosen, &end, 10);
    if (*end == '-') last = std::strtoull(end + 1, nullptr, 10);
  }
  explicit TestSeeds(uint64_t count) : TestSeeds(count, count) {}

  // Returns the seed of a test that runs one: `usual`, unless one is chosen.
  // Prints it.
  static uint64_t One(uint64_t usual) {
    const TestSeeds seeds(1);
    const uint64_t seed = seeds.is_chosen ? seeds.first : usual;
    std::printf("%s\n", Name(seed).c_str());
    return seed;
  }
  // Returns what chooses the seed, for a trace.
  static std::string Name(uint64_t seed) {
    return "SNF_TEST_SEED=" + std::to_string(seed);
  }
  // Prints now and then how far a long run has come.
  void Note(uint64_t seed) const {
    constexpr uint64_t kEach = 1000;
    if (seed % kEach != 0 || count() <= kEach) return;
    std::printf("seed %llu of %llu\n", static_cast<unsigned long long>(seed),
                static_cast<unsigned long long>(last));
    std::fflush(stdout);
  }
  auto all() const { return std::views::iota(first, last + 1); }
  uint64_t count() const { return last - first + 1; }

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  static constexpr bool kSanitized = true;
#else
  static constexpr bool kSanitized = false;
#endif

  uint64_t first;
  uint64_t last;
  bool is_chosen = false;
  // Sums over seeds say nothing, since not all seeds are run.
  bool is_part = false;
};

}  // namespace snf

#endif  // SNF_BASE_TEST_SEEDS_H_
