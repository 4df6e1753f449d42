// SPDX-License-Identifier: Apache-2.0
#include "nfs/snort/evaluator.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "base/byte_order.h"
#include "base/packet/flow_key.h"
#include "base/packet/ip_headers.h"
#include "base/packet/l4_headers.h"

namespace snf::snort {
namespace {

constexpr size_t kNowhere = std::string_view::npos;

uint8_t ByteAt(std::span<const std::byte> bytes, size_t at) {
  return static_cast<uint8_t>(bytes[at]);
}

char Lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c;
}

// The number of a field, or nothing if the packet has no such field.
std::optional<int64_t> ValueOf(Field field, const PacketFacts& facts,
                               const Buffers& buffers) {
  const ParsedPacket& headers = *facts.headers;
  const std::span<const std::byte> frame = facts.frame;
  const bool is_ipv4 = headers.l3 == L3::kIpv4;
  const size_t l3 = headers.l3_offset;
  const size_t l4 = headers.l4_offset;
  const bool has_l4 = headers.result == ParseResult::kComplete;
  const auto u8 = [&](size_t at) { return int64_t{ByteAt(frame, at)}; };
  const auto u16 = [&](size_t at) {
    return int64_t{LoadBe16(frame.data() + at).host()};
  };
  const auto u32 = [&](size_t at) {
    return int64_t{LoadBe32(frame.data() + at).host()};
  };
  const auto of = [&](Rule::Protocol protocol) {
    return has_l4 && facts.protocol == protocol;
  };
  const auto size_of = [&](Buffer buffer) -> std::optional<int64_t> {
    if (!At(buffers, buffer).is_present) return std::nullopt;
    return static_cast<int64_t>(At(buffers, buffer).bytes.size());
  };
  switch (field) {
    case Field::kTtl:
      return u8(l3 + (is_ipv4 ? 8 : 7));
    case Field::kTos:
      return is_ipv4 ? u8(l3 + 1) : u16(l3) >> 4 & 0xff;
    case Field::kIpId:
      if (!is_ipv4) return std::nullopt;
      return u16(l3 + 4);
    case Field::kIpProtocol:
      return static_cast<int64_t>(headers.l4_protocol);
    case Field::kFragmentOffset:
      return headers.fragment_offset_bytes / 8;
    case Field::kIcmpType:
      if (!of(Rule::Protocol::kIcmp)) return std::nullopt;
      return u8(l4);
    case Field::kIcmpCode:
      if (!of(Rule::Protocol::kIcmp)) return std::nullopt;
      return u8(l4 + 1);
    case Field::kIcmpId:
    case Field::kIcmpSequence: {
      if (!of(Rule::Protocol::kIcmp)) return std::nullopt;
      // As in Snort: of echo and its reply only.
      const int64_t type = u8(l4);
      const bool is_ipv6 = headers.l4_protocol == IpProtocol::kIcmpv6;
      const bool is_echo =
          is_ipv6 ? type == 128 || type == 129 : type == 0 || type == 8;
      if (!is_echo) return std::nullopt;
      return u16(l4 + (field == Field::kIcmpId ? 4 : 6));
    }
    case Field::kTcpSequence:
      if (!of(Rule::Protocol::kTcp)) return std::nullopt;
      return u32(l4 + 4);
    case Field::kTcpAcknowledgement:
      if (!of(Rule::Protocol::kTcp)) return std::nullopt;
      return u32(l4 + 8);
    case Field::kTcpWindow:
      if (!of(Rule::Protocol::kTcp)) return std::nullopt;
      return u16(l4 + 14);
    case Field::kPayloadBytes:
      return facts.payload_bytes;
    case Field::kUriBytes:
      return size_of(Buffer::kUri);
    case Field::kRawUriBytes:
      return size_of(Buffer::kRawUri);
  }
  return std::nullopt;
}

bool Matches(const BitsTest& test, const PacketFacts& facts) {
  const ParsedPacket& headers = *facts.headers;
  uint8_t bits = 0;
  if (test.of == BitsTest::Of::kTcpFlags) {
    if (facts.protocol != Rule::Protocol::kTcp ||
        headers.result != ParseResult::kComplete) {
      return false;
    }
    bits = ByteAt(facts.frame, headers.l4_offset + size_t{13});
  } else {
    if (headers.l3 != L3::kIpv4) return false;
    bits = ByteAt(facts.frame, headers.l3_offset + size_t{6}) >> 5;
  }
  bits = static_cast<uint8_t>(bits & ~test.ignored);
  switch (test.mode) {
    case BitsTest::Mode::kExact:
      return bits == test.bits;
    case BitsTest::Mode::kAll:
      return (bits & test.bits) == test.bits;
    case BitsTest::Mode::kAny:
      return (bits & test.bits) != 0;
    case BitsTest::Mode::kNone:
      return (bits & test.bits) == 0;
  }
  return false;
}

bool Matches(const IpOptionTest& test, const PacketFacts& facts) {
  const ParsedPacket& headers = *facts.headers;
  if (headers.l3 != L3::kIpv4) return false;
  const size_t begin = headers.l3_offset;
  const size_t end = begin + (ByteAt(facts.frame, begin) & 15u) * size_t{4};
  for (size_t at = begin + 20; at < end && at < facts.frame.size();) {
    const uint8_t type = ByteAt(facts.frame, at);
    if (test.any || type == test.type) return true;
    if (type == 0) return false;
    if (type == 1) {
      ++at;
      continue;
    }
    if (at + 1 >= facts.frame.size()) return false;
    const uint8_t bytes = ByteAt(facts.frame, at + 1);
    if (bytes < 2) return false;
    at += bytes;
  }
  return false;
}

// The number that byte_test and its like read, and the place behind it.
struct NumberRead {
  int64_t value;
  int64_t end;
};
std::optional<NumberRead> ReadNumber(const NumberAt& at, std::string_view bytes,
                                     int64_t base, int64_t offset) {
  const int64_t begin = base + offset;
  const auto size = static_cast<int64_t>(bytes.size());
  if (begin < 0 || begin + at.bytes > size) return std::nullopt;
  const std::string_view read =
      bytes.substr(static_cast<size_t>(begin), at.bytes);
  uint64_t value = 0;
  if (at.base == 0) {
    for (size_t i = 0; i < read.size(); ++i) {
      const char c = at.is_little ? read[read.size() - 1 - i] : read[i];
      value = value << 8 | static_cast<unsigned char>(c);
    }
    return NumberRead{static_cast<int64_t>(value), begin + at.bytes};
  }
  // Digits end where there are no more; before them may be spaces and 0x.
  size_t i = 0;
  while (i < read.size() && (read[i] == ' ' || read[i] == '\t')) ++i;
  if (at.base == 16 && i + 1 < read.size() && read[i] == '0' &&
      Lower(read[i + 1]) == 'x') {
    i += 2;
  }
  bool has_digit = false;
  for (; i < read.size(); ++i) {
    const char c = Lower(read[i]);
    const int digit = c >= '0' && c <= '9'   ? c - '0'
                      : c >= 'a' && c <= 'f' ? c - 'a' + 10
                                             : 99;
    if (digit >= at.base) break;
    value = value * at.base + static_cast<uint64_t>(digit);
    has_digit = true;
  }
  if (!has_digit) return std::nullopt;
  return NumberRead{static_cast<int64_t>(value), begin + at.bytes};
}

}  // namespace

