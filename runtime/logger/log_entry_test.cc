// SPDX-License-Identifier: Apache-2.0
#include "runtime/logger/log_entry.h"

#include <array>
#include <cstddef>
#include <cstring>
#include <functional>
#include <vector>

#include "gtest/gtest.h"

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

}  // namespace
}  // namespace snf
