// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "base/packet/packet_parser.h"
#include "base/packet/test_packets.h"
#include "gtest/gtest.h"
#include "runtime/sdk/nf.h"
#include "runtime/sdk/test_state.h"

namespace snf {
namespace {

constexpr size_t kDigestBytes = 8;

Frame UdpFrame(size_t payload_bytes, uint8_t content = 0x5a) {
  Frame frame = Ethernet(0x0800, Ipv4({}, Udp(5000, 53, payload_bytes)));
  std::fill(frame.end() - static_cast<ptrdiff_t>(payload_bytes), frame.end(),
            std::byte{content});
  return frame;
}

// Makes packets that all differ, also in length.
std::vector<Frame> Frames(uint8_t count) {
  std::vector<Frame> frames;
  for (uint8_t i = 0; i < count; ++i) {
    frames.push_back(UdpFrame(kDigestBytes + i * 37 % 200, i));
  }
  return frames;
}

// One flow with its state.
class Flow {
 public:
  // Sends a packet and returns it as the NF leaves it.
  Frame Send(Frame frame, LinkType link = LinkType::kEthernet) {
    PacketInfo info;
    info.length = static_cast<uint32_t>(frame.size());
    info.original_length = info.length;
    info.link = link;
    info.headers = Parse(link, frame);
    Packet packet(info, frame);
    TestFlow test(record);
    EXPECT_EQ(nf->process_packet(packet, test.flow).kind(),
              Verdict::Kind::kForward);
    EXPECT_TRUE(nf->schema().IsWellFormed(record));
    return frame;
  }
  std::vector<Frame> Send(const std::vector<Frame>& frames) {
    std::vector<Frame> sent;
    sent.reserve(frames.size());
    for (const Frame& frame : frames) sent.push_back(Send(frame));
    return sent;
  }