PacketFacts PacketFacts::Of(std::span<const std::byte> frame,
                            const ParsedPacket& headers) {
  PacketFacts facts;
  facts.frame = frame;
  facts.headers = &headers;
  const FlowKey key = FiveTuple(frame, headers, /*with_vlan=*/false);
  facts.source = NumberOf(key.source);
  facts.destination = NumberOf(key.destination);
  facts.payload_bytes = headers.payload_bytes();
  if (headers.result == ParseResult::kLaterFragment) return facts;
  if (headers.l4_protocol == IpProtocol::kTcp) {
    facts.protocol = Rule::Protocol::kTcp;
  } else if (headers.l4_protocol == IpProtocol::kUdp) {
    facts.protocol = Rule::Protocol::kUdp;
  } else if (IsIcmp(headers.l4_protocol)) {
    facts.protocol = Rule::Protocol::kIcmp;
  }
  facts.has_ports = facts.protocol == Rule::Protocol::kTcp ||
                    facts.protocol == Rule::Protocol::kUdp;
  if (facts.has_ports) {
    facts.source_port = key.source_port.host();
    facts.destination_port = key.destination_port.host();
  }
  return facts;
}

void Flowbits::Set(uint32_t bit, bool on) {
  if (Has(bit) == on) return;
  bits_[bit / 8] ^= std::byte{1} << (bit % 8);
  has_changed_ = true;
}

