// SPDX-License-Identifier: Apache-2.0
//
// The last tests are random: SNF_LONG_TESTS=1 runs 50 times as many,
// SNF_TEST_SEED=n the one with that seed.
#include "runtime/sdk/stream/stream.h"

#include <algorithm>
#include <cstdint>
#include <deque>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/packet/l4_headers.h"
#include "base/packet/test_packet_text.h"
#include "base/rng.h"
#include "base/test_seeds.h"
#include "gtest/gtest.h"
#include "runtime/sdk/nf.h"
#include "runtime/sdk/test_state.h"

namespace snf {
namespace {

using Kind = StreamEvent::Kind;
using Tcp = TcpHeader<const std::byte>;

class StreamNf final : public NetworkFunction {
 public:
  explicit StreamNf(uint32_t bound)
      : slots{declare<StreamPlace>("place"), declare_blob("held", bound)} {}
  const StreamSlots slots;

 private:
  Verdict process_packet(Packet&, FlowState&) override {
    return Verdict::forward();
  }
};

std::string TextOf(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// A stream whose record moves to other memory before each call.
class TestStream {
 public:
  explicit TestStream(uint32_t bound = 100,
                      StreamOverlap overlap = StreamOverlap::kFirst)
      : nf_(bound), overlap_(overlap), record_(nf_.schema().record_bytes()) {}

  using Record = std::vector<std::byte>;
  const Record& record() const { return record_; }
  void set_record(const Record& record) { record_ = record; }

  template <typename Call>
  void With(const Call& call) {
    Record moved = record_;
    TestFlow test(moved);
    Stream stream(test.flow, nf_.slots, overlap_);
    call(stream);
    EXPECT_LE(stream.held_bytes(), nf_.slots.held.max_bytes());
    EXPECT_TRUE(nf_.schema().IsWellFormed(moved));
    record_ = moved;
  }
  // Push, Acknowledge and Flush return the events in words.
  std::string Push(const TcpSegment& segment) {
    return Events(
        [&](Stream& stream, auto on_event) { stream.Push(segment, on_event); });
  }
  // The packet is "tcp 10.0.0.1:1 > 10.0.0.2:2" and what is given.
  std::string Push(const std::string& rest) {
    const auto packet = ParsePacket("tcp 10.0.0.1:1 > 10.0.0.2:2 " + rest);
    EXPECT_TRUE(packet.ok()) << packet.status();
    const auto segment =
        TcpSegmentOf(packet->bytes, Parse(packet->link, packet->bytes),
                     std::max(packet->original_length,
                              static_cast<uint32_t>(packet->bytes.size())));
    return segment.has_value() ? Push(*segment) : "no segment";
  }
  std::string Acknowledge(uint32_t sequence) {
    return Events([&](Stream& stream, auto on_event) {
      stream.Acknowledge(sequence, on_event);
    });
  }
  std::string Flush() {
    return Events(
        [](Stream& stream, auto on_event) { stream.Flush(on_event); });
  }

  uint64_t offset() {
    uint64_t offset = 0;
    With([&](const Stream& stream) { offset = stream.offset(); });
    return offset;
  }
  size_t held_bytes() {
    size_t bytes = 0;
    With([&](const Stream& stream) { bytes = stream.held_bytes(); });
    return bytes;
  }

 private:
  template <typename Call>
  std::string Events(const Call& call) {
    std::string text;
    With([&](Stream& stream) {
      call(stream, [&](const StreamEvent& event) {
        if (!text.empty()) text += ", ";
        text += Name(event.kind);
        if (event.bytes > 0 && event.kind != Kind::kData) {
          text += " " + std::to_string(event.bytes);
        }
        if (!event.data.empty()) text += " " + TextOf(event.data);
      });
    });
    return text;
  }

  StreamNf nf_;
  StreamOverlap overlap_;
  Record record_;
};

// Packets and the events of each.
using Steps = std::vector<std::pair<std::string, std::string>>;
void Expect(TestStream& stream, const Steps& steps) {
  for (const auto& [packet, events] : steps) {
    EXPECT_EQ(stream.Push(packet), events) << packet;
  }
}

TEST(Stream, TellsEachByteOnceAndInOrder) {
  TestStream stream;
  Expect(stream, {{"SYN seq=99", "begin"},
                  {"ACK seq=100", ""},
                  {"ACK seq=100 \"ab\"", "data ab"},
                  {"ACK seq=100 \"ab\"", ""},  // once more
                  {"ACK seq=101 \"bcd\"", "data cd"},
                  {"ACK seq=107 \"hi\"", ""},
                  {"ACK seq=106 \"g\"", ""},
                  {"ACK seq=104 \"ef\"", "data ef, data g, data hi"},
                  {"ACK FIN seq=109", "end"},
                  {"ACK FIN seq=109", ""}});
  EXPECT_EQ(stream.offset(), 9u);
  EXPECT_EQ(stream.held_bytes(), 0u);
}

TEST(Stream, HasTheDataOfASyn) {
  TestStream stream;
  Expect(stream, {{"SYN seq=99 \"abc\"", "begin, data abc"},
                  {"SYN seq=99", ""},
                  {"SYN seq=99 \"abc\"", ""},
                  {"ACK seq=103 \"d\"", "data d"}});
}

TEST(Stream, WrapsAround) {
  TestStream stream;
  Expect(stream, {{"SYN seq=4294967293", "begin"},
                  {"ACK seq=0 \"cd\"", ""},
                  {"ACK seq=4294967295 \"bX\"", "overlap_differs 1 X"},
                  {"ACK seq=4294967294 \"a\"", "data a, data b, data cd"},
                  {"ACK FIN seq=2 \"e\"", "data e, end"}});
}

TEST(Stream, BeginsInItsMidst) {
  TestStream stream;
  Expect(stream, {{"ACK seq=500", ""},
                  {"ACK seq=500 \"ab\"", "midstream, data ab"},
                  {"ACK seq=498 \"zz\"", ""},
                  {"SYN seq=600", "ignored"}});
  // The SYN was overtaken.
  TestStream overtaken;
  Expect(overtaken, {{"ACK seq=500 \"ab\"", "midstream, data ab"},
                     {"SYN seq=499", ""},
                     {"ACK seq=502 \"c\"", "data c"}});
}

TEST(Stream, TakesTheFirstOrTheLastCopyOfBytesThatAreHeld) {
  TestStream first;
  Expect(first, {{"SYN seq=9", "begin"},
                 {"ACK seq=12 \"cd\"", ""},
                 {"ACK seq=11 \"BCDE\"", "overlap_differs 2 CD"},
                 {"ACK seq=10 \"a\"", "data a, data B, data cd, data E"}});
  TestStream last(100, StreamOverlap::kLast);
  Expect(last, {{"SYN seq=9", "begin"},
                {"ACK seq=12 \"cd\"", ""},
                {"ACK seq=11 \"BCDE\"", "overlap_differs 2 CD"},
                {"ACK seq=10 \"a\"", "data a, data B, data CD, data E"}});
  // Data in order meet data that are held.
  TestStream in_order;
  Expect(in_order, {{"SYN seq=9", "begin"},
                    {"ACK seq=12 \"cd\"", ""},
                    {"ACK seq=10 \"abcXyz\"",
                     "overlap_differs 1 cX, data ab, data cd, data yz"}});
}

TEST(Stream, GivesUpAGapIfWhatIsBehindItDoesNotFit) {
  TestStream stream(20);  // pieces of 8 bytes and their data
  Expect(stream, {{"SYN seq=9", "begin"},
                  {"ACK seq=13 \"ab\"", ""},
                  {"ACK seq=18 \"cd\"", ""},
                  {"ACK seq=30 \"e\"", "over_bound 1, gap 3, data ab"},
                  // Late bytes are ignored.
                  {"ACK seq=10 \"xyz\"", ""},
                  {"ACK seq=40 \"0123456789abcdefghij\"",
                   "over_bound 20, gap 3, data cd, gap 10, data e, gap 9, "
                   "data 0123456789abcdefghij"}});
  EXPECT_EQ(stream.held_bytes(), 0u);
}

TEST(Stream, HoldsSoManyPiecesAndNoMore) {
  TestStream stream(10'000);
  stream.Push("SYN seq=0");
  for (size_t i = 1; i <= Stream::kMaxPieces; ++i) {
    EXPECT_EQ(stream.Push("ACK seq=" + std::to_string(10 * i) + " \"x\""), "");
  }
  EXPECT_EQ(stream.held_bytes(), Stream::kMaxPieces * 9);
  EXPECT_EQ(stream.Push("ACK seq=1000 \"x\""), "over_bound 1, gap 9, data x");
}

TEST(Stream, GivesUpAGapThatTheReceiverAcknowledged) {
  TestStream stream;
  Expect(stream, {{"SYN seq=9", "begin"}, {"ACK seq=13 \"ab\"", ""}});
  // The hole itself, a part of it, and numbers of other streams.
  for (const uint32_t sequence : {10u, 12u, 9u, 3'000'000'000u}) {
    EXPECT_EQ(stream.Acknowledge(sequence), "");
  }
  EXPECT_EQ(stream.Acknowledge(13), "gap 3, data ab");
  // Nothing is held behind it: it may only have come early.
  EXPECT_EQ(stream.Acknowledge(20), "");
  Expect(stream, {{"ACK FIN seq=17 \"x\"", ""}});
  EXPECT_EQ(stream.Acknowledge(19), "gap 2, data x, end");
  EXPECT_EQ(stream.Acknowledge(19), "");
}

TEST(Stream, EndsBehindAGapThatWasAcknowledgedWithItsFin) {
  TestStream stream;
  Expect(stream, {{"SYN seq=9", "begin"}, {"ACK FIN seq=13", ""}});
  EXPECT_EQ(stream.Acknowledge(13), "");
  EXPECT_EQ(stream.Acknowledge(14), "gap 3, end");
}

TEST(Stream, IsFlushed) {
  TestStream stream;
  EXPECT_EQ(stream.Flush(), "");
  Expect(stream, {{"SYN seq=9", "begin"},
                  {"ACK seq=13 \"ab\"", ""},
                  {"ACK seq=20 \"cd\"", ""},
                  {"ACK FIN seq=25", ""}});
  EXPECT_EQ(stream.Flush(), "gap 3, data ab, gap 5, data cd, gap 3, end");
  EXPECT_EQ(stream.Flush(), "");
}

TEST(Stream, IgnoresWhatLiesBehindItsEnd) {
  TestStream stream;
  Expect(stream, {{"SYN seq=9", "begin"},
                  {"ACK seq=13 \"de\"", ""},
                  {"ACK FIN seq=11 \"bc\"", ""},
                  {"ACK FIN seq=12 \"c\"", ""},
                  {"ACK FIN seq=12", "ignored"},
                  {"ACK seq=12 \"cXYZ\"", "ignored 3"},
                  {"ACK seq=10 \"a\"", "data a, data bc, end, ignored 2"},
                  {"ACK seq=13 \"more\"", "ignored 4"}});
  EXPECT_EQ(stream.held_bytes(), 0u);
}

TEST(Stream, EndsAtAResetThatHasItsNumber) {
  TestStream stream;
  Expect(stream, {{"RST seq=5", "reset"},  // of an unseen stream
                  {"SYN seq=9", "begin"},
                  {"ACK seq=10 \"ab\"", "data ab"},
                  {"ACK seq=15 \"f\"", ""},
                  {"RST seq=11", "ignored"},
                  {"RST seq=17", "ignored"},
                  {"RST seq=16", "reset"},
                  {"RST seq=16", ""},
                  {"ACK seq=12 \"cde\"", "ignored 3"}});
  EXPECT_EQ(stream.held_bytes(), 0u);
  // The number of the FIN counts, before and after the end was delivered.
  for (const std::string fin : {"ACK FIN seq=10", "ACK FIN seq=12"}) {
    TestStream ended;
    Expect(ended, {{"SYN seq=9", "begin"}});
    ended.Push(fin);
    const std::string number = fin == "ACK FIN seq=10" ? "11" : "13";
    EXPECT_EQ(ended.Push("RST seq=" + number), "reset");
  }
}

TEST(Stream, BeginsAgainAtASynIfItIsOver) {
  for (const std::string over : {"RST seq=12", "ACK FIN seq=12"}) {
    TestStream stream;
    Expect(stream, {{"SYN seq=9", "begin"},
                    {"ACK seq=10 \"ab\"", "data ab"},
                    {"SYN seq=5000 \"x\"", "ignored 1"}});
    stream.Push(over);
    Expect(stream,
           {{"SYN seq=5000", "begin"}, {"ACK seq=5001 \"new\"", "data new"}});
    EXPECT_EQ(stream.offset(), 3u);
  }
}

TEST(Stream, IsNotDisturbedByKeepAlivesAndProbes) {
  TestStream stream;
  Expect(stream, {{"SYN seq=9", "begin"},
                  {"ACK seq=9 \"?\"", ""},  // before any data
                  {"ACK seq=10 \"ab\"", "data ab"},
                  {"ACK seq=11 \"?\"", ""},        // with one byte
                  {"ACK seq=11", ""},              // and without
                  {"ACK seq=12 \"c\"", "data c"},  // a probe of the window
                  {"ACK seq=12 \"c\"", ""},
                  {"ACK seq=12 \"cd\"", "data d"}});
}

TEST(Stream, IgnoresNumbersThatAreTooFarAway) {
  TestStream stream;
  Expect(stream, {{"SYN seq=9", "begin"},
                  {"ACK seq=2147483658 \"far\"", "ignored 3"},
                  {"ACK seq=1073741835 \"far\"", "ignored 3"},
                  {"ACK seq=1073741834 \"far\"", ""}});
}

TEST(Stream, TellsOfBytesThatTheCaptureCut) {
  TestStream stream;
  EXPECT_EQ(stream.Push("SYN seq=9"), "begin");
  const std::vector<std::byte> data(4, std::byte{'x'});
  const auto at = [&](uint32_t sequence, uint32_t bytes) {
    return TcpSegment{.sequence = sequence,
                      .flags = Tcp::kAck,
                      .data = data,
                      .data_bytes = bytes};
  };
  EXPECT_EQ(stream.Push(at(10, 10)), "data xxxx, gap 6");
  EXPECT_EQ(stream.Push(at(30, 10)), "");
  // A part of the bytes that were cut comes, but the first copy wins.
  EXPECT_EQ(stream.Push(at(35, 4)), "");
  EXPECT_EQ(stream.Push(at(20, 10)), "data xxxx, gap 6, data xxxx, gap 6");
  // More than a piece can name.
  EXPECT_EQ(stream.Push(at(50, 70'000)),
            "over_bound 70000, gap 10, data xxxx, gap 69996");
}

TEST(Stream, KeepsItsSizesAsItSays) {
  const StreamNf nf(100);
  EXPECT_EQ(nf.schema().record_bytes(), 8u + 24u + 8u + 104u);
}

// --- Random streams ---------------------------------------------------------

std::vector<std::byte> RandomBytes(Rng& rng, size_t bytes) {
  std::vector<std::byte> made(bytes);
  for (std::byte& byte : made) byte = std::byte(rng.Below(256));
  return made;
}

struct Sent {
  int64_t begin;  // in the stream
  std::vector<std::byte> data;
  uint32_t data_bytes;
  uint8_t flags;
};

// The naive model: the whole stream, byte by byte, with no bound. `copies` has
// the copy that wins of each byte; nothing for a byte that was not captured.
struct WholeStream {
  std::map<int64_t, std::optional<std::byte>> copies;
  int64_t next = 0;
  int64_t end = std::numeric_limits<int64_t>::max();

  // Returns what can be delivered.
  std::vector<std::optional<std::byte>> Push(const Sent& sent, bool last_wins) {
    const int64_t sent_end = sent.begin + sent.data_bytes;
    if ((sent.flags & Tcp::kFin) != 0 && sent_end >= next) {
      end = std::min(end, sent_end);
    }
    for (int64_t i = sent.begin; i < sent_end; ++i) {
      const auto at = static_cast<size_t>(i - sent.begin);
      const bool has = at < sent.data.size();
      const auto byte =
          has ? std::optional<std::byte>(sent.data[at]) : std::nullopt;
      if (i < next) continue;
      const auto [copy, is_new] = copies.try_emplace(i, byte);
      if (!is_new && last_wins && has && copy->second.has_value()) {
        copy->second = byte;
      }
    }
    std::vector<std::optional<std::byte>> delivered;
    for (; next < end && copies.contains(next); ++next) {
      delivered.push_back(copies[next]);
    }
    return delivered;
  }
};

// Cuts a stream into segments, repeats some, lets some overlap, with the same
// bytes or others, cuts some short, and puts them out of order.
std::deque<Sent> RandomSegments(Rng& rng, size_t bytes, size_t apart) {
  const std::vector<std::byte> stream = RandomBytes(rng, bytes);
  std::vector<std::pair<uint64_t, Sent>> placed;
  const auto add = [&](size_t begin, size_t end) {
    Sent sent = {.begin = static_cast<int64_t>(begin),
                 .data = {stream.begin() + static_cast<ptrdiff_t>(begin),
                          stream.begin() + static_cast<ptrdiff_t>(end)},
                 .data_bytes = static_cast<uint32_t>(end - begin),
                 .flags = Tcp::kAck};
    if (end == bytes) sent.flags |= Tcp::kFin;
    if (rng.Below(8) == 0 && !sent.data.empty()) {
      sent.data[rng.Below(sent.data.size())] = std::byte(rng.Below(256));
    }
    if (rng.Below(16) == 0) sent.data.resize(rng.Below(sent.data.size() + 1));
    placed.emplace_back(placed.size() + rng.Below(apart), std::move(sent));
  };
  for (size_t begin = 0; begin < bytes;) {
    const size_t end = std::min(bytes, begin + 1 + rng.Below(30));
    add(begin, end);
    if (rng.Below(3) == 0) {
      const size_t from = begin - std::min(begin, rng.Below(40));
      add(from, std::min(bytes, from + rng.Below(60)));
    }
    begin = end;
  }
  std::ranges::stable_sort(placed, {}, &std::pair<uint64_t, Sent>::first);
  std::deque<Sent> segments;
  for (auto& [place, sent] : placed) segments.push_back(std::move(sent));
  return segments;
}

struct Told {
  std::vector<std::optional<std::byte>> bytes;  // nothing: of a gap
  bool is_end = false;
  bool is_over_bound = false;
};

Told PushTo(TestStream& stream, const Sent& sent, uint32_t first) {
  Told told;
  uint64_t offset = stream.offset();
  const TcpSegment segment = {
      .sequence = first + static_cast<uint32_t>(sent.begin),
      .flags = sent.flags,
      .data = sent.data,
      .data_bytes = sent.data_bytes};
  stream.With([&](Stream& s) {
    s.Push(segment, [&](const StreamEvent& event) {
      if (event.kind == Kind::kOverlapDiffers) return;
      EXPECT_EQ(event.offset, offset);
      EXPECT_FALSE(told.is_end && event.kind != Kind::kIgnored);
      if (event.kind == Kind::kData) {
        EXPECT_FALSE(event.data.empty());
        told.bytes.insert(told.bytes.end(), event.data.begin(),
                          event.data.end());
        offset += event.data.size();
      } else if (event.kind == Kind::kGap) {
        told.bytes.insert(told.bytes.end(), event.bytes, std::nullopt);
        offset += event.bytes;
      }
      told.is_end |= event.kind == Kind::kEnd;
      told.is_over_bound |= event.kind == Kind::kOverBound;
    });
    EXPECT_EQ(s.offset(), offset);
  });
  return told;
}

uint32_t RandomFirst(Rng& rng) {
  // Most wrap around.
  return rng.Below(4) == 0 ? static_cast<uint32_t>(rng.Next())
                           : 0u - static_cast<uint32_t>(rng.Below(500));
}

void BeginAt(TestStream& stream, uint32_t first) {
  EXPECT_EQ(stream.Push(TcpSegment{.sequence = first - 1, .flags = Tcp::kSyn}),
            "begin");
}

// If the bound is large enough, the stream is the whole stream.
TEST(Stream, IsTheWholeStreamWhateverTheOrderOfItsSegments) {
  const TestSeeds seeds(200, 10'000);
  for (const uint64_t seed : seeds.all()) {
    SCOPED_TRACE(TestSeeds::Name(seed));
    Rng rng(seed);
    const bool last_wins = rng.Below(2) == 0;
    TestStream stream(50'000,
                      last_wins ? StreamOverlap::kLast : StreamOverlap::kFirst);
    const uint32_t first = RandomFirst(rng);
    BeginAt(stream, first);
    WholeStream whole;
    bool has_ended = false;
    // Few enough that the number of pieces is no bound.
    for (const Sent& sent : RandomSegments(rng, 1 + rng.Below(800), 12)) {
      const Told told = PushTo(stream, sent, first);
      ASSERT_FALSE(told.is_over_bound);
      ASSERT_EQ(told.bytes, whole.Push(sent, last_wins));
      ASSERT_EQ(told.is_end, !has_ended && whole.next == whole.end);
      has_ended |= told.is_end;
    }
    EXPECT_EQ(whole.next, whole.end);
    EXPECT_EQ(stream.held_bytes(), 0u);
    if (HasFailure()) return;
  }
}

// If the bound is small, bytes are missing, but none is wrong or comes twice.
TEST(Stream, LosesNothingButGapsWithinItsBound) {
  const TestSeeds seeds(200, 10'000);
  uint64_t over = 0;
  for (const uint64_t seed : seeds.all()) {
    SCOPED_TRACE(TestSeeds::Name(seed));
    Rng rng(seed);
    const auto bound = static_cast<uint32_t>(8 + rng.Below(200));
    TestStream stream(bound);
    const uint32_t first = RandomFirst(rng);
    BeginAt(stream, first);
    const size_t bytes = 1 + rng.Below(2'000);
    std::map<int64_t, std::vector<std::byte>> seen;  // all copies of a byte
    int64_t next = 0;
    bool has_ended = false;
    for (const Sent& sent : RandomSegments(rng, bytes, 40)) {
      for (size_t i = 0; i < sent.data.size(); ++i) {
        seen[sent.begin + static_cast<int64_t>(i)].push_back(sent.data[i]);
      }
      const Told told = PushTo(stream, sent, first);
      over += told.is_over_bound ? 1 : 0;
      for (const auto& byte : told.bytes) {
        if (byte.has_value()) {
          ASSERT_NE(std::ranges::count(seen[next], *byte), 0) << "at " << next;
        }
        ++next;
      }
      ASSERT_LE(stream.held_bytes(), bound);
      has_ended |= told.is_end;
    }
    if (!has_ended) {
      EXPECT_NE(stream.Flush(), "");
    }
    EXPECT_EQ(stream.offset(), bytes);
    EXPECT_EQ(stream.held_bytes(), 0u);
    if (HasFailure()) return;
  }
  if (!seeds.is_part) {
    EXPECT_GT(over, 100u);
  }
}

// Any segments at all, as an attacker sends them.
TEST(Stream, StaysWithinItsBoundWhateverComes) {
  const TestSeeds seeds(300, 20'000);
  for (const uint64_t seed : seeds.all()) {
    SCOPED_TRACE(TestSeeds::Name(seed));
    Rng rng(seed);
    const auto bound = static_cast<uint32_t>(1 + rng.Below(300));
    TestStream stream(bound, rng.Below(2) == 0 ? StreamOverlap::kFirst
                                               : StreamOverlap::kLast);
    const auto base = static_cast<uint32_t>(rng.Next());
    for (int i = 0; i < 100; ++i) {
      const std::vector<std::byte> data = RandomBytes(rng, rng.Below(80));
      const uint32_t sequence =
          base + (rng.Below(10) == 0 ? static_cast<uint32_t>(rng.Next())
                                     : static_cast<uint32_t>(rng.Below(400)));
      const uint64_t before = stream.offset();
      bool begins = false;
      stream.With([&](Stream& s) {
        const auto on_event = [&](const StreamEvent& event) {
          begins |= event.kind == Kind::kBegin;
        };
        if (rng.Below(8) == 0) {
          s.Acknowledge(sequence, on_event);
        } else {
          s.Push(
              {.sequence = sequence,
               .flags = static_cast<uint8_t>(
                   rng.Below(3) == 0 ? rng.Below(64) : uint64_t{Tcp::kAck}),
               .data = data,
               .data_bytes = static_cast<uint32_t>(
                   data.size() + (rng.Below(5) == 0 ? rng.Below(99'999) : 0))},
              on_event);
        }
      });
      if (!begins) {
        ASSERT_GE(stream.offset(), before);
      }
    }
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace snf
