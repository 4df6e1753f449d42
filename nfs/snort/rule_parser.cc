// SPDX-License-Identifier: Apache-2.0
#include "nfs/snort/rule_parser.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "nfs/snort/option_text.h"

namespace snf::snort {
namespace {

using Outcome = RuleParser::Outcome;

// The words of a header: actions, addresses, ports, with their places.
struct HeaderWord {
  std::string_view text;
  size_t at;
};

std::vector<HeaderWord> HeaderWordsOf(std::string_view text, size_t begin) {
  std::vector<HeaderWord> words;
  size_t at = begin;
  while (at < text.size() && text[at] != '(') {
    if (absl::ascii_isspace(static_cast<unsigned char>(text[at]))) {
      ++at;
      continue;
    }
    const size_t first = at;
    int depth = 0;
    while (at < text.size()) {
      const char c = text[at];
      if (c == '[') ++depth;
      if (c == ']') --depth;
      const bool is_space = absl::ascii_isspace(static_cast<unsigned char>(c));
      // "$(NAME)" is a variable, and no begin of options.
      const bool opens = c == '(' && (at == 0 || text[at - 1] != '$');
      if (depth <= 0 && (is_space || opens)) break;
      ++at;
    }
    words.push_back({text.substr(first, at - first), first});
  }
  return words;
}

// The reason for which an option is refused.
struct Refusal {
  Outcome outcome;
  std::string reason;
};
using Answer = std::optional<Refusal>;

Refusal Bad(std::string reason) { return {Outcome::kWrong, std::move(reason)}; }
Refusal NotSupported(std::string reason) {
  return {Outcome::kUnsupported, std::move(reason)};
}

// Reads the options of one rule.
class OptionReader {
 public:
  OptionReader(Rule& rule, FlowbitNames& flowbits)
      : rule_(rule), flowbits_(flowbits) {}

  Answer Read(std::string_view name, std::string_view value);
  // Why an option that was read has no effect; "" if it has.
  const std::string& ignored() const { return ignored_; }
  // The checks of what belongs together, behind the last option.
  Answer End();

 private:
  struct Entry {
    std::string_view name;
    Answer (OptionReader::*read)(std::string_view value);
  };
  static const std::vector<Entry>& Table();

  // Meta.
  Answer ReadMessage(std::string_view value);
  Answer ReadSid(std::string_view value);
  Answer ReadGid(std::string_view value);
  Answer ReadRevision(std::string_view value);
  Answer ReadClass(std::string_view value);
  Answer ReadPriority(std::string_view value);
  Answer ReadReference(std::string_view value);
  Answer ReadMetadata(std::string_view value);
  Answer ReadNothing(std::string_view value);
  Answer ReadThreshold(std::string_view value);
  Answer ReadFilter(std::string_view value);
  Answer ReadFlowbits(std::string_view value);
  Answer ReadFlow(std::string_view value);
  // Headers.
  template <Field kField>
  Answer ReadField(std::string_view value);
  Answer ReadIpProtocol(std::string_view value);
  Answer ReadFragmentOffset(std::string_view value);
  Answer ReadUriLength(std::string_view value);
  Answer ReadFlags(std::string_view value);
  Answer ReadFragmentBits(std::string_view value);
  Answer ReadIpOptions(std::string_view value);
  Answer ReadSameIp(std::string_view value);
  // Payload.
  Answer ReadContent(std::string_view value);
  Answer ReadUriContent(std::string_view value);
  Answer ReadNocase(std::string_view value);
  template <bool kRelative, bool kIsBegin>
  Answer ReadPosition(std::string_view value);
  Answer ReadFastPattern(std::string_view value);
  Answer ReadRawBytes(std::string_view value);
  template <Buffer kBuffer>
  Answer ReadBuffer(std::string_view value);
  Answer ReadFileData(std::string_view value);
  Answer ReadPacketData(std::string_view value);
  Answer ReadPcre(std::string_view value);
  Answer ReadByteTest(std::string_view value);
  Answer ReadByteJump(std::string_view value);
  Answer ReadByteExtract(std::string_view value);
  Answer ReadDataAt(std::string_view value);

  Content* LastContent() {
    return last_content_ < 0
               ? nullptr
               : &std::get<Content>(
                     rule_.payload_tests[static_cast<size_t>(last_content_)]
                         .test);
  }
  template <typename Test>
  void Add(Test test) {
    rule_.payload_tests.push_back({std::move(test), sticky_, false});
  }
  std::optional<Amount> ReadAmount(std::string_view text) const;
  // Reads one of the words behind the fixed arguments of byte_test and its
  // like. Returns false if it is none.
  bool ReadNumberWord(std::string_view word, NumberAt& at) const;