void Flowbits::Clear() {
  for (std::byte& byte : bits_) {
    has_changed_ |= byte != std::byte{0};
    byte = std::byte{0};
  }
}

bool Evaluator::MatchesHeader(const Rule& rule, const PacketFacts& facts) {
  if (rule.protocol != Rule::Protocol::kIp && rule.protocol != facts.protocol) {
    return false;
  }
  using Direction = FlowTest::Direction;
  using State = FlowTest::State;
  const bool wrong_way =
      rule.flow.direction != Direction::kAny &&
      (rule.flow.direction == Direction::kToServer) != facts.to_server;
  const bool wrong_state =
      rule.flow.state != State::kAny &&
      (rule.flow.state == State::kEstablished) != facts.is_established;
  if (wrong_way || wrong_state) return false;
  const bool with_ports = rule.protocol == Rule::Protocol::kTcp ||
                          rule.protocol == Rule::Protocol::kUdp;
  const auto is_between = [&](bool reversed) {
    const uint16_t from = reversed ? facts.destination_port : facts.source_port;
    const uint16_t to = reversed ? facts.source_port : facts.destination_port;
    if (with_ports && (!rule.source_ports->Contains(from) ||
                       !rule.destination_ports->Contains(to))) {
      return false;
    }
    return rule.source->Contains(reversed ? facts.destination : facts.source) &&
           rule.destination->Contains(reversed ? facts.source
                                               : facts.destination);
  };
  return is_between(false) || (rule.both_ways && is_between(true));
}

bool Evaluator::MatchesPacket(const Rule& rule, const PacketFacts& facts,
                              const Buffers& buffers, const Flowbits& bits) {
  using Kind = FlowbitOperation::Kind;
  for (const FlowbitOperation& test : rule.flowbits) {
    if (!test.is_test()) continue;
    const auto has = [&bits](uint32_t bit) { return bits.Has(bit); };
    const bool is_set = test.any ? std::ranges::any_of(test.bits, has)
                                 : std::ranges::all_of(test.bits, has);
    if (is_set != (test.kind == Kind::kIsSet)) return false;
  }
  for (const PacketTest& test : rule.packet_tests) {
    const auto* const size = std::get_if<FieldTest>(&test);
    const bool is_of_uri = size != nullptr && size->field >= Field::kUriBytes;
    if (!facts.has_headers && !is_of_uri) return false;
    if (const auto* field = std::get_if<FieldTest>(&test)) {
      const auto value = ValueOf(field->field, facts, buffers);
      if (!value.has_value()) return false;
      const bool is_in = *value >= field->first && *value <= field->last;
      if (is_in == field->negated) return false;
    } else if (const auto* flags = std::get_if<BitsTest>(&test)) {
      if (!Matches(*flags, facts)) return false;
    } else if (const auto* option = std::get_if<IpOptionTest>(&test)) {
      if (!Matches(*option, facts)) return false;
    } else if (facts.source != facts.destination) {
      return false;
    }
  }
  return true;
}

void Evaluator::ApplyFlowbits(const Rule& rule, Flowbits& bits) {
  using Kind = FlowbitOperation::Kind;
  for (const FlowbitOperation& operation : rule.flowbits) {
    if (operation.kind == Kind::kReset) bits.Clear();
    for (const uint32_t bit : operation.bits) {
      if (operation.kind == Kind::kSet) bits.Set(bit, true);
      if (operation.kind == Kind::kUnset) bits.Set(bit, false);
      if (operation.kind == Kind::kToggle) bits.Set(bit, !bits.Has(bit));
    }
  }
}

size_t FindContent(std::string_view text, std::string_view bytes, bool nocase,
                   size_t from, size_t end) {
  end = std::min(end, text.size());
  if (from > end || end - from < bytes.size()) return kNowhere;
  const char* const begin = text.data();
  if (!nocase) {
    const void* const found =
        memmem(begin + from, end - from, bytes.data(), bytes.size());
    if (found == nullptr) return kNowhere;
    return static_cast<size_t>(static_cast<const char*>(found) - begin);
  }
  const size_t last = end - bytes.size();
  for (size_t at = from; at <= last; ++at) {
    size_t i = 0;
    while (i < bytes.size() && Lower(begin[at + i]) == bytes[i]) ++i;
    if (i == bytes.size()) return at;
  }
  return kNowhere;
}

