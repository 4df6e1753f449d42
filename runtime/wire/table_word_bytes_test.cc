// SPDX-License-Identifier: Apache-2.0
//
// Reads any bytes as messages about a shared table: from units, from loggers to
// a home, and from a home to loggers. A message that passes a decoder must be
// safe for its receiver, and logged updates count at most once.
#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <vector>

#include "base/check.h"
#include "base/rng.h"
#include "runtime/ring/buffer_pool.h"
#include "runtime/sdk/nf.h"
#include "runtime/sdk/shared_table.h"
#include "runtime/tables/table_homes.h"
#include "runtime/tables/update_sender.h"
#include "runtime/wire/decoder.h"

namespace snf {
namespace {

constexpr uint32_t kUnits = 4;

class Counting final : public NetworkFunction {
 public:
  Counting() {
    declare_shared<uint64_t, uint64_t>("n", 8, SumOfWords{},
                                       TableReader::kReport);
    declare_shared<uint32_t, uint64_t>("m", 2, SumOfWords{},
                                       TableReader::kReport);
  }
  Verdict process_packet(Packet& /*packet*/, FlowState& /*flow*/) override {
    return Verdict::forward();
  }
};

// A controller's end of everything, as of a run with one loop of units.
class Receiver {
 public:
  explicit Receiver(bool logs_tables)
      : memory_(BufferPool::BytesFor(kShares) / sizeof(Line) + 1),
        homes_(Counting(), kUnits, TableOptions{}) {
    const auto bytes = std::as_writable_bytes(std::span(memory_));
    SNF_CHECK(BufferPool::Format(bytes, kShares).ok());
    pool_.emplace(*BufferPool::Attach(bytes, BufferPool::Party{0}));
    words_.emplace(
        UnitsOfLoop(0, 1, kUnits),
        WordsToController::Limits{
            .max_flows = 8,
            .sender = logs_tables ? WordsToController::Sender::kLoggers
                                  : WordsToController::Sender::kUnits,
            .logs_tables = logs_tables},
        *pool_, homes_, faults_);
  }

  void Take(const TableMessage& message) {
    const auto bytes = std::as_bytes(std::span(&message, 1));
    if (!words_->IsSound(Cell::OfTable(), bytes)) return;
    ++sound_;
    const auto ignore = [](const TableMessage&) {};
    const bool is_logged = message.kind == TableMessage::Kind::kLogged;
    homes_.on_message(Instant{1}, message, ignore);
    const uint64_t version = homes_.home(message.table).version();
    homes_.on_message(Instant{1}, message, ignore);
    SNF_CHECK(!is_logged || homes_.home(message.table).version() == version);
  }
  uint64_t sound() const { return sound_; }

 private:
  static constexpr BufferPool::Options kShares[] = {
      {.small = 2, .medium = 1, .large = 0},
      {.small = 2, .medium = 1, .large = 0}};
  struct alignas(128) Line {
    std::array<std::byte, 128> bytes;
  };
  std::vector<Line> memory_;
  TableHomes homes_;
  std::optional<BufferPool> pool_;
  WireFaults faults_;
  std::optional<WordsToController> words_;
  uint64_t sound_ = 0;
};

// A logger with three updates, which hears the answers.
void Answer(const TableMessage& message) {
  static const TableShape shape = {
      .name = "n", .key_bytes = 8, .value_bytes = 8, .max_entries = 8};
  WireFaults faults;
  const OrdersToLoggers orders(UnitsOfLoop(0, 1, kUnits), 1, faults);
  if (!orders.IsSound(message)) return;
  UpdateLog log(std::span(&shape, 1), 1);
  for (uint64_t number = 1; number <= 3; ++number) {
    const uint64_t words[] = {number, 1};
    std::vector<std::byte> update;
    AppendUpdate({.number = number, .words = 2}, words, update);
    log.Add(number, update);
  }
  UpdateSender sender(message.unit, TableOptions{}, 1);
  TableMessage out;
  sender.on_message(Instant{1}, message, log, out);
  while (sender.on_timers(Instant{1}, log, out)) {
  }
  SNF_CHECK(log.added(0) == 3 && log.gone(0) <= 3);
}

// Returns a message most of whose words are small numbers, so that many are
// sound, and some anything.
TableMessage AnyMessage(Rng& rng) {
  TableMessage message;
  std::array<uint32_t, sizeof message / sizeof(uint32_t)> words;
  for (uint32_t& word : words) {
    word =
        static_cast<uint32_t>(rng.Below(16) == 0 ? rng.Next() : rng.Below(4));
  }
  std::memcpy(static_cast<void*>(&message), words.data(), sizeof message);
  message.kind = static_cast<TableMessage::Kind>(rng.Below(8));
  message.leaves = rng.Below(2) == 0;
  if (rng.Below(2) == 0) message.rest = TableMessage::kNoRest;
  message.entries = static_cast<uint8_t>(rng.Below(4));
  message.table = static_cast<uint16_t>(rng.Below(3));
  message.unit = static_cast<UnitId>(rng.Below(kUnits + 1));
  return message;
}

TEST(TableWordsOfAnyBytes, AreSafeForTheirReceivers) {
  uint64_t sound = 0;
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE(seed);
    Rng rng(seed);
    Receiver of_units(/*logs_tables=*/false);
    Receiver of_loggers(/*logs_tables=*/true);
    for (int i = 0; i < 100; ++i) {
      const TableMessage message = AnyMessage(rng);
      of_units.Take(message);
      of_loggers.Take(message);
      Answer(message);
    }
    sound += of_units.sound() + of_loggers.sound();
  }
  EXPECT_GT(sound, 100u);
}

}  // namespace
}  // namespace snf