  Rule& rule_;
  FlowbitNames& flowbits_;
  Buffer sticky_ = Buffer::kPayload;
  ptrdiff_t last_content_ = -1;
  std::vector<std::string> variables_;
  std::string ignored_;
  bool is_http_service_ = false;
};

Answer OptionReader::Read(std::string_view name, std::string_view value) {
  ignored_.clear();
  static constexpr std::array<std::pair<std::string_view, std::string_view>, 5>
      kIgnored = {{{"tag", "later packets are not logged"},
                   {"logto", "no log of its own"},
                   {"session", "no text of the session is kept"},
                   {"resp", "sends no answer"},
                   {"react", "sends no answer"}}};
  for (const auto& [ignored, why] : kIgnored) {
    if (name != ignored) continue;
    ignored_ = why;
    return {};
  }
  const std::vector<Entry>& table = Table();
  const auto found = std::ranges::find(table, name, &Entry::name);
  if (found != table.end()) {
    if (rule_.payload_tests.size() > RuleParser::kMaxPayloadTests) {
      return Bad(
          Cat("more than ", RuleParser::kMaxPayloadTests, " tests of payload"));
    }
    return (this->*found->read)(value);
  }
  static constexpr std::array<std::string_view, 40> kKnown = {
      "asn1",          "base64_data",
      "base64_decode", "byte_math",
      "cvs",           "dce_iface",
      "dce_opnum",     "dce_stub_data",
      "dnp3_data",     "dnp3_func",
      "dnp3_ind",      "dnp3_obj",
      "file_type",     "ftpbounce",
      "gtp_info",      "gtp_type",
      "gtp_version",   "http_encode",
      "modbus_data",   "modbus_func",
      "modbus_unit",   "protected_content",
      "replace",       "rpc",
      "sd_pattern",    "sip_body",
      "sip_header",    "sip_method",
      "sip_stat_code", "ssl_state",
      "ssl_version",   "stream_reassemble",
      "stream_size",   "activates",
      "activated_by",  "count",
      "hash",          "length",
      "file_group",    "appid"};
  if (std::ranges::find(kKnown, name) != kKnown.end()) {
    return NotSupported("this option is not supported");
  }
  return Bad("there is no such option");
}

const std::vector<OptionReader::Entry>& OptionReader::Table() {
  using R = OptionReader;
  static const std::vector<Entry> table = {
      {"content", &R::ReadContent},
      {"nocase", &R::ReadNocase},
      {"sid", &R::ReadSid},
      {"rev", &R::ReadRevision},
      {"msg", &R::ReadMessage},
      {"reference", &R::ReadReference},
      {"classtype", &R::ReadClass},
      {"flow", &R::ReadFlow},
      {"http_uri", &R::ReadBuffer<Buffer::kUri>},
      {"distance", &R::ReadPosition<true, true>},
      {"pcre", &R::ReadPcre},
      {"within", &R::ReadPosition<true, false>},
      {"fast_pattern", &R::ReadFastPattern},
      {"http_header", &R::ReadBuffer<Buffer::kHeader>},
      {"depth", &R::ReadPosition<false, false>},
      {"offset", &R::ReadPosition<false, true>},
      {"flowbits", &R::ReadFlowbits},
      {"metadata", &R::ReadMetadata},
      {"threshold", &R::ReadThreshold},
      {"detection_filter", &R::ReadFilter},
      {"http_method", &R::ReadBuffer<Buffer::kMethod>},
      {"uricontent", &R::ReadUriContent},
      {"file_data", &R::ReadFileData},
      {"pkt_data", &R::ReadPacketData},
      {"byte_test", &R::ReadByteTest},
      {"byte_jump", &R::ReadByteJump},
      {"byte_extract", &R::ReadByteExtract},
      {"isdataat", &R::ReadDataAt},
      {"http_client_body", &R::ReadBuffer<Buffer::kClientBody>},
      {"http_cookie", &R::ReadBuffer<Buffer::kCookie>},
      {"http_raw_cookie", &R::ReadBuffer<Buffer::kRawCookie>},
      {"http_raw_uri", &R::ReadBuffer<Buffer::kRawUri>},
      {"http_raw_header", &R::ReadBuffer<Buffer::kRawHeader>},
      {"http_stat_code", &R::ReadBuffer<Buffer::kStatusCode>},
      {"http_stat_msg", &R::ReadBuffer<Buffer::kStatusMessage>},
      {"rawbytes", &R::ReadRawBytes},
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
      {"sameip", &R::ReadSameIp},
      {"priority", &R::ReadPriority},
      {"gid", &R::ReadGid},
      {"service", &R::ReadNothing}};
  return table;
}

// --- What a rule is told by --------------------------------------------------

Answer OptionReader::ReadMessage(std::string_view value) {
  auto text = QuotedText(value);
  if (!text.has_value()) return Bad("want a text in quotes");
  rule_.message = *std::move(text);
  return {};
}

Answer ReadCount(std::string_view value, uint32_t& to) {
  const auto number = IntegerIn(value);
  if (!number.has_value() || *number < 0 || *number > UINT32_MAX) {
    return Bad("want a number from 0 to 4294967295");
  }
  to = static_cast<uint32_t>(*number);
  return {};
}
Answer OptionReader::ReadSid(std::string_view value) {
  return ReadCount(value, rule_.sid);
}
Answer OptionReader::ReadGid(std::string_view value) {
  return ReadCount(value, rule_.gid);
}
Answer OptionReader::ReadRevision(std::string_view value) {
  return ReadCount(value, rule_.revision);
}
Answer OptionReader::ReadPriority(std::string_view value) {
  rule_.has_priority = true;
  return ReadCount(value, rule_.priority);
}
Answer OptionReader::ReadClass(std::string_view value) {
  rule_.class_name = value;
  return {};
}
Answer OptionReader::ReadReference(std::string_view value) {
  const size_t comma = value.find(',');
  if (comma == std::string_view::npos) return Bad("want a system and an id");
  rule_.references.emplace_back(StrippedView(value.substr(0, comma)),
                                StrippedView(value.substr(comma + 1)));
  return {};
}
Answer OptionReader::ReadMetadata(std::string_view value) {
  for (const std::string_view part : SplitAt(value, ',')) {
    const std::string_view one = StrippedView(part);
    if (one.empty()) continue;
    rule_.metadata.emplace_back(one);
    if (one == "engine shared") {
      return NotSupported("a rule of compiled code");
    }
    if (one.starts_with("service ") && one.ends_with(" http")) {
      is_http_service_ = true;
    }
  }
  return {};
}
Answer OptionReader::ReadNothing(std::string_view /*value*/) { return {}; }

Answer OptionReader::ReadThreshold(std::string_view value) {
  auto threshold = ParseThreshold(value, false);
  if (!threshold.ok()) return Bad(std::string(threshold.status().message()));
  if (rule_.threshold.has_value()) return Bad("there is another threshold");
  rule_.threshold = *threshold;
  return {};
}
Answer OptionReader::ReadFilter(std::string_view value) {
  auto threshold = ParseThreshold(value, true);
  if (!threshold.ok()) return Bad(std::string(threshold.status().message()));
  if (rule_.threshold.has_value()) return Bad("there is another threshold");
  rule_.threshold = *threshold;
  return {};
}

Answer OptionReader::ReadFlowbits(std::string_view value) {
  using Kind = FlowbitOperation::Kind;
  std::vector<std::string_view> parts = SplitAt(value, ',');
  for (std::string_view& part : parts) part = StrippedView(part);
  if (parts[0] == "noalert") {
    rule_.noalert = true;
    return {};
  }
  if (parts[0] == "reset") {
    if (parts.size() > 1) return NotSupported("groups are not supported");
    rule_.flowbits.push_back({.kind = Kind::kReset});
    return {};
  }
  static constexpr std::array<std::pair<std::string_view, Kind>, 5> kKinds = {
      {{"set", Kind::kSet},
       {"unset", Kind::kUnset},
       {"toggle", Kind::kToggle},
       {"isset", Kind::kIsSet},
       {"isnotset", Kind::kIsNotSet}}};
  const auto kind = std::ranges::find(
      kKinds, parts[0], &std::pair<std::string_view, Kind>::first);
  if (kind == kKinds.end()) {
    return parts[0] == "setx" ? NotSupported("groups are not supported")
                              : Bad("no such operation");
  }
  if (parts.size() == 1 || parts[1].empty()) return Bad("names no bit");
  if (parts.size() > 2) return NotSupported("groups are not supported");
  FlowbitOperation operation = {.kind = kind->second};
  const bool any = parts[1].find('|') != std::string_view::npos;
  if (any && parts[1].find('&') != std::string_view::npos) {
    return Bad("has both & and |");
  }
  if (any && !operation.is_test()) return Bad("| is for isset and isnotset");
  operation.any = any;
  for (const std::string_view name : SplitAt(parts[1], any ? '|' : '&')) {
    if (StrippedView(name).empty()) return Bad("names no bit");
    operation.bits.push_back(flowbits_.NumberOf(StrippedView(name)));
  }
  rule_.flowbits.push_back(std::move(operation));
  return {};
}

Answer OptionReader::ReadFlow(std::string_view value) {
  using Direction = FlowTest::Direction;
  using State = FlowTest::State;
  for (const std::string_view part : SplitAt(value, ',')) {
    const std::string_view word = StrippedView(part);
    const bool to_server = word == "to_server" || word == "from_client";
    const bool to_client = word == "to_client" || word == "from_server";
    if (to_server || to_client) {
      if (rule_.flow.direction != Direction::kAny) return Bad("two directions");
      rule_.flow.direction =
          to_server ? Direction::kToServer : Direction::kToClient;
    } else if (word == "established") {
      rule_.flow.state = State::kEstablished;
    } else if (word == "not_established") {
      rule_.flow.state = State::kNotEstablished;
    } else if (word == "no_stream") {
      rule_.packet_only = true;
    } else if (word == "no_frag" || word == "only_frag") {
      return NotSupported("fragments are not reassembled");
    } else if (word != "stateless" && word != "only_stream") {
      return Bad(Cat("no such word: \"", word, "\""));
    }
  }
  return {};
}

// --- Headers -----------------------------------------------------------------

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

template <Field kField>
Answer OptionReader::ReadField(std::string_view value) {
  const auto test = RangeIn(value, kField, kField == Field::kPayloadBytes);
  if (!test.has_value()) return Bad("want N, <N, >N or N<>M");
  rule_.packet_tests.push_back(*test);
  return {};
}

Answer OptionReader::ReadIpProtocol(std::string_view value) {
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

Answer OptionReader::ReadFragmentOffset(std::string_view value) {
  const auto test = RangeIn(value, Field::kFragmentOffset, false);
  if (!test.has_value()) return Bad("want N, !N, <N or >N");
  rule_.packet_tests.push_back(*test);
  return {};
}

Answer OptionReader::ReadUriLength(std::string_view value) {
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

Answer OptionReader::ReadFlags(std::string_view value) {
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

Answer OptionReader::ReadFragmentBits(std::string_view value) {
  BitsTest test = {.of = BitsTest::Of::kFragmentBits};
  const auto wrong =
      ReadBits(value, {{'R', 4}, {'D', 2}, {'M', 1}}, test.bits, &test.mode);
  if (wrong.has_value()) return Bad(*wrong);
  rule_.packet_tests.push_back(test);
  return {};
}

Answer OptionReader::ReadIpOptions(std::string_view value) {
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

Answer OptionReader::ReadSameIp(std::string_view /*value*/) {
  rule_.packet_tests.push_back(SameIpTest{});
  return {};
}

// --- Payload -----------------------------------------------------------------

Answer OptionReader::ReadContent(std::string_view value) {
  Content content;
  value = StrippedView(value);
  if (value.starts_with('!')) {
    content.negated = true;
    value.remove_prefix(1);
  }
  std::string why;
  auto bytes = PatternBytes(value, why);
  if (!bytes.has_value()) return Bad(why);
  if (bytes->size() > RuleParser::kMaxContentBytes) {
    return Bad(Cat("more than ", RuleParser::kMaxContentBytes, " bytes"));
  }
  content.bytes = *std::move(bytes);
  content.buffer = sticky_;
  last_content_ = static_cast<ptrdiff_t>(rule_.payload_tests.size());
  Add(std::move(content));
  return {};
}

Answer OptionReader::ReadUriContent(std::string_view value) {
  Answer answer = ReadContent(value);
  if (!answer) return ReadBuffer<Buffer::kUri>("");
  return answer;
}

constexpr char kNoContent[] = "there is no content before it";

Answer OptionReader::ReadNocase(std::string_view /*value*/) {
  Content* const content = LastContent();
  if (content == nullptr) return Bad(kNoContent);
  content->nocase = true;
  absl::AsciiStrToLower(&content->bytes);
  return {};
}

template <bool kRelative, bool kIsBegin>
Answer OptionReader::ReadPosition(std::string_view value) {
  Content* const content = LastContent();
  if (content == nullptr) return Bad(kNoContent);
  const auto amount = ReadAmount(StrippedView(value));
  if (!amount.has_value()) {
    return Bad("want a number, or a variable of byte_extract");
  }
  if (amount->value < -65'535 || amount->value > 65'535) {
    return Bad("want a number from -65535 to 65535");
  }
  const bool has_other =
      content->begin.has_value() || content->span.has_value();
  if (has_other && content->is_relative != kRelative) {
    return Bad("offset and depth do not go with distance and within");
  }
  content->is_relative = kRelative;
  std::optional<Amount>& place = kIsBegin ? content->begin : content->span;
  if (place.has_value()) return Bad("is there twice");
  place = *amount;
  return {};
}

Answer OptionReader::ReadFastPattern(std::string_view value) {
  Content* const content = LastContent();
  if (content == nullptr) return Bad(kNoContent);
  content->is_fast = true;
  value = StrippedView(value);
  if (value.empty() || value == "only") return {};
  const size_t comma = value.find(',');
  const int64_t offset = IntegerIn(value.substr(0, comma)).value_or(-1);
  const int64_t length = comma == std::string_view::npos
                             ? -1
                             : IntegerIn(value.substr(comma + 1)).value_or(-1);
  const auto bytes = static_cast<int64_t>(content->bytes.size());
  if (offset < 0 || length < 1 || offset > bytes || length > bytes - offset) {
    return Bad("want only, or OFFSET,LENGTH inside the content");
  }
  content->fast_offset = static_cast<uint16_t>(offset);
  content->fast_length = static_cast<uint16_t>(length);
  return {};
}

Answer OptionReader::ReadRawBytes(std::string_view /*value*/) {
  Content* const content = LastContent();
  if (content == nullptr) return Bad(kNoContent);
  content->buffer = Buffer::kPayload;
  rule_.payload_tests[static_cast<size_t>(last_content_)].buffer =
      Buffer::kPayload;
  return {};
}

template <Buffer kBuffer>
Answer OptionReader::ReadBuffer(std::string_view /*value*/) {
  Content* const content = LastContent();
  if (content == nullptr) return Bad(kNoContent);
  content->buffer = kBuffer;
  rule_.payload_tests[static_cast<size_t>(last_content_)].buffer = kBuffer;
  return {};
}

Answer OptionReader::ReadFileData(std::string_view value) {
  if (StrippedView(value) != "" && StrippedView(value) != "mime") {
    return Bad("want nothing, or mime");
  }
  sticky_ = Buffer::kFileData;
  last_content_ = -1;
  Add(UseBuffer{});
  if (StrippedView(value) == "mime") ignored_ = "mail is not decoded";
  return {};
}

Answer OptionReader::ReadPacketData(std::string_view /*value*/) {
  sticky_ = Buffer::kPayload;
  last_content_ = -1;
  Add(UseBuffer{});
  return {};
}

Answer OptionReader::ReadPcre(std::string_view value) {
  RegexTest test;
  value = StrippedView(value);
  if (value.starts_with('!')) {
    test.negated = true;
    value = StrippedView(value.substr(1));
  }
  if (value.size() < 2 || value.front() != '"' || value.back() != '"') {
    return Bad("want an expression in quotes");
  }
  std::string text = UnescapedForPcre(value.substr(1, value.size() - 2));
  std::string_view rest = text;
  char delimiter = '/';
  if (rest.starts_with('m') && rest.size() > 1) {
    delimiter = rest[1];
    rest.remove_prefix(1);
  }
  const size_t end = rest.rfind(delimiter);
  if (!rest.starts_with(delimiter) || end == 0) return Bad("want /…/");
  const std::string_view pattern = rest.substr(1, end - 1);
  Regex::Flags flags;
  test.buffer = sticky_;
  for (const char c : rest.substr(end + 1)) {
    switch (c) {
      case 'i':
        flags.nocase = true;
        break;
      case 's':
        flags.dot_all = true;
        break;
      case 'm':
        flags.multiline = true;
        break;
      case 'x':
        flags.extended = true;
        break;
      case 'A':
        flags.anchored = true;
        break;
      case 'E':
        flags.dollar_end = true;
        break;
      case 'G':
        flags.ungreedy = true;
        break;
      case 'R':
        test.is_relative = true;
        break;
      case 'B':
        test.buffer = Buffer::kPayload;
        break;
      case 'O':
        break;  // overrides Snort's limits, which are not ours
      case 'U':
        test.buffer = Buffer::kUri;
        break;
      case 'I':
        test.buffer = Buffer::kRawUri;
        break;
      case 'H':
        test.buffer = Buffer::kHeader;
        break;
      case 'D':
        test.buffer = Buffer::kRawHeader;
        break;
      case 'M':
        test.buffer = Buffer::kMethod;
        break;
      case 'C':
        test.buffer = Buffer::kCookie;
        break;
      case 'K':
        test.buffer = Buffer::kRawCookie;
        break;
      case 'P':
        test.buffer = Buffer::kClientBody;
        break;
      case 'S':
        test.buffer = Buffer::kStatusCode;
        break;
      case 'Y':
        test.buffer = Buffer::kStatusMessage;
        break;
      default:
        return Bad(Cat("\"", std::string(1, c), "\" is no flag"));
    }
  }
  auto regex = Regex::Compile(pattern, flags);
  if (!regex.ok()) return Bad(std::string(regex.status().message()));
  test.regex = *std::move(regex);
  const Buffer buffer = test.buffer;
  rule_.payload_tests.push_back({std::move(test), buffer, false});
  return {};
}

std::optional<Amount> OptionReader::ReadAmount(std::string_view text) const {
  if (const auto number = IntegerIn(text)) return Amount{*number, -1};
  const auto found = std::ranges::find(variables_, text);
  if (found == variables_.end()) return std::nullopt;
  return Amount{0, static_cast<int8_t>(found - variables_.begin())};
}

bool OptionReader::ReadNumberWord(std::string_view word, NumberAt& at) const {
  if (word == "relative") {
    at.is_relative = true;
  } else if (word == "little") {
    at.is_little = true;
  } else if (word == "big") {
    at.is_little = false;
  } else if (word == "string") {
    if (at.base == 0) at.base = 10;
  } else if (word == "dec") {
    at.base = 10;
  } else if (word == "hex") {
    at.base = 16;
  } else if (word == "oct") {
    at.base = 8;
  } else {
    return false;
  }
  return true;
}

// The words of byte_test and its like.
std::vector<std::string_view> WordsOf(std::string_view value) {
  std::vector<std::string_view> words = SplitAt(value, ',');
  for (std::string_view& word : words) word = StrippedView(word);
  return words;
}

// Divides "multiplier 4"; the number is INT64_MIN if there is none.
std::pair<std::string_view, int64_t> KeyAndNumber(std::string_view word) {
  const size_t space = word.find(' ');
  if (space == std::string_view::npos) return {word, INT64_MIN};
  return {word.substr(0, space),
          IntegerIn(word.substr(space)).value_or(INT64_MIN)};
}

// Digits may be up to 10 bytes, binary numbers up to 4 (Snort 2.9).
Answer CheckBytes(const NumberAt& at) {
  const bool is_binary = at.base == 0;
  if (is_binary && at.bytes > 4) return Bad("want 1 to 4 bytes");
  if (at.bytes < 1 || at.bytes > 10) return Bad("want 1 to 10 bytes");
  return {};
}

Answer OptionReader::ReadByteTest(std::string_view value) {
  const auto words = WordsOf(value);
  if (words.size() < 4) return Bad("want BYTES,OPERATOR,VALUE,OFFSET");
  ByteTest test;
  const auto bytes = IntegerIn(words[0]);
  if (!bytes || *bytes < 1 || *bytes > 10) return Bad("want 1 to 10 bytes");
  test.at.bytes = static_cast<uint8_t>(*bytes);
  std::string_view op = words[1];
  if (op.starts_with('!')) {
    test.negated = true;
    op = StrippedView(op.substr(1));
    if (op.empty()) op = "=";
  }
  if (op == "<=" || op == ">=") {
    test.op = op == "<=" ? 'l' : 'g';
  } else if (op.size() == 1 &&
             std::string_view("<>=&^").find(op[0]) != std::string_view::npos) {
    test.op = op[0];
  } else {
    return Bad(Cat("\"", words[1], "\" is no operator"));
  }
  const auto wanted = ReadAmount(words[2]);
  const auto offset = ReadAmount(words[3]);
  if (!wanted || !offset) return Bad("want a number, or a variable");
  test.value = *wanted;
  test.at.offset = *offset;
  for (size_t i = 4; i < words.size(); ++i) {
    if (words[i] == "dce") return NotSupported("dce is not supported");
    if (words[i].starts_with("bitmask")) {
      return NotSupported("bitmask is not supported");
    }
    if (!ReadNumberWord(words[i], test.at)) {
      return Bad(Cat("no such word: \"", words[i], "\""));
    }
  }
  if (auto wrong = CheckBytes(test.at)) return wrong;
  Add(test);
  return {};
}

Answer OptionReader::ReadByteJump(std::string_view value) {
  const auto words = WordsOf(value);
  if (words.size() < 2) return Bad("want BYTES,OFFSET");
  ByteJump jump;
  const auto bytes = IntegerIn(words[0]);
  const auto offset = ReadAmount(words[1]);
  if (!bytes || *bytes < 1 || *bytes > 10) return Bad("want 1 to 10 bytes");
  if (!offset) return Bad("want a number, or a variable");
  jump.at.bytes = static_cast<uint8_t>(*bytes);
  jump.at.offset = *offset;
  for (size_t i = 2; i < words.size(); ++i) {
    const auto [key, number] = KeyAndNumber(words[i]);
    if (words[i] == "dce") return NotSupported("dce is not supported");
    if (key == "bitmask") return NotSupported("bitmask is not supported");
    if (words[i] == "align") {
      jump.aligns = true;
    } else if (words[i] == "from_beginning") {
      jump.from_beginning = true;
    } else if (key == "multiplier" && number > 0 && number <= 65'535) {
      jump.multiplier = number;
    } else if (key == "post_offset" && number >= -65'535 && number <= 65'535) {
      jump.post_offset = number;
    } else if (!ReadNumberWord(words[i], jump.at)) {
      return Bad(Cat("wrong word: \"", words[i], "\""));
    }
  }
  if (auto wrong = CheckBytes(jump.at)) return wrong;
  Add(jump);
  return {};
}

Answer OptionReader::ReadByteExtract(std::string_view value) {
  const auto words = WordsOf(value);
  if (words.size() < 3) return Bad("want BYTES,OFFSET,NAME");
  ByteExtract extract;
  const auto bytes = IntegerIn(words[0]);
  const auto offset = ReadAmount(words[1]);
  if (!bytes || *bytes < 1 || *bytes > 10) return Bad("want 1 to 10 bytes");
  if (!offset) return Bad("want a number, or a variable");
  extract.at.bytes = static_cast<uint8_t>(*bytes);
  extract.at.offset = *offset;
  if (words[2].empty() || IntegerIn(words[2])) return Bad("want a name");
  for (size_t i = 3; i < words.size(); ++i) {
    const auto [key, number] = KeyAndNumber(words[i]);
    if (words[i] == "dce") return NotSupported("dce is not supported");
    if (key == "bitmask") return NotSupported("bitmask is not supported");
    if (key == "multiplier" && number > 0 && number <= 65'535) {
      extract.multiplier = number;
    } else if (key == "align" && (number == 2 || number == 4)) {
      extract.align_bytes = static_cast<uint8_t>(number);
    } else if (!ReadNumberWord(words[i], extract.at)) {
      return Bad(Cat("wrong word: \"", words[i], "\""));
    }
  }
  if (auto wrong = CheckBytes(extract.at)) return wrong;
  const auto known = std::ranges::find(variables_, words[2]);
  extract.variable = static_cast<int8_t>(known - variables_.begin());
  if (known == variables_.end()) {
    if (variables_.size() == kMaxVariables) {
      return Bad(Cat("more than ", kMaxVariables, " variables"));
    }
    variables_.emplace_back(words[2]);
  }
  Add(extract);
  return {};
}

Answer OptionReader::ReadDataAt(std::string_view value) {
  auto words = WordsOf(value);
  DataAt test;
  if (words[0].starts_with('!')) {
    test.negated = true;
    words[0] = StrippedView(words[0].substr(1));
  }
  const auto offset = ReadAmount(words[0]);
  if (!offset) return Bad("want a number, or a variable");
  test.offset = *offset;
  bool is_raw = false;
  for (size_t i = 1; i < words.size(); ++i) {
    if (words[i] == "relative") {
      test.is_relative = true;
    } else if (words[i] == "rawbytes") {
      is_raw = true;
    } else {
      return Bad(Cat("no such word: \"", words[i], "\""));
    }
  }
  Add(test);
  if (is_raw) rule_.payload_tests.back().buffer = Buffer::kPayload;
  return {};
}

Answer OptionReader::End() {
  ignored_.clear();
  for (const PayloadTest& test : rule_.payload_tests) {
    const auto* content = std::get_if<Content>(&test.test);
    if (content == nullptr || !content->span.has_value()) continue;
    if (content->span->variable < 0 &&
        content->span->value < static_cast<int64_t>(content->bytes.size())) {
      return Bad(content->is_relative
                     ? "within is less than the bytes of its content"
                     : "depth is less than the bytes of its content");
    }
  }
  rule_.Finish();
  return {};
}

// A list without an address is right, but its rule never matches.
Outcome OutcomeOf(const absl::Status& list) {
  return absl::IsOutOfRange(list) ? Outcome::kUnsupported : Outcome::kWrong;
}

}  // namespace

uint32_t FlowbitNames::NumberOf(std::string_view name) {
  const auto found = numbers_.find(name);
  if (found != numbers_.end()) return found->second;
  const auto number = static_cast<uint32_t>(numbers_.size());
  numbers_.emplace(name, number);
  return number;
}

absl::StatusOr<Threshold> ParseThreshold(std::string_view text,
                                         bool is_filter) {
  Threshold threshold;
  bool has_type = is_filter, has_track = false, has_count = false,
       has_seconds = false;
  if (is_filter) threshold.kind = Threshold::Kind::kDetectionFilter;
  for (const std::string_view part : SplitAt(text, ',')) {
    const std::string_view item = StrippedView(part);
    const size_t space = item.find_first_of(" \t");
    const std::string_view key = item.substr(0, space);
    const std::string_view value =
        space == std::string_view::npos ? "" : StrippedView(item.substr(space));
    const auto number = IntegerIn(value);
    const auto wrong = [&item] {
      return absl::InvalidArgumentError(Cat("wrong: \"", item, "\""));
    };
    if (key == "type" && !is_filter) {
      has_type = true;
      if (value == "limit") {
        threshold.kind = Threshold::Kind::kLimit;
      } else if (value == "threshold") {
        threshold.kind = Threshold::Kind::kThreshold;
      } else if (value == "both") {
        threshold.kind = Threshold::Kind::kBoth;
      } else {
        return wrong();
      }
    } else if (key == "track") {
      has_track = true;
      threshold.by_destination = value == "by_dst";
      if (value != "by_dst" && value != "by_src") return wrong();
    } else if (key == "count" && number && *number > 0 &&
               *number <= UINT32_MAX) {
      has_count = true;
      threshold.count = static_cast<uint32_t>(*number);
    } else if (key == "seconds" && number && *number > 0 &&
               *number <= UINT32_MAX) {
      has_seconds = true;
      threshold.seconds = static_cast<uint32_t>(*number);
    } else {
      return wrong();
    }
  }
  if (!has_type || !has_track || !has_count || !has_seconds) {
    return absl::InvalidArgumentError("want type, track, count and seconds");
  }
  return threshold;
}

bool RuleParser::LooksLikeRule(std::string_view text) {
  text = StrippedView(text);
  const std::string_view word = text.substr(0, text.find_first_of(" \t"));
  static constexpr std::array<std::string_view, 9> kActions = {
      "alert", "log",     "pass",     "drop", "reject",
      "sdrop", "dynamic", "activate", "block"};
  return std::ranges::find(kActions, word) != kActions.end();
}

RuleParser::Result RuleParser::Parse(const LogicalLine& line,
                                     const std::string& file, size_t begin) {
  Result result;
  Rule& rule = result.rule;
  const std::string_view text = line.text();
  rule.place = line.PlaceOf(
      file, std::min(text.find_first_not_of(" \t", begin), text.size()));
  const auto fail = [&](Outcome outcome, size_t at, std::string_view option,
                        std::string_view value, std::string reason) {
    if (result.outcome >= Outcome::kUnsupported) return;
    result.outcome = outcome;
    result.problem = {line.PlaceOf(file, at), std::string(option),
                      std::string(value), std::move(reason)};
  };

  const std::vector<HeaderWord> words = HeaderWordsOf(text, begin);
  if (words.size() < 7) {
    fail(Outcome::kWrong, words.empty() ? begin : words.back().at, "", "",
         "a rule begins with action, protocol, address, port, direction, "
         "address, port");
    return result;
  }
  if (words.size() > 7) {
    fail(Outcome::kWrong, words[7].at, "", "",
         Cat("\"", words[7].text, "\" is too much before ("));
    return result;
  }
  const std::string_view action = words[0].text;
  if (action == "pass") {
    rule.action = Rule::Action::kPass;
  } else if (action == "drop" || action == "reject" || action == "sdrop" ||
             action == "block") {
    rule.action = Rule::Action::kDrop;
    if (action == "reject") {
      rule.ignored.push_back({line.PlaceOf(file, words[0].at), "reject", "",
                              "drops, but sends no answer"});
    }
  } else if (action == "log") {
    rule.ignored.push_back(
        {line.PlaceOf(file, words[0].at), "log", "", "is an alert"});
  } else if (action != "alert") {
    const bool is_known = action == "dynamic" || action == "activate";
    fail(is_known ? Outcome::kUnsupported : Outcome::kWrong, words[0].at,
         action, "",
         is_known ? "this action is not supported" : "there is no such action");
  }
  static constexpr std::array<std::string_view, 4> kProtocols = {"ip", "tcp",
                                                                 "udp", "icmp"};
  const auto protocol = std::ranges::find(kProtocols, words[1].text);
  if (protocol == kProtocols.end()) {
    fail(Outcome::kWrong, words[1].at, "", "",
         Cat("\"", words[1].text,
             "\" is no protocol: want ip, tcp, udp or icmp"));
  } else {
    rule.protocol = static_cast<Rule::Protocol>(protocol - kProtocols.begin());
  }
  for (const size_t at : {size_t{2}, size_t{5}}) {
    auto addresses = variables_.Addresses(words[at].text);
    if (!addresses.ok()) {
      fail(OutcomeOf(addresses.status()), words[at].at, "", "",
           std::string(addresses.status().message()));
      continue;
    }
    (at == 2 ? rule.source : rule.destination) = *addresses;
  }
  for (const size_t at : {size_t{3}, size_t{6}}) {
    auto ports = variables_.Ports(words[at].text);
    if (!ports.ok()) {
      fail(OutcomeOf(ports.status()), words[at].at, "", "",
           std::string(ports.status().message()));
      continue;
    }
    (at == 3 ? rule.source_ports : rule.destination_ports) = *ports;
  }
  rule.both_ways = words[4].text == "<>";
  if (words[4].text != "->" && !rule.both_ways) {
    fail(Outcome::kWrong, words[4].at, "", "",
         Cat("\"", words[4].text, "\": want -> or <>"));
  }

  size_t at = words[6].at + words[6].text.size();
  at = text.find('(', at);
  if (at == std::string_view::npos) {
    fail(Outcome::kWrong, text.size(), "", "", "has no options in ( )");
    return result;
  }
  OptionReader reader(rule, flowbits_);
  OptionScanner scanner(text, at + 1);
  while (scanner.Next()) {
    const std::string_view name = scanner.name();
    const std::string_view value = scanner.value();
    if (const Answer refusal = reader.Read(name, value)) {
      fail(refusal->outcome, scanner.at(), name, value, refusal->reason);
    } else if (!reader.ignored().empty()) {
      rule.ignored.push_back({line.PlaceOf(file, scanner.at()),
                              std::string(name), std::string(value),
                              reader.ignored()});
    }
  }
  if (!scanner.error().empty()) {
    fail(Outcome::kWrong, scanner.at(), scanner.name(), "", scanner.error());
    return result;
  }
  if (const Answer refusal = reader.End()) {
    fail(refusal->outcome, at, "", "", refusal->reason);
  }
  if (result.outcome != Outcome::kSupported) return result;
  if (rule.sid == 0) {
    fail(Outcome::kWrong, at, "sid", "", "a rule needs a sid above 0");
    return result;
  }
  const auto is_mail = [](const PortSet& ports) {
    return !ports.is_all() && (ports.Contains(25) || ports.Contains(110) ||
                               ports.Contains(143) || ports.Contains(587));
  };
  if (rule.uses(Buffer::kFileData) && !rule.needs_http() &&
      (is_mail(*rule.source_ports) || is_mail(*rule.destination_ports))) {
    rule.ignored.push_back({rule.place, "file_data", "",
                            "mail is not decoded: the payload is matched"});
  }
  if (rule.threshold.has_value() && rule.action == Rule::Action::kDrop &&
      rule.threshold->kind == Threshold::Kind::kDetectionFilter) {
    rule.ignored.push_back({rule.place, "detection_filter", "",
                            "the rule alerts, but does not drop"});
  }
  if (!rule.ignored.empty()) result.outcome = Outcome::kPartly;
  return result;
}

}  // namespace snf::snort
