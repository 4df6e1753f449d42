// SPDX-License-Identifier: Apache-2.0
// Sequence numbers, the window, and packets that somebody changed.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/packet/headers.h"
#include "base/rng.h"
#include "base/test_seeds.h"
#include "nfs/test_vpn.h"
#include "nfs/vpn_packet.h"
#include "nfs/vpn_tunnels.h"
#include "nfs/vpn_window.h"
#include "runtime/sdk/nf_test.h"

namespace snf {
namespace {

using vpn::Ends;
using vpn::IvOf;
using vpn::kLink;
using vpn::kOuter4;
using vpn::kPacket;
using vpn::Pair;
using vpn::WordAt;

uint32_t SequenceOf(const TestPacket& packet) {
  return WordAt(packet, kOuter4 + 4).host();
}

// Makes ESP of any sequence number, as A sends it to B.
class Sealer {
 public:
  explicit Sealer(const Ends& ends = {}) {
    std::string options = ends.OptionsOf(true);
    options = options.substr(options.find('=') + 1);
    options = options.substr(0, options.find(','));
    tunnels_ = *VpnTunnels::Load(options);
    cipher_.emplace(tunnel().key_out, true);
  }
  TestPacket Seal(uint64_t sequence, const std::string& text = kPacket) {
    TestPacket packet = Packets({text})[0];
    PacketInfo info;
    info.length = static_cast<uint32_t>(packet.bytes.size());
    info.original_length = packet.original_length;
    Parse(info.link, packet.bytes, info.headers);
    packet.bytes.resize(info.length + kMaxPacketGrowth);
    Packet p(info, std::span(packet.bytes).first(info.length), packet.bytes);
    EXPECT_EQ(Encapsulate(tunnel(), {.sequence = sequence, .iv = ++iv_}, 9'000,
                          *cipher_, p),
              PacketResize::kDone);
    packet.bytes.resize(info.length);
    packet.original_length = info.length;
    return packet;
  }
  // ESP with a text of the test's own.
  TestPacket SealText(uint64_t sequence, Frame text) {
    TestPacket packet = Packets({"50 192.0.2.1 > 198.51.100.1 len=" +
                                 std::to_string(text.size() + 32)})[0];
    const std::span<std::byte> esp =
        std::span(packet.bytes).subspan(kLink + kOuter4);
    Store(&esp[0], be32(tunnel().spi_out));
    Store(&esp[4], be32(static_cast<uint32_t>(sequence)));
    Store(&esp[12], be32(static_cast<uint32_t>(++iv_)));
    const EspAssociated associated(tunnel().spi_out, sequence, false);
    cipher_->Seal(esp.subspan<8, 8>(), associated.bytes(), text,
                  esp.last<16>());
    std::ranges::copy(text, esp.subspan(16).begin());
    return packet;
  }

 private:
  const VpnTunnel& tunnel() const { return tunnels_.all()[0]; }