  std::unique_ptr<NetworkFunction> nf = FindNf("chronicle")->create();
  std::vector<std::byte> record =
      std::vector<std::byte>(nf->schema().record_bytes());
};

Frame DigestIn(const Frame& frame) {
  return {frame.end() - kDigestBytes, frame.end()};
}
Frame WithoutDigest(const Frame& frame) {
  return {frame.begin(), frame.end() - kDigestBytes};
}

// Expects that `sent`, the packets sent in another way, differs from `first` on
// from the packets sent in order.
void ExpectDiffersFrom(size_t first, const std::vector<Frame>& frames,
                       const std::vector<Frame>& sent) {
  const std::vector<Frame> expected = Flow().Send(frames);
  ASSERT_EQ(sent.size(), expected.size());
  for (size_t i = 0; i < sent.size(); ++i) {
    SCOPED_TRACE("packet " + std::to_string(i));
    if (i < first) {
      EXPECT_EQ(sent[i], expected[i]);
    } else {
      EXPECT_NE(DigestIn(sent[i]), DigestIn(expected[i]));
    }
  }
}

TEST(Chronicle, WritesTheDigestOfAllEarlierPacketsOverThePayloadsEnd) {
  Flow flow;
  const Frame frame = UdpFrame(20);
  const Frame first = flow.Send(frame);
  const Frame second = flow.Send(frame);
  const Frame third = flow.Send(frame);
  EXPECT_EQ(WithoutDigest(first), WithoutDigest(frame));
  EXPECT_EQ(WithoutDigest(second), WithoutDigest(frame));
  EXPECT_EQ(WithoutDigest(third), WithoutDigest(frame));
  // The digests of no, one and two packets are the same on every machine.
  EXPECT_EQ(DigestIn(first), Hex("00 00 00 00 00 00 00 00"));
  EXPECT_EQ(DigestIn(second), Hex("24 13 e3 10 53 2d cc d7"));
  EXPECT_EQ(DigestIn(third), Hex("e6 9d 96 22 10 b5 ca c8"));
}

TEST(Chronicle, KeepsFlowsApart) {
  const std::vector<Frame> a = Frames(20);
  std::vector<Frame> b = Frames(20);
  std::reverse(b.begin(), b.end());
  Flow flow_a;
  Flow flow_b;
  std::vector<Frame> sent_a;
  std::vector<Frame> sent_b;
  for (size_t i = 0; i < a.size(); ++i) {
    sent_a.push_back(flow_a.Send(a[i]));
    sent_b.push_back(flow_b.Send(b[i]));
  }
  EXPECT_EQ(sent_a, Flow().Send(a));
  EXPECT_EQ(sent_b, Flow().Send(b));
}

TEST(Chronicle, ForwardsAShortPayloadAsItIsButCountsIt) {
  for (size_t payload = 0; payload < kDigestBytes; ++payload) {
    Flow flow;
    Flow other;
    EXPECT_EQ(flow.Send(UdpFrame(payload)), UdpFrame(payload));
    EXPECT_NE(flow.Send(UdpFrame(8)), other.Send(UdpFrame(8)));
  }
  EXPECT_NE(Flow().Send(UdpFrame(8)), UdpFrame(8));
}

TEST(Chronicle, WritesIntoThePayloadNotIntoTheLinksPadding) {
  const Frame padded = UdpFrame(10) + Frame(8, std::byte{0x77});
  const Frame sent = Flow().Send(padded);
  EXPECT_EQ(Frame(sent.begin(), sent.begin() + 44),
            Frame(padded.begin(), padded.begin() + 44));
  EXPECT_EQ(Frame(sent.begin() + 44, sent.begin() + 52), Frame(8));
  EXPECT_EQ(Frame(sent.begin() + 52, sent.end()), Frame(8, std::byte{0x77}));
}

TEST(Chronicle, ChangesNothingButThePayloadsEndOfAnyFrameHoweverCut) {
  size_t written = 0;
  for (const Sample& sample : AllSamples()) {
    for (size_t bytes = 1; bytes <= sample.frame.size(); ++bytes) {
      SCOPED_TRACE(sample.name + " cut to " + std::to_string(bytes));
      const Frame frame(sample.frame.begin(),
                        sample.frame.begin() + static_cast<ptrdiff_t>(bytes));
      const ParsedPacket headers = Parse(sample.link, frame);
      Flow flow;
      flow.Send(UdpFrame(0));  // the digest is no longer 0
      Frame sent = flow.Send(frame, sample.link);
      if (sent == frame) continue;
      ++written;
      // The NF writes only behind a whole header.
      ASSERT_TRUE(headers.result == ParseResult::kComplete ||
                  headers.result == ParseResult::kLaterFragment);
      ASSERT_GE(headers.payload_bytes(), kDigestBytes);
      const auto end = static_cast<ptrdiff_t>(headers.end_offset);
      std::copy(frame.begin() + end - 8, frame.begin() + end,
                sent.begin() + end - 8);
      ASSERT_EQ(sent, frame);
    }
  }
  EXPECT_GT(written, 100u);
}

TEST(Chronicle, ALostPacketShowsInAllLaterOnes) {
  const std::vector<Frame> frames = Frames(30);
  for (size_t lost = 0; lost < frames.size(); ++lost) {
    std::vector<Frame> fewer = frames;
    fewer.erase(fewer.begin() + static_cast<ptrdiff_t>(lost));
    std::vector<Frame> sent = Flow().Send(fewer);
    sent.insert(sent.begin() + static_cast<ptrdiff_t>(lost),
                Flow().Send(frames)[lost]);
    ExpectDiffersFrom(lost + 1, frames, sent);
  }
}

TEST(Chronicle, ADoubledPacketShowsInAllLaterOnes) {
  const std::vector<Frame> frames = Frames(30);
  for (size_t doubled = 0; doubled < frames.size(); ++doubled) {
    Flow flow;
    std::vector<Frame> sent;
    for (size_t i = 0; i < frames.size(); ++i) {
      sent.push_back(flow.Send(frames[i]));
      if (i == doubled) flow.Send(frames[i]);
    }
    ExpectDiffersFrom(doubled + 1, frames, sent);
  }
}

TEST(Chronicle, SwappedPacketsShowInThemselvesAndAllLaterOnes) {
  const std::vector<Frame> frames = Frames(30);
  for (size_t early = 1; early + 1 < frames.size(); ++early) {
    std::vector<Frame> swapped = frames;
    std::swap(swapped[early], swapped[early + 1]);
    std::vector<Frame> sent = Flow().Send(swapped);
    std::swap(sent[early], sent[early + 1]);
    ExpectDiffersFrom(early, frames, sent);
  }
}

TEST(Chronicle, EachByteOfAPacketShowsInTheNext) {
  const Frame frame = UdpFrame(100);
  Flow flow;
  flow.Send(frame);
  const Frame expected = flow.Send(frame);
  for (size_t byte = 0; byte < frame.size(); ++byte) {
    Frame other = frame;
    other[byte] ^= std::byte{1};
    Flow another;
    another.Send(other);
    EXPECT_NE(another.Send(frame), expected) << byte;
  }
}

TEST(Chronicle, GoesOnAtAnotherUnitFromTheRecordAlone) {
  const std::vector<Frame> frames = Frames(20);
  std::vector<std::byte> record = Flow().record;
  std::vector<Frame> sent;
  for (const Frame& frame : frames) {
    Flow unit;
    unit.record = record;
    sent.push_back(unit.Send(frame));
    record = unit.record;
  }
  EXPECT_EQ(sent, Flow().Send(frames));
}

TEST(Chronicle, StaleStateShowsInAllLaterPackets) {
  const std::vector<Frame> frames = Frames(20);
  for (size_t stale = 1; stale < frames.size(); ++stale) {
    Flow flow;
    std::vector<Frame> sent;
    std::vector<std::byte> before;
    for (size_t i = 0; i < frames.size(); ++i) {
      if (i == stale) flow.record = before;
      before = flow.record;
      sent.push_back(flow.Send(frames[i]));
    }
    ExpectDiffersFrom(stale, frames, sent);
  }
}

TEST(Chronicle, EachByteOfItsStateCounts) {
  const Frame frame = UdpFrame(100);
  Flow flow;
  flow.Send(frame);
  const std::vector<std::byte> record = flow.record;
  flow.Send(frame);
  const Frame expected = flow.Send(frame);
  int bytes = 0;
  for (size_t byte = 8; byte < record.size(); ++byte) {
    Flow other;
    other.record = record;
    other.record[byte] ^= std::byte{1};
    if (!other.nf->schema().IsWellFormed(other.record)) continue;
    ++bytes;
    other.Send(frame);
    EXPECT_NE(other.Send(frame), expected) << byte;
  }
  EXPECT_EQ(bytes, 8 + 8 + 64);
}

}  // namespace
}  // namespace snf
