// SPDX-License-Identifier: Apache-2.0
#include "base/packet/test_packet_text.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cstdio>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "base/packet/flow_key_text.h"
#include "base/packet/packet_parser.h"
#include "base/packet/test_packet_fields.h"
#include "base/quantity.h"

namespace snf {
namespace {

using Fields = TestPacketFields;

// The packets to which a word applies.
enum class Of : uint8_t { kAll, kIpv4, kTcp, kUdp, kIcmp, kTcpOrIcmp };

bool IsOf(Of of, const FlowKey& flow) {
  const bool is_tcp = flow.protocol == IpProtocol::kTcp;
  const bool is_icmp = IsIcmp(flow.protocol);
  switch (of) {
    case Of::kAll:
      return true;
    case Of::kIpv4:
      return flow.form == FlowKeyForm::kIpv4;
    case Of::kTcp:
      return is_tcp;
    case Of::kUdp:
      return flow.protocol == IpProtocol::kUdp;
    case Of::kIcmp:
      return is_icmp;
    case Of::kTcpOrIcmp:
      return is_tcp || is_icmp;
  }
  return false;
}

struct NumberWord {
  std::string_view name;
  Of of;
  uint64_t most;
  void (*set)(Fields& fields, uint64_t number);
};
constexpr uint64_t k16 = 0xffff, k32 = 0xffff'ffff;
template <auto Member>
constexpr auto kSet = [](Fields& fields, uint64_t number) {
  using T = std::remove_reference_t<decltype(fields.*Member)>;
  if constexpr (std::is_same_v<T, std::optional<uint16_t>>) {
    fields.*Member = static_cast<uint16_t>(number);
  } else {
    fields.*Member = static_cast<T>(number);
  }
};
constexpr NumberWord kNumberWords[] = {
    {"vlan", Of::kAll, 4'095,
     [](Fields& fields, uint64_t number) {
       fields.vlans.push_back(static_cast<uint16_t>(number));
     }},
    {"ttl", Of::kAll, 255, kSet<&Fields::ttl>},
    {"tos", Of::kAll, 255, kSet<&Fields::tos>},
    {"ip_id", Of::kIpv4, k16, kSet<&Fields::ip_id>},
    {"offset", Of::kIpv4, 65'528, kSet<&Fields::fragment_offset_bytes>},
    {"seq", Of::kTcpOrIcmp, k32, kSet<&Fields::seq>},
    {"ack", Of::kTcp, k32, kSet<&Fields::ack>},
    {"win", Of::kTcp, k16, kSet<&Fields::window>},
    {"type", Of::kIcmp, 255, kSet<&Fields::icmp_type>},
    {"code", Of::kIcmp, 255, kSet<&Fields::icmp_code>},
    {"id", Of::kIcmp, k16, kSet<&Fields::icmp_id>},
    {"bad_checksum", Of::kAll, k16, kSet<&Fields::bad_checksum>},
    {"bad_ip_checksum", Of::kIpv4, k16, kSet<&Fields::bad_ip_checksum>},
};

absl::Status Wrong(const std::string& what) {
  return absl::InvalidArgumentError(what);
}

std::string Quoted(std::string_view word) {
  return "\"" + std::string(word) + "\"";
}

absl::StatusOr<uint64_t> NumberIn(std::string_view word, std::string_view text,
                                  uint64_t most) {
  const bool is_hex = text.starts_with("0x");
  if (is_hex) text.remove_prefix(2);
  uint64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [stopped, error] =
      std::from_chars(text.data(), end, number, is_hex ? 16 : 10);
  if (error != std::errc() || stopped != end || number > most) {
    return Wrong(Quoted(word) + " is not 0 to " + std::to_string(most));
  }
  return number;
}

// Returns the bytes in the quotes of "…'aa bb'".
absl::StatusOr<Frame> HexIn(std::string_view word) {
  const size_t begin = word.find('\'') + 1;
  std::string digits;
  for (const char c : word.substr(begin, word.size() - 1 - begin)) {
    if (std::isspace(static_cast<unsigned char>(c)) != 0) continue;
    if (std::isxdigit(static_cast<unsigned char>(c)) == 0) {
      return Wrong(Quoted(word) + " is not hexadecimal");
    }
    digits += c;
  }
  if (digits.size() % 2 != 0) {
    return Wrong(Quoted(word) + " has an odd number of digits");
  }
  return Hex(digits);
}

absl::StatusOr<Frame> MacIn(std::string_view word, std::string_view text) {
  std::string digits;
  for (size_t i = 0; i < text.size(); ++i) {
    if (i % 3 == 2 ? text[i] != ':'
                   : std::isxdigit(static_cast<unsigned char>(text[i])) == 0) {
      return Wrong(Quoted(word) + " is no MAC address");
    }
    if (i % 3 != 2) digits += text[i];
  }
  if (text.size() != 17) return Wrong(Quoted(word) + " is no MAC address");
  return Hex(digits);
}

absl::StatusOr<Frame> TextIn(std::string_view word) {
  constexpr std::string_view kEscapes = "\"\\nrt", kMeant = "\"\\\n\r\t";
  Frame bytes;
  for (size_t i = 1; i + 1 < word.size(); ++i) {
    char c = word[i];
    if (c == '\\') {
      const size_t known = kEscapes.find(word[++i]);
      if (known == std::string_view::npos) {
        return Wrong(Quoted(word) + " has an unknown escape");
      }
      c = kMeant[known];
    }
    bytes.push_back(static_cast<std::byte>(c));
  }
  return bytes;
}

// Splits the text into words at blanks, except for blanks inside "…", '…' and
// {…}.
absl::StatusOr<std::vector<std::string_view>> WordsIn(std::string_view text) {
  std::vector<std::string_view> words;
  size_t i = 0;
  const auto is_blank = [&] {
    return std::isspace(static_cast<unsigned char>(text[i])) != 0;
  };
  while (true) {
    while (i < text.size() && is_blank()) ++i;
    if (i == text.size()) return words;
    const size_t begin = i;
    char closing = 0;
    int depth = 0;
    for (; i < text.size(); ++i) {
      const char c = text[i];
      if (closing != 0) {
        if (c == '\\' && closing == '"') ++i;
        if (c == closing) closing = 0;
      } else if (c == '"' || c == '\'') {
        closing = c;
      } else if (c == '{') {
        ++depth;
      } else if (c == '}') {
        --depth;
      } else if (depth == 0 && is_blank()) {
        break;
      }
    }
    i = std::min(i, text.size());
    words.push_back(text.substr(begin, i - begin));
    if (closing != 0 || depth != 0) {
      return Wrong(Quoted(words.back()) + " does not end");
    }
  }
}

class Parser {
 public:
  absl::StatusOr<TestPacket> Parse(std::string_view text);

 private:
  absl::Status ParseFlow();
  absl::Status ParseWord(std::string_view word);
  absl::Status ParseAssignment(std::string_view word);
  absl::Status ParseQuoted(std::string_view word);
  bool ParseFlag(std::string_view word);
  bool ParseIcmpName(std::string_view word);
  absl::Status Finish();

  std::vector<std::string_view> words_;
  size_t next_ = 0;
  Fields fields_;
  TestPacket packet_;
  std::optional<uint64_t> payload_bytes_;
  bool has_flags_ = false;
};

absl::StatusOr<TestPacket> Parser::Parse(std::string_view text) {
  auto words = WordsIn(text);
  if (!words.ok()) return words.status();
  words_ = *std::move(words);
  if (!words_.empty() && words_[0].starts_with('+')) {
    const auto gap = ParseDuration(std::string(words_[next_++].substr(1)));
    if (!gap.ok()) return gap.status();
    packet_.gap = *gap;
  }
  if (words_.size() == next_ + 2 && words_[next_] == "frame") {
    auto bytes = HexIn(words_[next_ + 1]);
    if (!bytes.ok()) return bytes.status();
    packet_.bytes = *std::move(bytes);
    packet_.original_length = static_cast<uint32_t>(packet_.bytes.size());
    return packet_;
  }
  absl::Status status = ParseFlow();
  while (status.ok() && next_ < words_.size()) {
    status = ParseWord(words_[next_++]);
  }
  if (status.ok()) status = Finish();
  if (!status.ok()) return status;
  return packet_;
}

absl::Status Parser::ParseFlow() {
  if (words_.size() < next_ + 4) {
    return Wrong("want for example \"udp 10.0.0.1:5000 > 192.0.2.9:53\"");
  }
  std::string flow;
  for (size_t i = 0; i < 4; ++i) {
    flow += (i > 0 ? " " : "") + std::string(words_[next_++]);
  }
  const auto key = ParseFlowKey(flow);
  if (!key.ok()) return key.status();
  if (words_[next_ - 2] != ">") return Wrong(Quoted(flow) + " has no \">\"");
  fields_.flow = *key;
  if (key->protocol == IpProtocol::kIcmpv6) fields_.icmp_type = 128;
  return absl::OkStatus();
}

absl::Status Parser::ParseWord(std::string_view word) {
  if (word.starts_with('"') || word.starts_with("x'")) return ParseQuoted(word);
  if (ParseFlag(word) || ParseIcmpName(word)) return absl::OkStatus();
  if (word == "no_flags" && IsOf(Of::kTcp, fields_.flow)) {
    fields_.tcp_flags = 0;
  } else if (word == "no_checksum" && IsOf(Of::kUdp, fields_.flow)) {
    fields_.no_checksum = true;
  } else if (word == "more" && fields_.is_ipv4()) {
    fields_.more_fragments = true;
  } else if (word == "df" && fields_.is_ipv4()) {
    fields_.dont_fragment = true;
  } else if (word == "about" && IsOf(Of::kIcmp, fields_.flow) &&
             next_ < words_.size() && words_[next_].starts_with('{')) {
    const std::string_view inner = words_[next_++];
    const auto quoted =
        ParsePacket(std::string(inner.substr(1, inner.size() - 2)));
    if (!quoted.ok()) return quoted.status();
    const ParsedPacket headers = snf::Parse(LinkType::kEthernet, quoted->bytes);
    const size_t end =
        std::min<size_t>(headers.l4_offset + 8u, quoted->bytes.size());
    fields_.payload = {quoted->bytes.begin() + headers.l3_offset,
                       quoted->bytes.begin() + static_cast<ptrdiff_t>(end)};
  } else {
    return ParseAssignment(word);
  }
  return absl::OkStatus();
}

absl::Status Parser::ParseQuoted(std::string_view word) {
  auto bytes = word[0] == '"' ? TextIn(word) : HexIn(word);
  if (!bytes.ok()) return bytes.status();
  if (!fields_.payload.empty()) {
    return Wrong(Quoted(word) + " is a second payload");
  }
  fields_.payload = *std::move(bytes);
  return absl::OkStatus();
}

bool Parser::ParseFlag(std::string_view word) {
  const auto flag = std::ranges::find(kTcpFlagNames, word);
  if (flag == kTcpFlagNames.end() || !IsOf(Of::kTcp, fields_.flow))
    return false;
  if (!has_flags_) fields_.tcp_flags = 0;
  has_flags_ = true;
  fields_.tcp_flags |=
      static_cast<uint8_t>(1u << (flag - kTcpFlagNames.begin()));
  return true;
}

bool Parser::ParseIcmpName(std::string_view word) {
  if (!IsOf(Of::kIcmp, fields_.flow)) return false;
  for (const TestIcmpName& name : kTestIcmpNames) {
    const int type = IcmpTypeOf(name, fields_.flow);
    if (name.name != word || type < 0) continue;
    fields_.icmp_type = static_cast<uint8_t>(type);
    return true;
  }
  return false;
}

// Handles a word of the form key=value.
absl::Status Parser::ParseAssignment(std::string_view word) {
  const size_t equals = std::min(word.find('='), word.size());
  const std::string_view key = word.substr(0, equals);
  const std::string_view value = word.substr(std::min(equals + 1, word.size()));
  if (key == "src" || key == "dst") {
    auto mac = MacIn(word, value);
    if (!mac.ok()) return mac.status();
    (key == "src" ? fields_.source_mac : fields_.destination_mac) =
        *std::move(mac);
    return absl::OkStatus();
  }
  if (key == "options" && IsOf(Of::kTcp, fields_.flow)) {
    auto bytes = HexIn(value);
    if (!bytes.ok()) return bytes.status();
    if (bytes->size() % 4 != 0 || bytes->size() > 40) {
      return Wrong(Quoted(word) + " are not 0, 4, 8 … 40 bytes");
    }
    fields_.tcp_options = *std::move(bytes);
    return absl::OkStatus();
  }
  if (key == "len" || key == "wire") {
    const auto number = NumberIn(word, value, key == "len" ? 65'000 : k32);
    if (!number.ok()) return number.status();
    if (key == "len") {
      payload_bytes_ = *number;
    } else {
      packet_.original_length = static_cast<uint32_t>(*number);
    }
    return absl::OkStatus();
  }
  for (const NumberWord& known : kNumberWords) {
    if (known.name != key || !IsOf(known.of, fields_.flow)) continue;
    const auto number = NumberIn(word, value, known.most);
    if (!number.ok()) return number.status();
    known.set(fields_, *number);
    return absl::OkStatus();
  }
  return Wrong(Quoted(word) + " says nothing of such a packet");
}

absl::Status Parser::Finish() {
  if (payload_bytes_.has_value()) {
    if (fields_.payload.size() > *payload_bytes_) {
      return Wrong("len=" + std::to_string(*payload_bytes_) +
                   " is less than the payload of " +
                   std::to_string(fields_.payload.size()));
    }
    fields_.payload.resize(*payload_bytes_);
  }
  if (fields_.fragment_offset_bytes % 8 != 0) {
    return Wrong("offset=" + std::to_string(fields_.fragment_offset_bytes) +
                 " is no multiple of 8");
  }
  packet_.bytes = FrameOf(fields_);
  const auto length = static_cast<uint32_t>(packet_.bytes.size());
  if (packet_.original_length != 0 && packet_.original_length < length) {
    return Wrong("wire=" + std::to_string(packet_.original_length) +
                 " is less than the frame's " + std::to_string(length));
  }
  packet_.original_length = std::max(packet_.original_length, length);
  return absl::OkStatus();
}

// Computes FNV-1a over everything that makes packets equal.
uint32_t DigestOf(const TestPacket& packet) {
  uint32_t digest = 0x811c'9dc5;
  const auto add = [&digest](uint32_t byte) {
    digest = (digest ^ byte) * 0x0100'0193;
  };
  for (const std::byte byte : packet.bytes) add(std::to_integer<uint8_t>(byte));
  add(static_cast<uint32_t>(packet.link));
  add(packet.original_length);
  return digest;
}

}  // namespace

absl::StatusOr<TestPacket> ParsePacket(const std::string& text) {
  absl::StatusOr<TestPacket> packet = Parser().Parse(text);
  if (packet.ok()) return packet;
  return Wrong("packet '" + text +
               "': " + std::string(packet.status().message()));
}

std::string ToText(const TestPacket& packet) {
  TestPacket told = packet;
  told.gap = TestPacket{}.gap;
  const auto length = static_cast<uint32_t>(packet.bytes.size());
  told.original_length = std::max(told.original_length, length);
  const auto fields = packet.link == LinkType::kEthernet
                          ? FieldsOf(packet.bytes)
                          : std::nullopt;
  std::string text;
  if (fields.has_value()) {
    text = TextOf(*fields);
    if (told.original_length > length) {
      text += " wire=" + std::to_string(told.original_length);
    }
  } else {
    const std::span<const std::byte> bytes = packet.bytes;
    text = "frame " + HexText(bytes.first(std::min<size_t>(length, 64)));
  }
  const absl::StatusOr<TestPacket> same = ParsePacket(text);
  if (same.ok() && *same == told) return text;
  char digest[20];
  std::snprintf(digest, sizeof digest, " digest=%08x", DigestOf(told));
  return text + digest;
}

}  // namespace snf
