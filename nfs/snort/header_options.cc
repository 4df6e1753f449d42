// SPDX-License-Identifier: Apache-2.0
#include "nfs/snort/header_options.h"

#include <algorithm>
#include <array>

#include "absl/strings/ascii.h"
#include "nfs/snort/option_text.h"

namespace snf::snort {

namespace {

// Reads "N", "!N", "<N", "<=N", ">N", ">=N", "A<>B" and "A-B".
std::optional<FieldTest> RangeIn(std::string_view text, Field field,
                                 bool includes_ends) {
  constexpr int64_t kMost = int64_t{1} << 40;
  text = StrippedView(text);
  FieldTest test = {.field = field, .first = 0, .last = kMost};
  const auto after = [&text](size_t bytes) {
    return IntegerIn(text.substr(bytes));
  };
  const size_t between = text.find("<>");
  if (between != std::string_view::npos) {
    const auto first = IntegerIn(text.substr(0, between));
    const auto last = after(between + 2);
    if (!first.has_value() || !last.has_value() || *first > *last) return {};
    test.first = *first + (includes_ends ? 0 : 1);
    test.last = *last - (includes_ends ? 0 : 1);
    return test;
  }
  const size_t dash = text.find('-');
  if (dash != std::string_view::npos) {
    if (text.size() == 1) return {};
    if (dash > 0) {
      const auto first = IntegerIn(text.substr(0, dash));
      if (!first.has_value()) return {};
      test.first = *first;
    }
    if (dash + 1 < text.size()) {
      const auto last = after(dash + 1);
      if (!last.has_value()) return {};
      test.last = *last;
    }
    return test;
  }
  std::optional<int64_t> number;
  if (text.starts_with("<=")) {
    if ((number = after(2))) test.last = *number;
  } else if (text.starts_with(">=")) {
    if ((number = after(2))) test.first = *number;
  } else if (text.starts_with('<')) {
    if ((number = after(1))) test.last = *number - 1;
  } else if (text.starts_with('>')) {
    if ((number = after(1))) test.first = *number + 1;
  } else {
    test.negated = text.starts_with('!');
    const bool has_sign = test.negated || text.starts_with('=');
    if ((number = after(has_sign ? 1 : 0))) test.first = test.last = *number;
  }
  if (!number.has_value()) return {};
  return test;
}

}  // namespace

template <Field kField>
Answer HeaderOptions::ReadField(std::string_view value) {
  const auto test = RangeIn(value, kField, kField == Field::kPayloadBytes);
  if (!test.has_value()) return Bad("want N, <N, >N or N<>M");
  rule_.packet_tests.push_back(*test);
  return {};
}

Answer HeaderOptions::ReadIpProtocol(std::string_view value) {
  static constexpr std::array<std::pair<std::string_view, int>, 12> kNames = {
      {{"icmp", 1},
       {"igmp", 2},
       {"ipip", 4},
       {"tcp", 6},
       {"egp", 8},
       {"udp", 17},
       {"gre", 47},
       {"esp", 50},
       {"ah", 51},
       {"pim", 103},
       {"sctp", 132},
       {"ospf", 89}}};
  std::string text(StrippedView(value));
  for (const auto& [name, number] : kNames) {
    if (text == name || text == Cat("!", name)) {
      text = Cat(text[0] == '!' ? "!" : "", number);
    }
  }
  const auto test = RangeIn(text, Field::kIpProtocol, false);
  if (!test.has_value()) return Bad("want a protocol, or !, < or > and one");
  rule_.packet_tests.push_back(*test);
  return {};
}

Answer HeaderOptions::ReadFragmentOffset(std::string_view value) {
  const auto test = RangeIn(value, Field::kFragmentOffset, false);
  if (!test.has_value()) return Bad("want N, !N, <N or >N");
  rule_.packet_tests.push_back(*test);
  return {};
}

Answer HeaderOptions::ReadUriLength(std::string_view value) {
  const std::vector<std::string_view> parts = SplitAt(value, ',');
  Field field = Field::kRawUriBytes;
  if (parts.size() > 1) {
    const std::string_view of = StrippedView(parts[1]);
    if (of == "norm") field = Field::kUriBytes;
    if ((of != "norm" && of != "raw") || parts.size() > 2) {
      return Bad("want raw or norm behind the length");
    }
  }
  const auto test = RangeIn(parts[0], field, true);
  if (!test.has_value()) return Bad("want N, <N, >N or N<>M");
  rule_.packet_tests.push_back(*test);
  return {};
}

namespace {

// Reads letters as bits, and +, * or ! before or behind them.
std::optional<std::string> ReadBits(
    std::string_view text,
    std::initializer_list<std::pair<char, uint8_t>> letters, uint8_t& bits,
    BitsTest::Mode* mode) {
  for (const char c : StrippedView(text)) {
    const char upper = absl::ascii_toupper(static_cast<unsigned char>(c));
    const auto letter =
        std::ranges::find(letters, upper, &std::pair<char, uint8_t>::first);
    if (letter != letters.end()) {
      bits = static_cast<uint8_t>(bits | letter->second);
    } else if (mode != nullptr && (c == '+' || c == '*' || c == '!')) {
      *mode = c == '+'   ? BitsTest::Mode::kAll
              : c == '*' ? BitsTest::Mode::kAny
                         : BitsTest::Mode::kNone;
    } else {
      return Cat("\"", std::string(1, c), "\" is no flag");
    }
  }
  return {};
}

}  // namespace

Answer HeaderOptions::ReadFlags(std::string_view value) {
  static constexpr std::initializer_list<std::pair<char, uint8_t>> kLetters = {
      {'F', 0x01}, {'S', 0x02}, {'R', 0x04}, {'P', 0x08},
      {'A', 0x10}, {'U', 0x20}, {'E', 0x40}, {'C', 0x80},
      {'2', 0x40}, {'1', 0x80}, {'0', 0}};
  const size_t comma = value.find(',');
  BitsTest test = {.of = BitsTest::Of::kTcpFlags};
  auto wrong =
      ReadBits(value.substr(0, comma), kLetters, test.bits, &test.mode);
  if (!wrong && comma != std::string_view::npos) {
    wrong = ReadBits(value.substr(comma + 1), kLetters, test.ignored, nullptr);
  }
  if (wrong.has_value()) return Bad(*wrong);
  rule_.packet_tests.push_back(test);
  return {};
}

Answer HeaderOptions::ReadFragmentBits(std::string_view value) {
  BitsTest test = {.of = BitsTest::Of::kFragmentBits};
  const auto wrong =
      ReadBits(value, {{'R', 4}, {'D', 2}, {'M', 1}}, test.bits, &test.mode);
  if (wrong.has_value()) return Bad(*wrong);
  rule_.packet_tests.push_back(test);
  return {};
}

Answer HeaderOptions::ReadIpOptions(std::string_view value) {
  static constexpr std::array<std::pair<std::string_view, uint8_t>, 9> kTypes =
      {{{"rr", 7},
        {"eol", 0},
        {"nop", 1},
        {"ts", 68},
        {"sec", 130},
        {"esec", 133},
        {"lsrr", 131},
        {"ssrr", 137},
        {"satid", 136}}};
  value = StrippedView(value);
  if (value == "any") {
    rule_.packet_tests.push_back(IpOptionTest{.any = true});
    return {};
  }
  const auto type = std::ranges::find(
      kTypes, value, &std::pair<std::string_view, uint8_t>::first);
  if (type == kTypes.end()) return Bad("no such option of IP");
  rule_.packet_tests.push_back(IpOptionTest{.type = type->second});
  return {};
}

Answer HeaderOptions::ReadSameIp(std::string_view /*value*/) {
  rule_.packet_tests.push_back(SameIpTest{});
  return {};
}

std::optional<Answer> HeaderOptions::Read(std::string_view name,
                                          std::string_view value) {
  using R = HeaderOptions;
  static constexpr Option<R> kTable[] = {
      {"flags", &R::ReadFlags},
      {"dsize", &R::ReadField<Field::kPayloadBytes>},
      {"urilen", &R::ReadUriLength},
      {"itype", &R::ReadField<Field::kIcmpType>},
      {"icode", &R::ReadField<Field::kIcmpCode>},
      {"icmp_id", &R::ReadField<Field::kIcmpId>},
      {"icmp_seq", &R::ReadField<Field::kIcmpSequence>},
      {"ttl", &R::ReadField<Field::kTtl>},
      {"tos", &R::ReadField<Field::kTos>},
      {"id", &R::ReadField<Field::kIpId>},
      {"seq", &R::ReadField<Field::kTcpSequence>},
      {"ack", &R::ReadField<Field::kTcpAcknowledgement>},
      {"window", &R::ReadField<Field::kTcpWindow>},
      {"ip_proto", &R::ReadIpProtocol},
      {"fragoffset", &R::ReadFragmentOffset},
      {"fragbits", &R::ReadFragmentBits},
      {"ipopts", &R::ReadIpOptions},
      {"sameip", &R::ReadSameIp}};
  return ReadFrom<R>(kTable, *this, name, value);
}

}  // namespace snf::snort
