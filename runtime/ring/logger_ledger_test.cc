// SPDX-License-Identifier: Apache-2.0
#include "runtime/ring/logger_ledger.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "base/rng.h"

namespace snf {
namespace {

constexpr UnitId kUnit{3};
constexpr std::array<uint32_t, 2> kPools = {2, 3};  // words

using Words = std::map<std::pair<uint16_t, uint32_t>, uint64_t>;

// Memory that a child shares.
class Memory {
 public:
  Memory()
      : data_(mmap(nullptr, kBytes, PROT_READ | PROT_WRITE,
                   MAP_SHARED | MAP_ANONYMOUS, -1, 0)) {}
  ~Memory() { munmap(data_, kBytes); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  std::span<std::byte> bytes() const {
    return {static_cast<std::byte*>(data_), kBytes / 2};
  }
  // What the child has come to.
  std::atomic<uint64_t>& at() const {
    return *reinterpret_cast<std::atomic<uint64_t>*>(bytes().data() +
                                                     kBytes / 2);
  }

 private:
  static constexpr size_t kBytes = 4'096;
  void* data_;
};

Words WordsOf(const LoggerLedger& ledger) {
  Words words;
  ledger.ForEachWord(kUnit, [&](const PieceBlock& word) {
    EXPECT_EQ(word.unit, kUnit);
    words[{word.pool, word.word}] = word.mask;
  });
  return words;
}

// The change that the entry at that position brings.
PieceBlock BlockOf(uint64_t position) {
  Rng rng(position);
  const auto pool = static_cast<uint16_t>(rng.Below(kPools.size()));
  return {.word = static_cast<uint32_t>(rng.Below(kPools[pool])),
          .pool = pool,
          .mask = rng.Next()};
}

TEST(LoggerLedger, HasEachEntryOnceHoweverOftenItComes) {
  const Memory memory;
  LoggerLedger ledger(memory.bytes(), kPools);
  ledger.TurnOver(10, {.word = 1, .pool = 1, .mask = 0b111});
  ledger.TurnOver(14, {.word = 1, .pool = 1, .mask = 0b010});
  const Words after = {{{1, 1}, 0b101}};
  EXPECT_EQ(WordsOf(ledger), after);
  LoggerLedger next(memory.bytes(), kPools);
  EXPECT_EQ(WordsOf(next), after);
  next.TurnOver(10, {.word = 1, .pool = 1, .mask = 0b111});
  next.TurnOver(14, {.word = 1, .pool = 1, .mask = 0b010});
  EXPECT_EQ(WordsOf(next), after);
  // Pieces that came back in another way are no entry.
  next.TurnOver({.word = 1, .pool = 1, .mask = 0b001});
  next.TurnOver(14, {.word = 1, .pool = 1, .mask = 0b010});
  next.TurnOver(15, {.word = 0, .pool = 0, .mask = 0b1});
  EXPECT_EQ(WordsOf(next), (Words{{{0, 0}, 0b1}, {{1, 1}, 0b100}}));
}

// The example in the header: its process was killed in between.
TEST(LoggerLedger, MakesAChangeThatIsNotedButNotMade) {
  const Memory memory;
  const auto words = memory.bytes().subspan(LoggerLedger::BytesFor(0));
  LoggerLedger ledger(memory.bytes(), kPools);
  ledger.TurnOver(10, {.word = 1, .pool = 1, .mask = 0b111});
  const std::vector<std::byte> before(words.begin(), words.end());
  ledger.TurnOver(14, {.word = 1, .pool = 1, .mask = 0b010});
  std::ranges::copy(before, words.begin());
  LoggerLedger next(memory.bytes(), kPools);
  next.TurnOver(14, {.word = 1, .pool = 1, .mask = 0b010});
  EXPECT_EQ(WordsOf(next), (Words{{{1, 1}, 0b101}}));
}

TEST(LoggerLedger, LeavesOutPiecesThatDoNotExist) {
  const Memory memory;
  LoggerLedger ledger(memory.bytes(), kPools);
  ledger.TurnOver(1, {.word = 2, .pool = 0, .mask = 1});
  ledger.TurnOver(2, {.word = 3, .pool = 1, .mask = 1});
  ledger.TurnOver(3, {.word = 0, .pool = 2, .mask = 1});
  EXPECT_TRUE(WordsOf(ledger).empty());
}

// Entries up to where the process before had come, and some before that, which
// come once more, whenever it was killed.
TEST(LoggerLedger, HasEachEntryOnceWheneverItsProcessIsKilled) {
  constexpr int kKills = 100;
  constexpr uint64_t kMost = 300;  // entries of a process
  const Memory memory;
  uint64_t begin = 1;
  for (int kill = 0; kill < kKills; ++kill) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      LoggerLedger ledger(memory.bytes(), kPools);
      for (uint64_t position = begin; position < begin + kMost; ++position) {
        memory.at() = position;
        ledger.TurnOver(position, BlockOf(position));
      }
      while (true) pause();
    }
    const uint64_t until = begin + 3 + static_cast<uint64_t>(kill) % 250;
    while (memory.at() < until) std::this_thread::yield();
    ::kill(child, SIGKILL);
    ASSERT_EQ(waitpid(child, nullptr, 0), child);
    // It has a run of entries from the first on.
    LoggerLedger ledger(memory.bytes(), kPools);
    const Words found = WordsOf(ledger);
    Words wanted;
    uint64_t last = 0;
    for (uint64_t position = 1; position < begin; ++position) {
      const PieceBlock block = BlockOf(position);
      wanted[{block.pool, block.word}] ^= block.mask;
      last = position;
    }
    const auto is_found = [&] {
      Words some = wanted;
      std::erase_if(some, [](const auto& word) { return word.second == 0; });
      return some == found;
    };
    while (!is_found() && last < begin + 2 * kMost) {
      const PieceBlock block = BlockOf(++last);
      wanted[{block.pool, block.word}] ^= block.mask;
    }
    ASSERT_TRUE(is_found()) << "after kill " << kill;
    begin = last > 3 ? last - 2 : 1;
  }
}

}  // namespace
}  // namespace snf
