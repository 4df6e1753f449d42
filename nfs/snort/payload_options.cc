// SPDX-License-Identifier: Apache-2.0
#include "nfs/snort/payload_options.h"

#include <algorithm>
#include <array>

#include "absl/strings/ascii.h"
#include "nfs/snort/option_text.h"

namespace snf::snort {

Answer PayloadOptions::ReadContent(std::string_view value) {
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

Answer PayloadOptions::ReadUriContent(std::string_view value) {
  Answer answer = ReadContent(value);
  if (!answer) return ReadBuffer<Buffer::kUri>("");
  return answer;
}

constexpr char kNoContent[] = "there is no content before it";

Answer PayloadOptions::ReadNocase(std::string_view /*value*/) {
  Content* const content = LastContent();
  if (content == nullptr) return Bad(kNoContent);
  content->nocase = true;
  absl::AsciiStrToLower(&content->bytes);
  return {};
}

template <bool kRelative, bool kIsBegin>
Answer PayloadOptions::ReadPosition(std::string_view value) {
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

Answer PayloadOptions::ReadFastPattern(std::string_view value) {
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

Answer PayloadOptions::ReadRawBytes(std::string_view /*value*/) {
  Content* const content = LastContent();
  if (content == nullptr) return Bad(kNoContent);
  content->buffer = Buffer::kPayload;
  rule_.payload_tests[static_cast<size_t>(last_content_)].buffer =
      Buffer::kPayload;
  return {};
}

template <Buffer kBuffer>
Answer PayloadOptions::ReadBuffer(std::string_view /*value*/) {
  Content* const content = LastContent();
  if (content == nullptr) return Bad(kNoContent);
  content->buffer = kBuffer;
  rule_.payload_tests[static_cast<size_t>(last_content_)].buffer = kBuffer;
  return {};
}

Answer PayloadOptions::ReadFileData(std::string_view value) {
  if (StrippedView(value) != "" && StrippedView(value) != "mime") {
    return Bad("want nothing, or mime");
  }
  sticky_ = Buffer::kFileData;
  last_content_ = -1;
  Add(UseBuffer{});
  if (StrippedView(value) == "mime") ignored_ = "mail is not decoded";
  return {};
}

Answer PayloadOptions::ReadPacketData(std::string_view /*value*/) {
  sticky_ = Buffer::kPayload;
  last_content_ = -1;
  Add(UseBuffer{});
  return {};
}

Answer PayloadOptions::ReadPcre(std::string_view value) {
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

std::optional<Amount> PayloadOptions::ReadAmount(std::string_view text) const {
  if (const auto number = IntegerIn(text)) return Amount{*number, -1};
  const auto found = std::ranges::find(variables_, text);
  if (found == variables_.end()) return std::nullopt;
  return Amount{0, static_cast<int8_t>(found - variables_.begin())};
}

bool PayloadOptions::ReadNumberWord(std::string_view word, NumberAt& at) const {
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

namespace {

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

}  // namespace

Answer PayloadOptions::ReadByteTest(std::string_view value) {
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

Answer PayloadOptions::ReadByteJump(std::string_view value) {
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

Answer PayloadOptions::ReadByteExtract(std::string_view value) {
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

Answer PayloadOptions::ReadDataAt(std::string_view value) {
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

Answer PayloadOptions::End() const {
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
  return {};
}

std::optional<Answer> PayloadOptions::Read(std::string_view name,
                                           std::string_view value) {
  using R = PayloadOptions;
  static constexpr Option<R> kTable[] = {
      {"content", &R::ReadContent},
      {"nocase", &R::ReadNocase},
      {"http_uri", &R::ReadBuffer<Buffer::kUri>},
      {"distance", &R::ReadPosition<true, true>},
      {"pcre", &R::ReadPcre},
      {"within", &R::ReadPosition<true, false>},
      {"fast_pattern", &R::ReadFastPattern},
      {"http_header", &R::ReadBuffer<Buffer::kHeader>},
      {"depth", &R::ReadPosition<false, false>},
      {"offset", &R::ReadPosition<false, true>},
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
      {"rawbytes", &R::ReadRawBytes}};
  ignored_.clear();
  return ReadFrom<R>(kTable, *this, name, value);
}

}  // namespace snf::snort
