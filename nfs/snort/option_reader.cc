// SPDX-License-Identifier: Apache-2.0
#include "nfs/snort/option_reader.h"

#include <algorithm>
#include <array>

#include "nfs/snort/option_text.h"

namespace snf::snort {

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
  if (rule_.payload_tests.size() > RuleParser::kMaxPayloadTests) {
    return Bad(
        Cat("more than ", RuleParser::kMaxPayloadTests, " tests of payload"));
  }
  using R = OptionReader;
  static constexpr Option<R> kTable[] = {{"sid", &R::ReadSid},
                                         {"rev", &R::ReadRevision},
                                         {"msg", &R::ReadMessage},
                                         {"reference", &R::ReadReference},
                                         {"classtype", &R::ReadClass},
                                         {"flow", &R::ReadFlow},
                                         {"flowbits", &R::ReadFlowbits},
                                         {"metadata", &R::ReadMetadata},
                                         {"threshold", &R::ReadThreshold},
                                         {"detection_filter", &R::ReadFilter},
                                         {"priority", &R::ReadPriority},
                                         {"gid", &R::ReadGid},
                                         {"service", &R::ReadNothing}};
  if (auto answer = payload_.Read(name, value)) {
    ignored_ = payload_.ignored();
    return *answer;
  }
  if (auto answer = ReadFrom<R>(kTable, *this, name, value)) return *answer;
  if (auto answer = headers_.Read(name, value)) return *answer;
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

Answer OptionReader::ReadMessage(std::string_view value) {
  auto text = QuotedText(value);
  if (!text.has_value()) return Bad("want a text in quotes");
  rule_.message = *std::move(text);
  return {};
}

namespace {

Answer ReadCount(std::string_view value, uint32_t& to) {
  const auto number = IntegerIn(value);
  if (!number.has_value() || *number < 0 || *number > UINT32_MAX) {
    return Bad("want a number from 0 to 4294967295");
  }
  to = static_cast<uint32_t>(*number);
  return {};
}

}  // namespace
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

Answer OptionReader::End() {
  ignored_.clear();
  if (Answer wrong = payload_.End()) return wrong;
  rule_.Finish();
  return {};
}

}  // namespace snf::snort
