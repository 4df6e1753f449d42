// SPDX-License-Identifier: Apache-2.0
#include "runtime/logger/log_entry.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <functional>
#include <span>
#include <vector>

#include "gtest/gtest.h"
#include "runtime/logger/table_update.h"

namespace snf {
namespace {

using Bytes = std::vector<std::byte>;

constexpr LogEntryLimits kLimits = {
    .schema = 9, .max_delta_bytes = 24, .packets = 8, .pools = 2};
constexpr std::array<PieceUse, 2> kPieces = {{{70, 1, 0}, {3, 0, 1}}};
constexpr std::array<PacketHandle, 3> kEmitted = {
    PacketHandle{0}, PacketHandle{7}, PacketHandle{2}};
constexpr std::array<std::byte, 5> kDelta = {std::byte{1}, std::byte{2},
                                             std::byte{3}};

LogEntry Example() {
  LogEntry entry;
  entry.number = 1;
  entry.meta.flow = FlowId{7};
  entry.meta.clock = Clock{5};
  entry.base = Clock{4};
  entry.state = Clock{5};
  entry.schema = 9;
  entry.packet = PacketHandle{1};
  entry.outcome = LogEntry::Outcome::kRelease;
  entry.flags = LogEntry::kHasAlias;
  entry.pieces = 2;
  entry.emitted = 3;
  entry.delta_bytes = 5;
  return entry;
}

Bytes Write(const LogEntry& entry) {
  Alias alias;
  alias.group = 77;
  Bytes bytes(1024);
  const auto pieces = std::span(kPieces).first(entry.pieces);
  const auto emitted = std::span(kEmitted).first(entry.emitted);
  bytes.resize(WriteLogEntry(
      entry, pieces, emitted, entry.is(LogEntry::kHasAlias) ? &alias : nullptr,
      std::span(kDelta).first(entry.delta_bytes), bytes));
  bytes.shrink_to_fit();  // lets a sanitizer see a read behind it
  return bytes;
}

LogEntry Other(LogEntry::Kind kind) {
  LogEntry entry;
  entry.number = 2;
  entry.meta.flow = FlowId{7};
  entry.meta.clock = Clock{5};
  entry.kind = kind;
  return entry;
}

TEST(LogEntry, IsReadAsWritten) {
  const Bytes bytes = Write(Example());
  EXPECT_EQ(bytes.size(), 144u + 16u + 12u + 72u + 5u);
  const auto view = LogEntryView::Parse(kLimits, bytes);
  ASSERT_TRUE(view.has_value());
  EXPECT_EQ((*view)->meta.clock, Clock{5});
  EXPECT_EQ(view->piece(0).piece, 70u);
  EXPECT_EQ(view->piece(1).gives, 1u);
  EXPECT_EQ(view->emitted(1), PacketHandle{7});
  EXPECT_EQ(view->emitted(2), PacketHandle{2});
  EXPECT_EQ(view->alias().group, 77u);
  ASSERT_EQ(view->delta().size(), 5u);
  EXPECT_EQ(view->delta()[2], std::byte{3});
}

TEST(LogEntry, OfEachOtherKindIsRead) {
  for (const auto kind :
       {LogEntry::Kind::kForget, LogEntry::Kind::kEnded, LogEntry::Kind::kGrant,
        LogEntry::Kind::kReturn, LogEntry::Kind::kTold}) {
    EXPECT_TRUE(LogEntryView::Parse(kLimits, Write(Other(kind))).has_value());
  }
}

TEST(LogEntry, CutOrLongerIsRefused) {
  Bytes bytes = Write(Example());
  for (size_t size = 0; size < bytes.size(); ++size) {
    const Bytes cut(bytes.begin(),
                    bytes.begin() + static_cast<ptrdiff_t>(size));
    EXPECT_FALSE(LogEntryView::Parse(kLimits, cut).has_value()) << size;
  }
  bytes.push_back({});
  EXPECT_FALSE(LogEntryView::Parse(kLimits, bytes).has_value());
}

TEST(LogEntry, WithAFieldThatCannotBeIsRefused) {
  using Change = std::function<void(LogEntry&)>;
  const std::vector<Change> changes = {
      [](LogEntry& e) { e.number = 0; },
      [](LogEntry& e) { e.schema = 8; },
      [](LogEntry& e) { e.meta.flow = kNoFlow; },
      [](LogEntry& e) { e.meta.clock = e.state = Clock{0}; },
      [](LogEntry& e) { e.base = Clock{3}; },
      [](LogEntry& e) { e.state = Clock{6}; },
      [](LogEntry& e) { e.state = Clock{4}, e.flags |= LogEntry::kWhole; },
      [](LogEntry& e) { e.packet = PacketHandle{8}; },
      [](LogEntry& e) { e.packet = kNoPacket; },
      [](LogEntry& e) { e.outcome = LogEntry::Outcome::kNone; },
      [](LogEntry& e) { e.outcome = LogEntry::Outcome::kCount; },
      [](LogEntry& e) { e.reason = DropReason::kCount; },
      [](LogEntry& e) { e.link = LinkType{kLinkTypes}; },
      [](LogEntry& e) { e.flags |= 1 << 5; },
      [](LogEntry& e) { e.flags |= LogEntry::kPacketsLost; },
      [](LogEntry& e) { e.kind = LogEntry::Kind::kCount; },
      [](LogEntry& e) { e.kind = LogEntry::Kind::kForget; },
      [](LogEntry& e) { e.incarnation = 0, e.pieces = 65; },
      [](LogEntry& e) { e.emitted = 33; },
      [](LogEntry& e) { e.delta_bytes = 25; },
  };
  for (size_t i = 0; i < changes.size(); ++i) {
    LogEntry entry = Example();
    Bytes bytes = Write(entry);
    changes[i](entry);
    std::memcpy(bytes.data(), &entry, sizeof entry);
    // As long as the header says, where it can be.
    const size_t tail = entry.pieces * 8u + entry.emitted * 4u + 72u;
    bytes.resize(sizeof entry + tail + entry.delta_bytes);
    EXPECT_FALSE(LogEntryView::Parse(kLimits, bytes).has_value()) << i;
  }
}

TEST(LogEntry, WithAPartThatCannotBeIsRefused) {
  const Bytes bytes = Write(Example());
  for (const auto& [at, value] : std::vector<std::pair<size_t, uint8_t>>{
           {144 + 4, 2},   // the pool of the first piece
           {144 + 14, 2},  // gives twice
           {160, 8},       // the first packet emitted
           {160 + 8, 8},   // the last
       }) {
    Bytes changed = bytes;
    changed[at] = std::byte{value};
    EXPECT_FALSE(LogEntryView::Parse(kLimits, changed).has_value()) << at;
  }
  LogEntry grant = Other(LogEntry::Kind::kGrant);
  grant.block.pool = 2;
  EXPECT_FALSE(LogEntryView::Parse(kLimits, Write(grant)).has_value());
  LogEntry told = Other(LogEntry::Kind::kTold);
  told.argument = 2;
  EXPECT_FALSE(LogEntryView::Parse(kLimits, Write(told)).has_value());
}

// --- Updates of shared tables. ---

Bytes Updates(uint64_t first, uint32_t count, uint32_t words) {
  Bytes bytes;
  const std::vector<uint64_t> zeros(words);
  for (uint32_t i = 0; i < count; ++i) {
    AppendUpdate({.number = first + i, .table = 1, .words = words},
                 zeros.data(), bytes);
  }
  return bytes;
}

Bytes WithUpdates(const Bytes& updates) {
  LogEntry entry = Example();
  entry.argument = updates.size();
  const Alias alias;
  Bytes bytes(1024);
  bytes.resize(WriteLogEntry(entry, kPieces, kEmitted, &alias,
                             std::span(kDelta).first(entry.delta_bytes), bytes,
                             updates));
  return bytes;
}

TEST(LogEntry, BringsUpdatesBesideEverythingElse) {
  LogEntryLimits limits = kLimits;
  limits.max_update_bytes = 500;
  const Bytes updates = Updates(3, 4, 5);
  const Bytes bytes = WithUpdates(updates);
  const auto read = LogEntryView::Parse(limits, bytes);
  ASSERT_TRUE(read.has_value());
  EXPECT_TRUE(std::ranges::equal(read->updates(), updates));
  EXPECT_EQ(read->piece(1).piece, kPieces[1].piece);
  EXPECT_EQ(read->emitted(2), kEmitted[2]);
  EXPECT_TRUE(std::ranges::equal(read->delta(), std::span(kDelta).first(5)));
  std::vector<uint64_t> numbers;
  ForEachUpdate(read->updates(),
                [&](const TableUpdate& update, const std::byte*) {
                  EXPECT_EQ(update.words, 5u);
                  numbers.push_back(update.number);
                });
  EXPECT_EQ(numbers, (std::vector<uint64_t>{3, 4, 5, 6}));
}

TEST(LogEntry, RefusesUpdatesThatCannotBe) {
  LogEntryLimits limits = kLimits;
  limits.max_update_bytes = 500;
  const auto is_read = [&](const Bytes& updates) {
    return LogEntryView::Parse(limits, WithUpdates(updates)).has_value();
  };
  EXPECT_TRUE(is_read({}));
  EXPECT_FALSE(
      LogEntryView::Parse(kLimits, WithUpdates(Updates(1, 1, 2))).has_value());
  EXPECT_FALSE(is_read(Updates(1, 10, 5)));  // too many
  EXPECT_FALSE(is_read(Updates(0, 1, 5)));   // without a number
  Bytes updates = Updates(1, 2, 5);
  updates.pop_back();
  EXPECT_FALSE(is_read(updates));
  updates.resize(60);
  EXPECT_FALSE(is_read(updates));
  updates = Updates(1, 1, 5);
  updates[10] = std::byte{2};  // is_rest
  EXPECT_FALSE(is_read(updates));
  updates = Updates(1, 1, 5);
  updates[11] = std::byte{1};  // erases
  EXPECT_TRUE(is_read(updates));
  updates[10] = std::byte{1};  // the rest cannot be erased
  EXPECT_FALSE(is_read(updates));
  updates = Updates(1, 1, 5);
  updates[15] = std::byte{0xff};  // words
  EXPECT_FALSE(is_read(updates));
}

}  // namespace
}  // namespace snf