bool Evaluator::MatchesPayload(const Rule& rule, const Buffers& buffers) {
  Job job = {rule, buffers, limits_.steps};
  const bool matches = From(0, Cursor{}, job);
  if (!matches && job.steps_left == 0) ++limits_reached_;
  return matches;
}

bool Evaluator::From(size_t index, const Cursor& cursor, Job& job) {
  const std::vector<PayloadTest>& tests = job.rule.payload_tests;
  Cursor now = cursor;
  const auto value_of = [&now](const Amount& amount) {
    return amount.variable < 0
               ? amount.value
               : now.variables[static_cast<size_t>(amount.variable)];
  };
  for (; index < tests.size(); ++index) {
    const PayloadTest& one = tests[index];
    if (const auto* content = std::get_if<Content>(&one.test)) {
      if (!content->negated) {
        return MatchContent(*content, one.is_chained, index, now, job);
      }
      if (MatchContent(*content, false, index, now, job)) return false;
      continue;
    }
    if (const auto* regex = std::get_if<RegexTest>(&one.test)) {
      if (!regex->negated) {
        return MatchRegex(*regex, one.is_chained, index, now, job);
      }
      if (MatchRegex(*regex, false, index, now, job)) return false;
      continue;
    }
    if (std::holds_alternative<UseBuffer>(one.test)) {
      if (!At(job.buffers, one.buffer).is_present) return false;
      now.last = one.buffer;
      now.at[static_cast<size_t>(one.buffer)] = 0;
      continue;
    }
    if (const auto* data = std::get_if<DataAt>(&one.test)) {
      const Buffer which = data->is_relative ? now.last : one.buffer;
      const BufferView& view = At(job.buffers, which);
      const int64_t base =
          data->is_relative ? now.at[static_cast<size_t>(which)] : 0;
      const int64_t at = base + value_of(data->offset);
      const bool is_there =
          at >= 0 && at < static_cast<int64_t>(view.bytes.size());
      if (is_there == data->negated) return false;
      now.is_fresh |= is_there && at >= static_cast<int64_t>(view.fresh_from);
      continue;
    }
    const NumberAt& at = std::holds_alternative<ByteTest>(one.test)
                             ? std::get<ByteTest>(one.test).at
                         : std::holds_alternative<ByteJump>(one.test)
                             ? std::get<ByteJump>(one.test).at
                             : std::get<ByteExtract>(one.test).at;
    const Buffer which = at.is_relative ? now.last : one.buffer;
    const BufferView& view = At(job.buffers, which);
    const std::string_view bytes = view.bytes;
    uint32_t& place = now.at[static_cast<size_t>(which)];
    const auto read =
        ReadNumber(at, bytes, at.is_relative ? place : 0, value_of(at.offset));
    if (!read.has_value()) return false;
    now.is_fresh |= read->end > static_cast<int64_t>(view.fresh_from);
    if (const auto* test = std::get_if<ByteTest>(&one.test)) {
      const int64_t wanted = value_of(test->value);
      bool holds = false;
      switch (test->op) {
        case '<':
          holds = read->value < wanted;
          break;
        case '>':
          holds = read->value > wanted;
          break;
        case '=':
          holds = read->value == wanted;
          break;
        case 'l':
          holds = read->value <= wanted;
          break;
        case 'g':
          holds = read->value >= wanted;
          break;
        case '&':
          holds = (read->value & wanted) != 0;
          break;
        case '^':
          holds = (read->value ^ wanted) != 0;
          break;
        default:
          break;
      }
      if (holds == test->negated) return false;
    } else if (const auto* jump = std::get_if<ByteJump>(&one.test)) {
      // Values of ten digits, times 65,535, are far from 2^63.
      int64_t distance = read->value * jump->multiplier;
      if (jump->aligns && distance % 4 != 0) distance += 4 - distance % 4;
      const int64_t to =
          (jump->from_beginning ? 0 : read->end) + distance + jump->post_offset;
      if (to < 0 || to > static_cast<int64_t>(bytes.size())) return false;
      place = static_cast<uint32_t>(to);
      now.last = which;
    } else if (const auto* extract = std::get_if<ByteExtract>(&one.test)) {
      int64_t value = read->value * extract->multiplier;
      const int64_t align = extract->align_bytes;
      if (align > 0 && value % align != 0) value += align - value % align;
      now.variables[static_cast<size_t>(extract->variable)] = value;
      place = static_cast<uint32_t>(read->end);
      now.last = which;
    }
  }
  if (job.rule.has_positive()) return now.is_fresh;
  // Without a match that could end in them, the message's header has to be new.
  return !job.rule.needs_http() || At(job.buffers, Buffer::kHeader).is_fresh();
}

