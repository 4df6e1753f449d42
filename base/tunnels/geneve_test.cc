// SPDX-License-Identifier: Apache-2.0
#include "base/tunnels/geneve.h"

#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <vector>

#include "base/packet/test_packets.h"
#include "base/rng.h"
#include "base/test_allocations.h"
#include "base/test_seeds.h"
#include "gtest/gtest.h"

namespace snf {
namespace {

using Bytes = std::span<const std::byte>;

constexpr GeneveOptionName kUnderstood = {.option_class = 0x0108, .type = 0x84};

// As AWS sends it: endpoint, attachment and cookie.
Frame AwsHeader() {
  return Hex(
      "08 00 0800 000000 00"
      "0108 01 02 1122334455667788"
      "0108 02 02 99aabbccddeeff00"
      "0108 03 01 cafef00d");
}

// Parses bytes that end where the allocation does, so that a sanitizer sees
// each access behind them.
GeneveFault FaultOf(const Frame& payload, GeneveHeader* parsed = nullptr) {
  const auto copy = std::make_unique<std::byte[]>(payload.size());
  std::ranges::copy(payload, copy.get());
  GeneveHeader header;
  const GeneveFault fault =
      ParseGeneve({copy.get(), payload.size()}, {&kUnderstood, 1}, header);
  header.options = {};
  if (parsed != nullptr) *parsed = header;
  return fault;
}
std::string FaultOf(const std::string& hex) {
  return std::string(Name(FaultOf(Hex(hex))));
}

std::vector<GeneveOption> ListOf(Bytes list, bool* is_broken = nullptr) {
  std::vector<GeneveOption> all;
  GeneveOptions options(list);
  while (const auto option = options.Next()) all.push_back(*option);
  if (is_broken != nullptr) *is_broken = options.is_broken();
  return all;
}

TEST(Geneve, ReadsTheFixedHeader) {
  GeneveHeader header;
  EXPECT_EQ(FaultOf(Hex("00 80 86dd 123456 ff"), &header), GeneveFault::kNone);
  EXPECT_TRUE(header.is_control);
  EXPECT_EQ(header.protocol, EtherType::kIpv6);
  EXPECT_EQ(header.network, 0x123456u);
  EXPECT_EQ(FaultOf(Hex("00 3f 6558 000001 00"), &header), GeneveFault::kNone);
  EXPECT_FALSE(header.is_control);
  EXPECT_EQ(header.protocol, kBridgedFrame);
  EXPECT_EQ(header.network, 1u);
}

TEST(Geneve, ReadsOptionsInTheirOrder) {
  const Frame payload = AwsHeader() + Hex("45 00");
  GeneveHeader header;
  ASSERT_EQ(ParseGeneve(payload, {}, header), GeneveFault::kNone);
  EXPECT_EQ(header.bytes(), 40u);
  bool is_broken = true;
  const auto options = ListOf(header.options, &is_broken);
  EXPECT_FALSE(is_broken);
  ASSERT_EQ(options.size(), 3u);
  for (uint8_t i = 0; i < 3; ++i) {
    EXPECT_EQ(options[i].name,
              (GeneveOptionName{.option_class = 0x0108,
                                .type = static_cast<uint8_t>(i + 1)}));
  }
  EXPECT_TRUE(std::ranges::equal(options[0].data, Hex("1122334455667788")));
  EXPECT_TRUE(std::ranges::equal(options[2].data, Hex("cafef00d")));
}

TEST(Geneve, RefusesByName) {
  EXPECT_EQ(FaultOf(""), "truncated");
  EXPECT_EQ(FaultOf("00 00 0800 000000"), "truncated");
  EXPECT_EQ(FaultOf("40 00 0800 000000 00"), "version");
  EXPECT_EQ(FaultOf("c0 00 0800 000000 00"), "version");
  EXPECT_EQ(FaultOf("01 00 0800 000000 00"), "options_truncated");
  EXPECT_EQ(FaultOf("3f 00 0800 000000 00 00000000"), "options_truncated");
  EXPECT_EQ(FaultOf("01 00 0800 000000 00 0108 01 01"), "option_length");
  EXPECT_EQ(FaultOf("02 00 0800 000000 00 0108 01 1f 00000000"),
            "option_length");
  // The bytes behind the list do not help.
  EXPECT_EQ(FaultOf("01 00 0800 000000 00 0108 01 01 4500 0014"),
            "option_length");
  EXPECT_EQ(FaultOf("00 00 0806 000000 00"), "inner_protocol");
  EXPECT_EQ(FaultOf("00 00 0000 000000 00"), "inner_protocol");
}

TEST(Geneve, RefusesCriticalOptionsThatAreNotKnown) {
  EXPECT_EQ(FaultOf("01 40 0800 000000 00 0108 84 00"), "none");
  EXPECT_EQ(FaultOf("01 40 0800 000000 00 0109 84 00"), "critical_option");
  EXPECT_EQ(FaultOf("01 40 0800 000000 00 0108 81 00"), "critical_option");
  // The flag of the header may lie.
  EXPECT_EQ(FaultOf("01 00 0800 000000 00 0109 84 00"), "critical_option");
  EXPECT_EQ(FaultOf("01 40 0800 000000 00 0109 04 00"), "none");
  // Reserved bits beside the length of an option are ignored.
  EXPECT_EQ(FaultOf("02 00 0800 000000 00 0109 04 e1 00000000"), "none");
}

TEST(Geneve, KnowsWhereItIsCut) {
  const Frame whole = AwsHeader();
  for (size_t length = 0; length < whole.size(); ++length) {
    const Frame cut(whole.begin(), whole.begin() + static_cast<int>(length));
    EXPECT_EQ(Name(FaultOf(cut)),
              length < kGeneveFixedBytes ? "truncated" : "options_truncated")
        << length;
  }
  EXPECT_EQ(FaultOf(whole), GeneveFault::kNone);
}

// The header says that the list ends there.
TEST(Geneve, ReadsNoOptionBehindTheList) {
  const Frame whole = AwsHeader();
  for (size_t words = 0; words <= 8; ++words) {
    Frame shorter = whole;
    shorter[0] = static_cast<std::byte>(words);
    const bool is_whole = words == 0 || words == 3 || words == 6 || words == 8;
    EXPECT_EQ(Name(FaultOf(shorter)), is_whole ? "none" : "option_length")
        << words;
    shorter.resize(kGeneveFixedBytes + words * 4);
    EXPECT_EQ(Name(FaultOf(shorter)), is_whole ? "none" : "option_length")
        << words;
  }
}

// A list of any length, also a length that no header can give.
TEST(Geneve, OptionsEndWhereTheyAreCut) {
  const Frame whole = AwsHeader();
  const Bytes list = Bytes(whole).subspan(kGeneveFixedBytes);
  for (size_t length = 0; length <= list.size(); ++length) {
    const auto copy = std::make_unique<std::byte[]>(length);
    std::ranges::copy(list.first(length), copy.get());
    bool is_broken = false;
    const auto options = ListOf({copy.get(), length}, &is_broken);
    EXPECT_EQ(options.size(), length < 12   ? 0u
                              : length < 24 ? 1u
                              : length < 32 ? 2u
                                            : 3u);
    EXPECT_EQ(is_broken,
              length != 0 && length != 12 && length != 24 && length != 32);
  }
}

TEST(Geneve, BuildsTheBytesThatAwsSends) {
  const Frame want = AwsHeader();
  GeneveHeader header;
  ASSERT_EQ(ParseGeneve(want, {}, header), GeneveFault::kNone);
  const auto options = ListOf(header.options);
  Frame room(want.size());
  const BuiltGeneve built = BuildGeneve(header, options, room);
  EXPECT_EQ(built.fault, GeneveFault::kNone);
  EXPECT_EQ(built.bytes, want.size());
  EXPECT_EQ(room, want);
}

TEST(Geneve, SaysThatAnOptionIsCritical) {
  Frame room(12);
  const GeneveOption option = {.name = kUnderstood, .data = {}};
  EXPECT_EQ(BuildGeneve({.is_control = true, .protocol = EtherType::kIpv4},
                        {&option, 1}, room)
                .bytes,
            12u);
  EXPECT_EQ(room, Hex("01 c0 0800 000000 00 0108 84 00"));
}

TEST(Geneve, BuildsNothingThatCannotBeParsed) {
  const Frame data(kMaxGeneveOptionData + 4);
  const auto fault_of = [&](size_t count, size_t bytes, size_t room_bytes,
                            EtherType type = EtherType::kIpv4) {
    const std::vector<GeneveOption> options(
        count, {.name = {.option_class = 1}, .data = Bytes(data).first(bytes)});
    Frame room(room_bytes, std::byte{0x5a});
    const Frame before = room;
    const BuiltGeneve built =
        BuildGeneve({.protocol = type, .options = {}}, options, room);
    if (built.fault != GeneveFault::kNone) {
      EXPECT_EQ(room, before);
      EXPECT_EQ(built.bytes, 0u);
    }
    return std::string(Name(built.fault));
  };
  EXPECT_EQ(fault_of(0, 0, 8), "none");
  EXPECT_EQ(fault_of(0, 0, 7), "no_room");
  EXPECT_EQ(fault_of(1, 4, 15), "no_room");
  EXPECT_EQ(fault_of(1, 3, 100), "option_length");
  EXPECT_EQ(fault_of(1, kMaxGeneveOptionData + 4, 1'000), "option_length");
  EXPECT_EQ(fault_of(1, kMaxGeneveOptionData, 1'000), "none");
  EXPECT_EQ(fault_of(2, kMaxGeneveOptionData, 1'000), "options_too_long");
  EXPECT_EQ(fault_of(63, 0, kMaxGeneveBytes), "none");
  EXPECT_EQ(fault_of(64, 0, 1'000), "options_too_long");
  EXPECT_EQ(fault_of(0, 0, 8, EtherType::kArp), "inner_protocol");
}

// Random options that fit into a header, with data of their own.
struct RandomOptions {
  explicit RandomOptions(Rng& rng) {
    for (size_t left = kMaxGeneveOptionsBytes; rng.Below(8) != 0;) {
      const auto bytes =
          static_cast<size_t>(rng.Below(rng.Below(4) == 0 ? 32 : 4) * 4);
      if (kGeneveOptionHeaderBytes + bytes > left) break;
      left -= kGeneveOptionHeaderBytes + bytes;
      for (std::byte& byte : data[list.size()])
        byte = std::byte(rng.Below(256));
      list.push_back(
          {.name = {.option_class = static_cast<uint16_t>(rng.Below(65'536)),
                    .type = static_cast<uint8_t>(rng.Below(256))},
           .data = Bytes(data[list.size()]).first(bytes)});
    }
  }

  std::array<std::array<std::byte, kMaxGeneveOptionData>, 63> data{};
  std::vector<GeneveOption> list;
};

TEST(Geneve, ParsesWhatItBuilds) {
  Rng rng(TestSeeds::One(1));
  constexpr std::array kTypes = {EtherType::kIpv4, EtherType::kIpv6,
                                 kBridgedFrame};
  for (int i = 0; i < 2'000; ++i) {
    const RandomOptions options(rng);
    const GeneveHeader header = {
        .is_control = rng.Below(2) == 0,
        .protocol = kTypes[rng.Below(kTypes.size())],
        .network = static_cast<uint32_t>(rng.Below(1u << 24)),
        .options = {}};
    Frame room(kMaxGeneveBytes);
    const BuiltGeneve built = BuildGeneve(header, options.list, room);
    ASSERT_EQ(built.fault, GeneveFault::kNone);
    std::vector<GeneveOptionName> known;
    for (const auto& option : options.list) known.push_back(option.name);
    GeneveHeader parsed;
    ASSERT_EQ(ParseGeneve(Bytes(room).first(built.bytes), known, parsed),
              GeneveFault::kNone);
    EXPECT_EQ(parsed.bytes(), built.bytes);
    EXPECT_EQ(parsed.is_control, header.is_control);
    EXPECT_EQ(parsed.protocol, header.protocol);
    EXPECT_EQ(parsed.network, header.network);
    const auto list = ListOf(parsed.options);
    ASSERT_EQ(list.size(), options.list.size());
    for (size_t k = 0; k < list.size(); ++k) {
      EXPECT_EQ(list[k].name, options.list[k].name);
      EXPECT_TRUE(std::ranges::equal(list[k].data, options.list[k].data));
    }
    const bool is_critical = std::ranges::any_of(
        known, [](const GeneveOptionName& name) { return name.is_critical(); });
    EXPECT_EQ((room[1] & std::byte{0x40}) != std::byte{0}, is_critical);
  }
}

// Any bytes, and right headers in which some bytes are wrong.
TEST(Geneve, StaysInsideWhateverTheBytesAre) {
  Rng rng(TestSeeds::One(1));
  std::array<int, kGeneveFaults> seen{};
  for (int i = 0; i < 20'000; ++i) {
    Frame payload = AwsHeader() + Hex("45 00 00 14");
    for (auto n = rng.Below(4); n > 0; --n) {
      payload[rng.Below(payload.size())] = std::byte(rng.Below(256));
    }
    if (rng.Below(3) == 0) payload.resize(rng.Below(payload.size() + 1));
    ++seen[static_cast<size_t>(FaultOf(payload))];
  }
  for (const GeneveFault fault :
       {GeneveFault::kNone, GeneveFault::kTruncated, GeneveFault::kOtherVersion,
        GeneveFault::kOptionsTruncated, GeneveFault::kOptionLength,
        GeneveFault::kCriticalOption, GeneveFault::kInnerProtocol}) {
    EXPECT_GT(seen[static_cast<size_t>(fault)], 100) << Name(fault);
  }
}

TEST(Geneve, AllocatesNothing) {
  const Frame payload = AwsHeader();
  Frame room(kMaxGeneveBytes);
  std::array<GeneveOption, 3> list;
  const uint64_t before = Allocations();
  GeneveHeader header;
  ASSERT_EQ(ParseGeneve(payload, {}, header), GeneveFault::kNone);
  GeneveOptions options(header.options);
  for (GeneveOption& option : list) option = *options.Next();
  EXPECT_EQ(BuildGeneve(header, list, room).bytes, payload.size());
  EXPECT_EQ(Allocations(), before);
}

}  // namespace
}  // namespace snf