  VpnTunnels tunnels_;
  std::optional<EspCipher> cipher_;
  uint64_t iv_ = 0;
};

TEST(VpnReplay, TakesAPacketOnce) {
  Pair pair;
  const TestPacket sealed = pair.Sealed(kPacket);
  EXPECT_EQ(pair.ToB(sealed), kPacket);
  EXPECT_EQ(pair.ToB(sealed), "drop replayed");
  EXPECT_EQ(pair.ToB(pair.Sealed(kPacket)), kPacket);
  EXPECT_EQ(pair.ToB(sealed), "drop replayed");
}

TEST(VpnReplay, TakesAnyOrderInsideTheWindow) {
  for (const uint64_t seed : TestSeeds(20).all()) {
    SCOPED_TRACE(TestSeeds::Name(seed));
    Rng rng(seed);
    Pair pair({.options = ",window=128"});
    std::vector<TestPacket> sealed = pair.Sealed(kPacket, 128);
    rng.Shuffle(std::span(sealed));
    for (const TestPacket& packet : sealed) {
      EXPECT_EQ(pair.ToB(packet), kPacket);
    }
    for (const TestPacket& packet : sealed) {
      EXPECT_EQ(pair.ToB(packet), "drop replayed");
    }
  }
}

TEST(VpnReplay, KnowsTheEdgesOfTheWindow) {
  for (const uint64_t window : {32, 33, 64, 100, 1'024, 4'096}) {
    SCOPED_TRACE(window);
    Sealer sealer;
    const Ends ends{.options = absl::StrCat(",window=", window)};
    NfTest b(ends.OptionsOf(false));
    const uint64_t top = 10'000;
    EXPECT_EQ(b.Send(sealer.Seal(top)), kPacket);
    EXPECT_EQ(b.Send(sealer.Seal(top - window)), "drop too_old");
    EXPECT_EQ(b.Send(sealer.Seal(top - window + 1)), kPacket);
    EXPECT_EQ(b.Send(sealer.Seal(top - window + 1)), "drop replayed");
    EXPECT_EQ(b.Send(sealer.Seal(top)), "drop replayed");
    EXPECT_EQ(b.Send(sealer.Seal(top + 1)), kPacket);
    EXPECT_EQ(b.Send(sealer.Seal(top - window + 1)), "drop too_old");
    EXPECT_EQ(b.Send(sealer.Seal(1)), "drop too_old");
    EXPECT_EQ(b.Send(sealer.Seal(0xffff'ffff)), kPacket);
    EXPECT_EQ(b.Send(sealer.Seal(0xffff'ffff - window + 1)), kPacket);
    EXPECT_EQ(b.Send(sealer.Seal(top + 1)), "drop too_old");
    EXPECT_EQ(b.Send(sealer.Seal(0)), "drop malformed");
  }
  // The usual one.
  Sealer sealer;
  NfTest b(Ends{}.OptionsOf(false));
  EXPECT_EQ(b.Send(sealer.Seal(5'000)), kPacket);
  EXPECT_EQ(b.Send(sealer.Seal(3'976)), "drop too_old");
  EXPECT_EQ(b.Send(sealer.Seal(3'977)), kPacket);
}

// The window as a set of all numbers that came.
TEST(VpnReplay, KnowsWhatASetOfAllNumbersKnows) {
  for (const uint64_t seed : TestSeeds(40).all()) {
    SCOPED_TRACE(TestSeeds::Name(seed));
    Rng rng(seed);
    const auto size = static_cast<uint32_t>(32 + rng.Below(400));
    const VpnWindow window(size);
    std::vector<std::byte> bits(window.bytes());
    std::set<uint64_t> seen;
    uint64_t highest = 0;
    for (int i = 0; i < 5'000; ++i) {
      const uint64_t ahead = rng.Below(20) == 0 ? rng.Below(2 * size) : 3;
      const uint64_t most = highest + ahead;
      const uint64_t sequence =
          std::max<int64_t>(1, static_cast<int64_t>(most) -
                                   static_cast<int64_t>(rng.Below(size + 40)));
      VpnSeen expected = VpnSeen::kNew;
      if (sequence + size <= highest) {
        expected = VpnSeen::kTooOld;
      } else if (seen.contains(sequence)) {
        expected = VpnSeen::kReplayed;
      }
      ASSERT_EQ(window.Look(highest, bits, sequence), expected)
          << sequence << " after " << highest;
      if (expected != VpnSeen::kNew) continue;
      window.Mark(highest, bits, sequence, [&](size_t place, uint64_t word) {
        std::memcpy(&bits.at(place), &word, sizeof word);
      });
      seen.insert(sequence);
      highest = std::max(highest, sequence);
    }
    EXPECT_GT(seen.size(), 500u);
  }
}

TEST(VpnReplay, FindsTheUpperHalfOfASequenceNumber) {
  const VpnWindow window(64);
  constexpr uint64_t kTurn = uint64_t{1} << 32;
  EXPECT_EQ(window.Extended(0, 1), 1u);
  EXPECT_EQ(window.Extended(0, 0xffff'fff0), std::nullopt);
  EXPECT_EQ(window.Extended(kTurn - 1, 0), kTurn);
  EXPECT_EQ(window.Extended(kTurn - 1, 0xffff'ffc0), kTurn - 64);
  EXPECT_EQ(window.Extended(kTurn - 1, 0xffff'ffbf), 2 * kTurn - 65);
  EXPECT_EQ(window.Extended(kTurn + 5, 0xffff'fff0), kTurn - 16);
  EXPECT_EQ(window.Extended(kTurn + 5, 100), kTurn + 100);
  EXPECT_EQ(window.Extended(3 * kTurn + 70, 6), 4 * kTurn + 6);
}

TEST(VpnReplay, GoesOnBeyondTheLowerHalfWithLongNumbers) {
  const Ends ends{.more = "esn=on"};
  Sealer sealer(ends);
  NfTest b(ends.OptionsOf(false));
  constexpr uint64_t kTurn = uint64_t{1} << 32;
  for (const uint64_t next : {uint64_t{5}, kTurn / 2, kTurn - 2}) {
    EXPECT_EQ(b.Send(sealer.Seal(next)), kPacket) << next;
  }
  for (const uint64_t next : {kTurn + 1, kTurn - 1, kTurn, kTurn + 500}) {
    EXPECT_EQ(b.Send(sealer.Seal(next)), kPacket) << next;
    EXPECT_EQ(b.Send(sealer.Seal(next)), "drop replayed") << next;
  }
  // The number does not say that it is of a later turn.
  EXPECT_EQ(b.Send(sealer.Seal(2 * kTurn + 501)), "drop not_authentic");
}

TEST(VpnReplay, GivesNoSequenceNumberTwice) {
  struct Numbers {
    uint64_t sequence;
    uint64_t iv;
  };
  Pair pair;
  NfTest& a = pair.a();
  const std::vector<TestPacket> sealed = pair.Sealed(kPacket, 300);
  std::set<uint64_t> ivs;
  for (size_t i = 0; i < sealed.size(); ++i) {
    EXPECT_EQ(SequenceOf(sealed[i]), i + 1);
    EXPECT_TRUE(ivs.insert(IvOf(sealed[i])).second);
  }
  const auto kept = a.slot<Numbers>("sent", kPacket);
  ASSERT_TRUE(kept.has_value());
  EXPECT_EQ(kept->sequence, 300u);
  EXPECT_EQ(kept->iv, IvOf(sealed.back()));
  // Time without packets ends no association.
  a.Pass(Seconds(1'000'000));
  EXPECT_EQ(a.flows(), 1u);
  EXPECT_EQ(SequenceOf(pair.Sealed(kPacket)), 301u);
}

TEST(VpnReplay, StopsAtTheLastSequenceNumber) {
  Pair pair({.more = "first=0xfffffffd"});
  for (const uint32_t next : {0xffff'fffd, 0xffff'fffe, 0xffff'ffff}) {
    const TestPacket sealed = pair.Sealed(kPacket);
    EXPECT_EQ(SequenceOf(sealed), next);
    EXPECT_EQ(pair.ToB(sealed), kPacket);
  }
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(pair.a().Send(kPacket), "drop sequence_exhausted");
  }
}

TEST(VpnReplay, SendsLongNumbersBeyondTheLowerHalf) {
  const Ends ends{.more = "esn=on first=0xfffffffe"};
  Pair pair(ends);
  Sealer sealer(ends);
  for (const uint64_t before : {0x8000'0000, 0xffff'fff0}) {
    EXPECT_EQ(pair.ToB(sealer.Seal(before)), kPacket);
  }
  for (const uint32_t next : {0xffff'fffeu, 0xffff'ffffu, 0u, 1u}) {
    const TestPacket sealed = pair.Sealed(kPacket);
    EXPECT_EQ(SequenceOf(sealed), next);
    EXPECT_EQ(pair.ToB(sealed), kPacket);
  }
  Pair at_end({.more = "esn=on first=0xffffffffffffffff"});
  EXPECT_EQ(SequenceOf(at_end.Sealed(kPacket)), 0xffff'ffff);
  EXPECT_EQ(at_end.a().Send(kPacket), "drop sequence_exhausted");
}

// The bytes that the tag covers, as in draft-mcgrew-gcm-test-01 §4.
TEST(VpnReplay, CoversLongNumbersAsAWhole) {
  const auto bytes = [](const EspAssociated& associated) {
    return Frame(associated.bytes().begin(), associated.bytes().end());
  };
  EXPECT_EQ(bytes(EspAssociated(0x4321, 0x8765'4321'0000'0000, true)),
            Hex("00004321 87654321 00000000"));
  EXPECT_EQ(bytes(EspAssociated(0x4a2c'bfe3, 2, false)),
            Hex("4a2cbfe3 00000002"));
}

// State that is lost takes the number with it, but IVs stay unique, which is
// what GCM needs. At one and the same time they cannot.
TEST(VpnReplay, RepeatsNoIvWhenStateIsLost) {
  Pair pair;
  std::set<uint64_t> ivs;
  for (int round = 0; round < 50; ++round) {
    for (int i = 0; i < 20; ++i) {
      const TestPacket sealed =
          pair.Sealed((i == 0 ? "+1us " : "+0us ") + kPacket);
      EXPECT_EQ(SequenceOf(sealed), static_cast<uint32_t>(i) + 1);
      EXPECT_TRUE(ivs.insert(IvOf(sealed)).second) << round << ' ' << i;
    }
    pair.a().EndFlows();
  }
}

// --- Changed packets --------------------------------------------------------

TEST(VpnReplay, TakesNoPacketWithAChangedByte) {
  for (const bool is_udp : {false, true}) {
    Pair pair({.more = is_udp ? "udp=4500" : "", .name = "changed"});
    const TestPacket sealed = pair.Sealed(kPacket);
    const size_t esp = kLink + kOuter4 + (is_udp ? 8 : 0);
    const std::set<std::string> usual = {"drop not_authentic",
                                         "drop malformed"};
    // Another version or header length is no IP, and not for an NF.
    for (size_t at = kLink + 1; at < sealed.bytes.size(); ++at) {
      for (const int bit : {0, 3, 7}) {
        TestPacket changed = sealed;
        changed.bytes[at] ^= std::byte{1} << bit;
        const std::string fate = pair.ToB(changed);
        if (at >= esp + 4) {
          EXPECT_TRUE(usual.contains(fate)) << at << ": " << fate;
        } else if (at >= esp) {
          // The SPI; in UDP, 0 would be IKE.
          EXPECT_EQ(fate, "drop unknown_spi") << at;
        } else {
          // The outer header; no tag covers it, and only its ends matter.
          EXPECT_TRUE(fate.starts_with("drop ") || fate == kPacket)
              << at << ": " << fate;
          if (fate == kPacket) pair.b().EndFlows();
        }
      }
    }
    EXPECT_EQ(pair.ToB(sealed), kPacket);
  }
}

TEST(VpnReplay, TakesNoPacketThatIsCut) {
  for (const bool is_udp : {false, true}) {
    Pair pair({.more = is_udp ? "udp=4500" : "", .name = "cut"});
    const TestPacket sealed = pair.Sealed(kPacket);
    const size_t esp = kLink + kOuter4 + (is_udp ? 8 : 0);
    for (size_t bytes = esp; bytes < sealed.bytes.size(); ++bytes) {
      // As the capture cut it.
      TestPacket cut = sealed;
      cut.bytes.resize(bytes);
      const std::string fate = pair.ToB(cut);
      EXPECT_TRUE(fate == "drop cut" || fate == "drop malformed") << fate;
      // As if it had been sent so.
      cut.original_length = static_cast<uint32_t>(bytes);
      const auto ip = Ipv4Header<std::byte>::At(cut.bytes, kLink);
      ip.set_total_bytes(static_cast<uint16_t>(bytes - kLink));
      const std::string whole = pair.ToB(cut);
      EXPECT_TRUE(whole == "drop not_authentic" || whole == "drop malformed")
          << bytes << ": " << whole;
    }
    EXPECT_EQ(pair.ToB(sealed), kPacket);
  }
}

TEST(VpnReplay, WithstandsAnyBytesForAnEndOfTunnels) {
  NfTest b(Ends{.more = "udp=4500"}.OptionsOf(false));
  NfTest c(Ends{.name = "plain"}.OptionsOf(false));
  for (const uint64_t seed : TestSeeds(2'000).all()) {
    SCOPED_TRACE(TestSeeds::Name(seed));
    Rng rng(seed);
    const bool is_udp = rng.Below(2) == 0;
    TestPacket packet =
        Packets({absl::StrCat(is_udp ? "udp 192.0.2.1:4500 > 198.51.100.1:4500"
                                     : "50 192.0.2.1 > 198.51.100.1",
                              " len=", rng.Below(120))})[0];
    const size_t begin = kLink + kOuter4 + (is_udp ? 8 : 0);
    for (size_t i = begin; i < packet.bytes.size(); ++i) {
      packet.bytes[i] = static_cast<std::byte>(rng.Below(256));
    }
    if (rng.Below(4) != 0 && packet.bytes.size() >= begin + 4) {
      Store(&packet.bytes[begin], be32(0x2000'2000));  // its SPI
    }
    const std::string fate = (is_udp ? b : c).Send(packet).text;
    EXPECT_TRUE(fate.starts_with("drop ") || fate == "consume") << fate;
  }
}

// Texts that the peer sealed, but that hold no packet of the tunnel.
TEST(VpnReplay, TakesOnlyPacketsOfTheTunnelOutOfTheText) {
  Sealer sealer;
  NfTest b(Ends{.options = ",window=64"}.OptionsOf(false));
  uint64_t number = 0;
  const auto with = [&](Frame text, const std::string& end) {
    return b.Send(sealer.SealText(++number, text + Hex(end))).text;
  };
  Frame inner = Packets({kPacket})[0].bytes;
  inner.erase(inner.begin(), inner.begin() + kLink);  // 33 bytes
  EXPECT_EQ(with(inner, "010104"), kPacket);
  // Hidden length (RFC 4303 §2.7), and more padding than is needed.
  EXPECT_EQ(with(inner, "0000000000000102030304"), kPacket);
  EXPECT_EQ(with(inner, "01020304050504"), kPacket);
  EXPECT_EQ(with(inner, "020104"), "drop malformed");  // not 1
  EXPECT_EQ(with(inner, "01ff04"), "drop malformed");  // too much
  EXPECT_EQ(with(inner, "010129"), "drop malformed");  // of IPv6
  EXPECT_EQ(with(inner, "010111"), "drop malformed");  // no tunnel mode
  EXPECT_EQ(with(Frame(8), "01020204"), "drop malformed");
  EXPECT_EQ(with(Frame(1), "010104"), "drop malformed");
  EXPECT_EQ(with(Frame(40), "01020229"), "drop malformed");
  EXPECT_EQ(with(Frame(), "01020204"), "drop malformed");
  EXPECT_EQ(with(Frame(9), "01013b"), "consume");
  EXPECT_EQ(b.count("dummies"), 1u);
  Frame longer = inner;
  longer[3] = std::byte{200};
  EXPECT_EQ(with(longer, "010104"), "drop malformed");
  longer[3] = std::byte{19};
  EXPECT_EQ(with(longer, "010104"), "drop malformed");
  // All of these had a tag, so their numbers are used.
  EXPECT_EQ(b.Send(sealer.Seal(number)), "drop replayed");
  for (const std::string other :
       {"udp 10.3.0.5:5000 > 10.2.0.9:53", "udp 10.1.0.5:5000 > 10.3.0.9:53",
        "udp 10.2.0.9:53 > 10.1.0.5:5000",
        "udp [fd00:3::5]:5000 > [fd00:2::9]:53",
        "udp [::ffff:10.1.0.5]:5000 > [::ffff:10.2.0.9]:53"}) {
    EXPECT_EQ(b.Send(sealer.Seal(++number, other)), "drop not_selected")
        << other;
  }
}

// --- State that moves -------------------------------------------------------

TEST(VpnReplay, RunsEverywhere) {
  Pair pair;
  Rng rng(1);
  std::vector<std::string> texts;
  for (int i = 0; i < 400; ++i) {
    texts.push_back(absl::StrCat("+", rng.Below(900), "us udp 10.1.0.",
                                 rng.Below(9),
                                 ":5000 > 10.2.0.9:53 len=", rng.Below(300)));
  }
  const std::vector<TestPacket> out = Packets(texts);
  EXPECT_TRUE(RunEverywhere(Ends{}.OptionsOf(true), out));
  std::vector<TestPacket> in;
  for (const std::string& text : texts) in.push_back(pair.Sealed(text));
  // Some late, some twice, some changed.
  for (size_t i = 0; i + 40 < in.size(); i += 9) {
    std::swap(in[i], in[i + rng.Below(40)]);
    in[i + 1] = in[rng.Below(i + 1)];
    in[i + 2].bytes.back() ^= std::byte{1};
  }
  EXPECT_TRUE(
      RunEverywhere(Ends{.options = ",window=64"}.OptionsOf(false), in));
}

}  // namespace
}  // namespace snf