// For a negated content, returns whether it was found.
bool Evaluator::MatchContent(const Content& content, bool is_chained,
                             size_t index, const Cursor& cursor, Job& job) {
  const BufferView& view = At(job.buffers, content.buffer);
  // An absent buffer has no content, negated or not.
  if (!view.is_present) return content.negated;
  const auto value_of = [&cursor](const Amount& amount) {
    return amount.variable < 0
               ? amount.value
               : cursor.variables[static_cast<size_t>(amount.variable)];
  };
  const auto size = static_cast<int64_t>(view.bytes.size());
  const auto which = static_cast<size_t>(content.buffer);
  const int64_t base = content.is_relative ? cursor.at[which] : 0;
  const int64_t begin =
      base + (content.begin.has_value() ? value_of(*content.begin) : 0);
  const int64_t end =
      content.span.has_value() ? begin + value_of(*content.span) : size;
  const auto length = static_cast<int64_t>(content.bytes.size());
  int64_t from = std::max<int64_t>(begin, 0);
  const int64_t to = std::min(end, size);
  const auto find = [&](int64_t at) -> int64_t {
    if (at > to) return -1;
    const size_t found =
        FindContent(view.bytes, content.bytes, content.nocase,
                    static_cast<size_t>(at), static_cast<size_t>(to));
    return found == kNowhere ? -1 : static_cast<int64_t>(found);
  };
  if (to < from) return false;
  if (content.negated) return find(from) >= 0;

  const auto fresh = static_cast<int64_t>(view.fresh_from);
  const auto go_on = [&](int64_t at) {
    Cursor next = cursor;
    next.at[which] = static_cast<uint32_t>(at + length);
    next.last = content.buffer;
    next.is_fresh |= at + length > fresh;
    return From(index + 1, next, job);
  };
  if (!is_chained) {
    // The rest does not depend on the place, so one in fresh bytes is best.
    int64_t at = find(std::max(from, fresh - length + 1));
    if (at < 0) at = find(from);
    return at >= 0 && go_on(at);
  }
  for (int64_t at = find(from); at >= 0; at = find(at + 1)) {
    if (job.steps_left == 0) return false;
    --job.steps_left;
    if (go_on(at)) return true;
  }
  return false;
}

bool Evaluator::MatchRegex(const RegexTest& test, bool is_chained, size_t index,
                           const Cursor& cursor, Job& job) {
  const BufferView& view = At(job.buffers, test.buffer);
  if (!view.is_present) return test.negated;
  const auto which = static_cast<size_t>(test.buffer);
  // As in Snort, ^ of a relative expression is where the last match ended.
  const size_t base =
      test.is_relative ? std::min<size_t>(cursor.at[which], view.bytes.size())
                       : 0;
  const std::string_view subject = view.bytes.substr(base);
  if (test.negated) return regexes_.Find(test.regex, subject, 0).has_value();
  size_t from = 0;
  for (;;) {
    if (job.steps_left == 0) return false;
    --job.steps_left;
    const auto found = regexes_.Find(test.regex, subject, from);
    if (!found.has_value()) return false;
    Cursor next = cursor;
    next.at[which] = static_cast<uint32_t>(base + found->second);
    next.last = test.buffer;
    const bool is_fresh = base + found->second > view.fresh_from;
    next.is_fresh |= is_fresh;
    const bool is_last_hope = !is_chained && next.is_fresh;
    if (From(index + 1, next, job)) return true;
    if (is_last_hope) return false;
    from = std::max(found->first, from) + 1;
  }
}

bool AreInPlace(const std::vector<FixedContent>& contents,
                const Buffers& buffers) {
  return std::ranges::all_of(contents, [&](const FixedContent& content) {
    const BufferView& view = At(buffers, content.buffer);
    const size_t end = content.offset + content.bytes.size();
    return view.is_present && end <= view.bytes.size() &&
           FindContent(view.bytes, content.bytes, content.nocase,
                       content.offset, end) != kNowhere;
  });
}

}  // namespace snf::snort
