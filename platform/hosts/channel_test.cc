// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/rng.h"
#include "platform/hosts/channel_datagram.h"
#include "platform/hosts/channel_receiver.h"
#include "platform/hosts/channel_sender.h"
#include "platform/hosts/cut_channels.h"
#include "platform/hosts/geneve_link.h"
#include "runtime/mirror/mirror_frame.h"

namespace snf {
namespace {

using Bytes = std::vector<std::byte>;

std::byte ByteAt(uint64_t offset) {
  return static_cast<std::byte>(offset * 31 + (offset >> 8) * 7);
}
Bytes StreamOf(uint64_t from, size_t size) {
  Bytes bytes(size);
  for (size_t i = 0; i < size; ++i) bytes[i] = ByteAt(from + i);
  return bytes;
}

// A way for the datagrams of a channel and its acknowledgements, which loses,
// doubles and reorders.
struct Way {
  struct Datagram {
    bool is_ack = false;
    uint64_t number = 0;
    uint64_t offset = 0;
    Bytes bytes{};
    ChannelAck ack{};
  };

  Way(uint64_t seed, uint32_t lost, uint32_t doubled, Nanos most)
      : rng(seed), loss(lost), doubling(doubled), longest(most) {}

  void Send(Instant now, const Datagram& datagram) {
    for (int copies = rng.Chance(doubling) ? 2 : 1; copies > 0; --copies) {
      if (rng.Chance(loss)) {
        ++losses;
        continue;
      }
      const auto after =
          static_cast<int64_t>(rng.Below(static_cast<uint64_t>(longest.ns)));
      under_way.emplace(now + Nanos{after + 1'000}, datagram);
    }
  }

  Rng rng;
  uint32_t loss;
  uint32_t doubling;
  Nanos longest;
  uint64_t losses = 0;
  std::multimap<Instant, Datagram> under_way{};
};

// Sends all of a stream, in writes of random lengths; returns the time taken.
struct Journey {
  explicit Journey(uint64_t seed)
      : rng(seed),
        way(seed + 1, static_cast<uint32_t>(rng.Below(20'000)),
            static_cast<uint32_t>(rng.Below(10'000)),
            Microseconds(20 + static_cast<int64_t>(rng.Below(3'000)))) {}

  void Pump() {
    while (true) {
      // The path may become shorter or longer at any time.
      const size_t most = 1 + rng.Below(2'000);
      const auto piece = sender.Next(now, most);
      if (!piece.has_value()) return;
      ASSERT_LE(piece->bytes.size(), most);
      way.Send(now, {.number = piece->number,
                     .offset = piece->offset,
                     .bytes = Bytes(piece->bytes.begin(), piece->bytes.end())});
    }
  }
  void Arrive(const Way::Datagram& datagram) {
    if (datagram.is_ack) {
      const absl::Status status = sender.TakeAck(now, datagram.ack);
      ASSERT_TRUE(status.ok()) << status;
      return;
    }
    ASSERT_TRUE(
        receiver.Take(datagram.number, datagram.offset, datagram.bytes));
    // The user may be slow.
    const size_t ready = receiver.ready().size();
    const size_t used = rng.Chance(50'000) ? ready : rng.Below(ready + 1);
    for (size_t i = 0; i < used; ++i) {
      ASSERT_EQ(receiver.ready()[i], ByteAt(consumed + i)) << consumed + i;
    }
    receiver.Consume(used);
    consumed += used;
    way.Send(now, {.is_ack = true, .ack = receiver.Ack()});
  }
  void Go(uint64_t all) {
    uint64_t written = 0;
    for (uint64_t steps = 0; consumed < all || sender.waiting() > 0; ++steps) {
      ASSERT_LT(steps, 2'000'000u);
      ASSERT_FALSE(testing::Test::HasFatalFailure());
      if (written < all && rng.Chance(20'000)) {
        const size_t size =
            std::min<uint64_t>(1 + rng.Below(30'000), all - written);
        sender.Write(StreamOf(written, size));
        written += size;
      }
      Pump();
      const Instant due = sender.due();
      if (way.under_way.empty() && due == Instant::max()) continue;
      if (way.under_way.empty() || due < way.under_way.begin()->first) {
        now = std::max(now, due);
        sender.OnDue(now);
        continue;
      }
      const auto next = way.under_way.begin();
      now = std::max(now, next->first);
      const Way::Datagram datagram = next->second;
      way.under_way.erase(next);
      Arrive(datagram);
    }
  }

  Rng rng;
  Way way;
  ChannelSender sender{};
  ChannelReceiver receiver{};
  Instant now;
  uint64_t consumed = 0;
};

TEST(Channel, BringsAllBytesOnceInOrderOverAnyWay) {
  ChannelSender::Counts counts;
  uint64_t losses = 0;
  uint64_t repeated = 0;
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Journey run(seed);
    const uint64_t all = 1 + run.rng.Below(400'000);
    run.Go(all);
    ASSERT_FALSE(HasFatalFailure());
    EXPECT_EQ(run.consumed, all);
    EXPECT_EQ(run.sender.waiting(), 0u);
    counts.datagrams += run.sender.counts().datagrams;
    counts.lost += run.sender.counts().lost;
    counts.probes += run.sender.counts().probes;
    losses += run.way.losses;
    repeated += run.receiver.repeated();
  }
  printf(
      "%llu datagrams, %llu lost on the way, %llu found lost, %llu probes, "
      "%llu repeated\n",
      static_cast<unsigned long long>(counts.datagrams),
      static_cast<unsigned long long>(losses),
      static_cast<unsigned long long>(counts.lost),
      static_cast<unsigned long long>(counts.probes),
      static_cast<unsigned long long>(repeated));
  EXPECT_GT(losses, 1'000u);
  EXPECT_GT(counts.lost, 1'000u);
  EXPECT_GT(counts.probes, 50u);
  EXPECT_GT(repeated, 1'000u);
}

// Without a loss nothing is sent twice, and the window opens.
TEST(Channel, SendsAllOnceOverAWayWithoutFaults) {
  ChannelSender sender;
  ChannelReceiver receiver;
  const uint64_t all = 4'000'000;
  sender.Write(StreamOf(0, all));
  Instant now;
  uint64_t datagrams = 0;
  while (sender.waiting() > 0) {
    std::vector<std::pair<uint64_t, uint64_t>> sent;
    while (const auto piece = sender.Next(now, 1'400)) {
      ASSERT_TRUE(receiver.Take(piece->number, piece->offset, piece->bytes));
      ++datagrams;
    }
    receiver.Consume(receiver.ready().size());
    now = now + Microseconds(100);
    ASSERT_TRUE(sender.TakeAck(now, receiver.Ack()).ok());
  }
  EXPECT_EQ(sender.counts().datagrams, datagrams);
  EXPECT_EQ(sender.counts().lost, 0u);
  EXPECT_EQ(datagrams, (all + 1'399) / 1'400);
  EXPECT_GT(sender.window(), 100u * 1'400u);
  EXPECT_EQ(sender.due(), Instant::max());
}

TEST(Channel, HalvesTheWindowOnceForTheLossesOfARoundTrip) {
  ChannelSender sender;
  sender.Write(StreamOf(0, 100'000));
  Instant now;
  std::vector<ChannelSender::Piece> sent;
  while (const auto piece = sender.Next(now, 1'200)) sent.push_back(*piece);
  ASSERT_EQ(sent.size(), ChannelSender::kFirstWindow);
  const uint64_t before = sender.window();
  now = now + Microseconds(100);
  // 1 and 3 are lost.
  ASSERT_TRUE(sender
                  .TakeAck(now, {.received = 1'200,
                                 .consumed = 1'200,
                                 .ranges = {{4, 9}, {2, 2}, {0, 0}}})
                  .ok());
  EXPECT_EQ(sender.counts().lost, 2u);
  EXPECT_EQ(sender.window(), before / 2);
  const auto again = sender.Next(now, 1'200);
  ASSERT_TRUE(again.has_value());
  EXPECT_EQ(again->number, 10u);
  EXPECT_EQ(again->offset, 1'200u);
}

TEST(Channel, RefusesAcknowledgementsOfWhatWasNotSent) {
  ChannelSender sender;
  sender.Write(StreamOf(0, 1'000));
  ASSERT_TRUE(sender.Next(Instant(), 100).has_value());
  const ChannelAck bad[] = {
      {.received = 101, .consumed = 0},
      {.received = 50, .consumed = 51},
      {.received = 0, .consumed = 0, .ranges = {{0, 1}}},
      {.received = 0, .consumed = 0, .ranges = {{1, 0}}},
      {.received = 0, .consumed = 0, .ranges = {{0, ~uint64_t{0}}}}};
  for (const ChannelAck& ack : bad) {
    EXPECT_FALSE(sender.TakeAck(Instant(), ack).ok());
    EXPECT_EQ(sender.waiting(), 1'000u);
  }
}

TEST(Channel, TakesNothingBeyondTheWindow) {
  ChannelReceiver receiver;
  const Bytes one(1);
  EXPECT_FALSE(receiver.Take(0, kChannelWindow, one));
  EXPECT_FALSE(receiver.Take(0, ~uint64_t{0}, one));
  EXPECT_TRUE(receiver.Take(0, kChannelWindow - 1, one));
  EXPECT_TRUE(receiver.ready().empty());
  ChannelSender sender;
  sender.Write(Bytes(kChannelWindow + 5'000));
  Instant now;
  uint64_t sent = 0;
  ChannelReceiver slow;  // consumes nothing
  for (int i = 0; i < 10'000; ++i) {
    while (const auto piece = sender.Next(now, 1'000)) {
      ASSERT_TRUE(slow.Take(piece->number, piece->offset, piece->bytes));
      sent = std::max(sent, piece->offset + piece->bytes.size());
    }
    now = now + Microseconds(100);
    ASSERT_TRUE(sender.TakeAck(now, slow.Ack()).ok());
  }
  EXPECT_EQ(sent, kChannelWindow);
}

// Sends 1,000 bytes that arrive and are not consumed, and then a question.
struct Asked {
  Asked() {
    sender.Write(StreamOf(0, 1'000));
    Arrive(now);
    Acknowledge();
    now = sender.due();
    sender.OnDue(now);
    const auto question = sender.Next(now, 1'200);
    EXPECT_TRUE(question.has_value() && question->bytes.empty());
  }
  // Lets the next datagrams arrive.
  void Arrive(Instant at) {
    while (const auto piece = sender.Next(at, 1'200)) {
      ASSERT_TRUE(receiver.Take(piece->number, piece->offset, piece->bytes));
    }
  }
  void Acknowledge() {
    now = now + Microseconds(100);
    ASSERT_TRUE(sender.TakeAck(now, receiver.Ack()).ok());
  }

  ChannelSender sender{};
  ChannelReceiver receiver{};
  Instant now;
};

TEST(Channel, ExpectsNoAnswerToAQuestionOnceAllIsConsumed) {
  Asked lost;
  lost.receiver.Consume(1'000);
  lost.Acknowledge();
  EXPECT_EQ(lost.sender.waiting(), 0u);
  EXPECT_EQ(lost.sender.due(), Instant::max());
  EXPECT_FALSE(lost.sender.is_unanswered());
  // After a pause, the time without an answer begins at 0.
  lost.now = lost.now + Seconds(5);
  lost.sender.Write(StreamOf(1'000, 100));
  ASSERT_TRUE(lost.sender.Next(lost.now, 1'200).has_value());
  EXPECT_EQ(lost.sender.last_progress(), lost.now);
}

TEST(Channel, SendsAPieceAgainBehindALostQuestion) {
  Asked lost;
  lost.sender.Write(StreamOf(1'000, 100));
  const auto piece = lost.sender.Next(lost.now, 1'200);
  ASSERT_TRUE(piece.has_value());
  EXPECT_EQ(piece->offset, 1'000u);
  // The piece is lost, too.
  lost.now = lost.sender.due();
  lost.sender.OnDue(lost.now);
  const auto again = lost.sender.Next(lost.now, 1'200);
  ASSERT_TRUE(again.has_value());
  EXPECT_EQ(again->offset, 1'000u);
  EXPECT_EQ(again->bytes.size(), 100u);
  EXPECT_GT(lost.sender.due(), lost.now);
}

TEST(Channel, ExpectsNoAnswerToADatagramThatIsLost) {
  ChannelSender sender;
  sender.Write(StreamOf(0, 2'000));
  Instant now;
  ASSERT_TRUE(sender.Next(now, 1'000).has_value());
  ASSERT_TRUE(sender.Next(now, 1'000).has_value());
  now = now + Microseconds(100);
  ASSERT_TRUE(sender.TakeAck(now, {.ranges = {{1, 1}}}).ok());
  EXPECT_TRUE(sender.is_unanswered());
  now = now + Seconds(5);
  sender.OnDue(now);
  EXPECT_FALSE(sender.is_unanswered());
  ASSERT_TRUE(sender.Next(now, 1'000).has_value());
  EXPECT_EQ(sender.last_progress(), now);
}

// The kernel took none of the datagrams from a number on.
TEST(Channel, SendsWhatWasTakenBackAndKeepsTheWindow) {
  ChannelSender sender;
  ChannelReceiver receiver;
  sender.Write(StreamOf(0, 5'000));
  Instant now;
  const uint64_t window = sender.window();
  std::vector<uint64_t> numbers;
  while (const auto piece = sender.Next(now, 1'000)) {
    numbers.push_back(piece->number);
    if (numbers.size() <= 2) {
      ASSERT_TRUE(receiver.Take(piece->number, piece->offset, piece->bytes));
    }
  }
  ASSERT_EQ(numbers.size(), 5u);
  sender.TakeBack(numbers[2]);
  EXPECT_EQ(sender.counts().datagrams, 2u);
  while (const auto piece = sender.Next(now, 1'000)) {
    ASSERT_GT(piece->number, numbers[4]);
    ASSERT_TRUE(receiver.Take(piece->number, piece->offset, piece->bytes));
  }
  EXPECT_EQ(receiver.ready().size(), 5'000u);
  receiver.Consume(5'000);
  now = now + Microseconds(100);
  ASSERT_TRUE(sender.TakeAck(now, receiver.Ack()).ok());
  EXPECT_EQ(sender.waiting(), 0u);
  EXPECT_EQ(sender.counts().lost, 0u);
  EXPECT_GE(sender.window(), window);
  // A question that was not sent is asked again.
  Asked asked;
  asked.sender.TakeBack(1);
  EXPECT_FALSE(asked.sender.is_unanswered());
  asked.now = asked.sender.due();
  asked.sender.OnDue(asked.now);
  EXPECT_TRUE(asked.sender.Next(asked.now, 1'200).has_value());
}

TEST(Channel, ProbesAtOnceOnAPathThatBecameShorter) {
  ChannelSender sender;
  sender.Write(StreamOf(0, 1'000));
  Instant now;
  ASSERT_TRUE(sender.Next(now, 1'200).has_value());
  while (sender.timeouts() < ChannelSender::kBlackHole) {
    now = sender.due();
    sender.OnDue(now);
    ASSERT_TRUE(sender.Next(now, 1'200).has_value());
  }
  now = now + Milliseconds(100);
  sender.TakeShorterPath(now);
  EXPECT_EQ(sender.last_progress(), now);
  EXPECT_EQ(sender.timeouts(), 0);
  EXPECT_LE(sender.due(), now);
}

// --- Datagrams. ---

constexpr ChannelKey kKey = {.network = 0x123456, .key = 0x0123456789abcdef};

Bytes Built(const ChannelDatagram& datagram, const ChannelKey& key = kKey) {
  DatagramHeader header;
  BuildHeader(datagram, key, header);
  Bytes bytes(header.span().begin(), header.span().end());
  bytes.insert(bytes.end(), datagram.bytes.begin(), datagram.bytes.end());
  return bytes;
}

std::vector<ChannelDatagram> SomeOfEachKind(std::span<const std::byte> bytes) {
  return {{.kind = DatagramKind::kPiece,
           .channel = 4,
           .number = 0x1122334455,
           .offset = 0x66778899aa,
           .bytes = bytes},
          {.kind = DatagramKind::kAck,
           .channel = 4,
           .acks = {{.channel = 2,
                     .ack = {.received = 900,
                             .consumed = 800,
                             .ranges = {{90, 99}, {70, 80}, {1, 2}}}},
                    {.channel = 4, .ack = {.received = 7, .consumed = 6}}}},
          {.kind = DatagramKind::kProbe, .probed = 1'500},
          {.kind = DatagramKind::kProbeAnswer, .probed = 9'000}};
}

TEST(ChannelDatagram, IsReadAsItWasBuilt) {
  const Bytes payload = StreamOf(0, 100);
  for (const ChannelDatagram& datagram : SomeOfEachKind(payload)) {
    const Bytes bytes = Built(datagram);
    ChannelDatagram got;
    ASSERT_EQ(ParseDatagram(bytes, kKey, 5, got), DatagramRefusal::kNone);
    EXPECT_EQ(got.kind, datagram.kind);
    EXPECT_EQ(got.channel, datagram.channel);
    EXPECT_EQ(got.number, datagram.number);
    EXPECT_EQ(got.offset, datagram.offset);
    EXPECT_TRUE(std::ranges::equal(got.bytes, datagram.bytes));
    ASSERT_EQ(got.acks.size(), datagram.acks.size());
    for (size_t i = 0; i < got.acks.size(); ++i) {
      EXPECT_EQ(got.acks[i].channel, datagram.acks[i].channel);
      EXPECT_EQ(got.acks[i].ack.received, datagram.acks[i].ack.received);
      EXPECT_EQ(got.acks[i].ack.consumed, datagram.acks[i].ack.consumed);
      EXPECT_EQ(got.acks[i].ack.ranges, datagram.acks[i].ack.ranges);
    }
    EXPECT_EQ(got.probed, datagram.probed);
    EXPECT_EQ(std::to_integer<int>(bytes[1]) & 0x40, 0x40);  // critical
  }
  EXPECT_EQ(Built({.kind = DatagramKind::kPiece}).size(),
            DatagramHeader::kPiece);
}

TEST(ChannelDatagram, IsRefusedIfCutAtAnyByteOfItsHeader) {
  const Bytes payload = StreamOf(0, 10);
  for (const ChannelDatagram& datagram : SomeOfEachKind(payload)) {
    const Bytes bytes = Built(datagram);
    const size_t header = bytes.size() - datagram.bytes.size();
    for (size_t cut = 0; cut < header; ++cut) {
      // As long as the cut, so that a sanitizer sees each access beyond it.
      const auto part = std::make_unique<std::byte[]>(cut);
      std::copy_n(bytes.begin(), cut, part.get());
      ChannelDatagram got;
      EXPECT_EQ(ParseDatagram({part.get(), cut}, kKey, 5, got),
                DatagramRefusal::kHeader);
    }
    // The header says itself that its options end earlier. Without its last
    // option, a list of acks is one again.
    for (size_t words = 0; words < (header - 8) / 4; ++words) {
      if (datagram.kind == DatagramKind::kAck &&
          words * 4 == 12 + datagram.acks[0].bytes()) {
        continue;
      }
      Bytes shorter = bytes;
      shorter[0] = static_cast<std::byte>(words);
      ChannelDatagram got;
      EXPECT_NE(ParseDatagram(shorter, kKey, 5, got), DatagramRefusal::kNone);
    }
  }
}

TEST(ChannelDatagram, OfNoMemberIsRefusedByName) {
  const Bytes payload = StreamOf(0, 10);
  const ChannelDatagram piece = SomeOfEachKind(payload)[0];
  ChannelDatagram got;
  const auto refusal = [&got](const Bytes& bytes) {
    return Name(ParseDatagram(bytes, kKey, 5, got));
  };
  EXPECT_EQ(refusal(Built(piece)), "none");
  EXPECT_EQ(refusal(Built(piece, {.network = 1, .key = kKey.key})), "network");
  EXPECT_EQ(refusal(Built(piece, {.network = kKey.network, .key = 1})), "key");
  ChannelDatagram other = piece;
  other.channel = 5;
  EXPECT_EQ(refusal(Built(other)), "channel");
  other = piece;
  other.number = uint64_t{1} << 63;
  EXPECT_EQ(refusal(Built(other)), "options");
  Bytes control = Built(piece);
  control[1] |= std::byte{0x80};
  EXPECT_EQ(refusal(control), "options");
  EXPECT_EQ(refusal(StreamOf(0, 60)), "header");
  // No key, two pieces, and a key that is too short.
  const std::array<std::byte, 20> zeros{};
  const auto build = [](std::span<const GeneveOption> options) {
    Bytes room(kMaxGeneveBytes);
    const BuiltGeneve built = BuildGeneve(
        {.protocol = kMirrorBytes, .network = kKey.network}, options, room);
    room.resize(built.bytes);
    return room;
  };
  const GeneveOption data = {.name = {kSnfOptionClass, 0x82}, .data = zeros};
  std::array<std::byte, 8> key;
  const BigEndian<uint64_t> stored(kKey.key);
  std::memcpy(key.data(), &stored, sizeof(stored));
  const GeneveOption own = {.name = {kSnfOptionClass, 0x81}, .data = key};
  const GeneveOption half = {.name = own.name, .data = std::span(key).first(4)};
  EXPECT_EQ(refusal(build(std::array{own, data})), "none");
  EXPECT_EQ(refusal(build(std::array{data})), "key");
  EXPECT_EQ(refusal(build(std::array{half, data})), "key");
  EXPECT_EQ(refusal(build(std::array{own})), "options");
  EXPECT_EQ(refusal(build(std::array{own, data, data})), "options");
  EXPECT_EQ(refusal(build(std::array{own, own})), "options");
}

TEST(ChannelDatagram, TakesAnyBytes) {
  uint64_t good = 0;
  const Bytes payload = StreamOf(0, 20);
  for (uint64_t seed = 1; seed <= 20'000; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Rng rng(seed);
    Bytes bytes = Built(SomeOfEachKind(payload)[rng.Below(4)]);
    for (uint64_t i = rng.Below(3); i > 0; --i) {
      bytes[rng.Below(bytes.size())] = static_cast<std::byte>(rng.Below(256));
    }
    bytes.resize(rng.Below(bytes.size() + 1));
    const auto copy = std::make_unique<std::byte[]>(bytes.size());
    std::ranges::copy(bytes, copy.get());
    ChannelDatagram got;
    if (ParseDatagram({copy.get(), bytes.size()}, kKey, 5, got) !=
        DatagramRefusal::kNone) {
      continue;
    }
    ++good;
    ASSERT_LT(got.channel, 5u);
    for (const AckOfChannel& of : got.acks) ASSERT_LT(of.channel, 5u);
  }
  EXPECT_GT(good, 500u);
}

TEST(GeneveCounts, AreToldIfAnythingWasLostRepeatedOrRefused) {
  GeneveLink::Counts counts;
  counts.sent.datagrams = 900;
  EXPECT_EQ(TextOf(counts), "");
  counts.refused[static_cast<size_t>(DatagramRefusal::kKey)] = 7;
  EXPECT_EQ(TextOf(counts),
            "datagrams sent 900, found lost 0, probes 0, received again 0, "
            "refused 7 (key)");
  counts.refused = {};
  counts.sent.lost = 3;
  counts.repeated = 1;
  EXPECT_EQ(TextOf(counts),
            "datagrams sent 900, found lost 3, probes 0, received again 1");
}

// --- Cuts. ---

void AddItem(Bytes& frame, MirrorItem::Kind kind, MirroredRing ring,
             size_t bytes, uint64_t position) {
  MirrorWriter writer(frame);
  writer.Add({.kind = kind,
              .ring = static_cast<uint8_t>(ring),
              .bytes = static_cast<uint32_t>(bytes),
              .position = position});
  const Bytes data(bytes);
  writer.Append(data.data(), bytes);
}

CutHead HeadOf(const Bytes& message) {
  CutHead head;
  EXPECT_GE(message.size(), sizeof(head));
  std::memcpy(&head, message.data(), sizeof(head));
  EXPECT_EQ(head.bytes, message.size() - sizeof(head));
  return head;
}

TEST(CutChannels, GiveEachRingItsCellsAndPackets) {
  Bytes frame;
  using Kind = MirrorItem::Kind;
  AddItem(frame, Kind::kProgress, {}, 64, 0);
  AddItem(frame, Kind::kPacket, {}, 100, 7);
  AddItem(frame, Kind::kPacket, {}, 30, 8);
  AddItem(frame, Kind::kCells, MirroredRing::kLog, 128, 1);
  AddItem(frame, Kind::kPacket, {}, 10, 9);
  AddItem(frame, Kind::kCells, MirroredRing::kUp, 64, 2);
  AddItem(frame, Kind::kReleased, MirroredRing::kDown, 0, 3);
  CutSplitter splitter;
  CutSplitter::Messages messages;
  splitter.Split(frame, messages);
  EXPECT_TRUE(messages[0].empty());
  EXPECT_EQ(messages[1].size(), sizeof(CutHead) + 3 * 16 + 100 + 30 + 128);
  EXPECT_TRUE(messages[2].empty());
  EXPECT_EQ(messages[3].size(), sizeof(CutHead) + 2 * 16 + 10 + 64);
  EXPECT_EQ(messages[4].size(), sizeof(CutHead) + 2 * 16 + 64);
}

// Messages of five channels come in any order that keeps each channel's own.
TEST(CutChannels, KeepTheOrderOfWhatAMessageMayPresume) {
  struct Message {
    size_t channel;
    CutHead head;
    uint64_t cut;
  };
  uint64_t waited = 0;
  uint64_t overtook = 0;
  for (uint64_t seed = 1; seed <= 400; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Rng rng(seed);
    const bool is_home = rng.Chance(32'768);
    std::array<std::vector<Message>, kCutChannels> queues;
    CutSplitter splitter;
    size_t all = 0;
    for (uint64_t cut = 1; cut <= 40; ++cut) {
      Bytes frame;
      using Kind = MirrorItem::Kind;
      if (!is_home && rng.Chance(6'000)) {
        AddItem(frame, Kind::kTold, {}, 32, 0);
      }
      if (rng.Chance(32'768)) AddItem(frame, Kind::kProgress, {}, 64, 0);
      const int first = is_home ? 3 : 0;
      for (int ring = first; ring < (is_home ? 7 : 3); ++ring) {
        if (!rng.Chance(20'000)) continue;
        AddItem(frame, Kind::kCells, static_cast<MirroredRing>(ring), 64, cut);
      }
      CutSplitter::Messages messages;
      splitter.Split(frame, messages);
      for (size_t i = 0; i < kCutChannels; ++i) {
        if (messages[i].empty()) continue;
        queues[i].push_back({i, HeadOf(messages[i]), cut});
        ++all;
      }
    }
    CutOrder order(is_home ? LoopMirror::Side::kHome : LoopMirror::Side::kAway);
    std::array<size_t, kCutChannels> here{};
    std::array<size_t, kCutChannels> applied{};
    // The first cut that a channel has not applied; what may be presumed.
    const auto open_cut = [&](size_t channel) {
      return applied[channel] < queues[channel].size()
                 ? queues[channel][applied[channel]].cut
                 : ~uint64_t{0};
    };
    for (size_t done = 0, steps = 0; done < all; ++steps) {
      ASSERT_LT(steps, 100'000u);
      const size_t channel = rng.Below(kCutChannels);
      if (here[channel] < queues[channel].size() && rng.Chance(32'768)) {
        ++here[channel];
      }
      if (applied[channel] == here[channel]) continue;
      const Message& message = queues[channel][applied[channel]];
      if (!order.MayApply(static_cast<CutChannel>(channel), message.head)) {
        ++waited;
        continue;
      }
      const uint64_t cut = message.cut;
      if (is_home) {
        // No word before the entries which it presumes.
        for (size_t lower = 1; lower < channel; ++lower) {
          ASSERT_GT(open_cut(lower), cut);
        }
      } else {
        if (channel != 0) {
          ASSERT_GT(open_cut(0), cut);
        }
        for (size_t ring = 1; ring < 4 && (channel == 0 || channel == 4);
             ++ring) {
          ASSERT_GE(open_cut(ring), cut + (channel == 4 ? 1 : 0));
        }
      }
      for (size_t i = 1; i < 4; ++i) {
        if (i != channel && open_cut(i) < cut) ++overtook;
      }
      order.on_applied(static_cast<CutChannel>(channel));
      ++applied[channel];
      ++done;
    }
  }
  printf("%llu waited, %llu overtook\n",
         static_cast<unsigned long long>(waited),
         static_cast<unsigned long long>(overtook));
  EXPECT_GT(waited, 1'000u);
  EXPECT_GT(overtook, 1'000u);
}

}  // namespace
}  // namespace snf
