// SPDX-License-Identifier: Apache-2.0
#include "nfs/snort/rule.h"

#include <cstdint>
#include <iterator>
#include <optional>

namespace snf::snort {
namespace {

// The ends of the last matches by buffer, where they are known.
using Ends = std::array<std::optional<int64_t>, kBuffers>;

// Returns the only place at which the content can match, if there is one.
std::optional<int64_t> PlaceOf(const Content& content, const Ends& ends) {
  const auto is_known = [](const std::optional<Amount>& amount) {
    return !amount.has_value() || amount->variable < 0;
  };
  if (content.negated || !is_known(content.begin) || !is_known(content.span) ||
      !content.span.has_value() ||
      content.span->value != std::ssize(content.bytes)) {
    return std::nullopt;
  }
  const std::optional<int64_t> base =
      content.is_relative ? ends[static_cast<size_t>(content.buffer)]
                          : std::optional<int64_t>(0);
  if (!base.has_value()) return std::nullopt;
  const int64_t place =
      *base + (content.begin.has_value() ? content.begin->value : 0);
  return place < 0 ? std::nullopt : std::optional(place);
}

bool MovesCursor(const PayloadTest& test) {
  return !std::holds_alternative<ByteTest>(test.test) &&
         !std::holds_alternative<DataAt>(test.test);
}

}  // namespace

std::string_view Name(Buffer buffer) {
  static constexpr std::array<std::string_view, kBuffers> kNames = {
      "payload",          "http_uri",       "http_raw_uri",  "http_header",
      "http_raw_header",  "http_method",    "http_cookie",   "http_raw_cookie",
      "http_client_body", "http_stat_code", "http_stat_msg", "file_data"};
  return kNames[static_cast<size_t>(buffer)];
}

void Rule::Finish() {
  const auto add = [this](Buffer buffer) {
    buffers_ |= 1u << static_cast<int>(buffer);
  };
  for (const PacketTest& test : packet_tests) {
    if (const auto* field = std::get_if<FieldTest>(&test)) {
      if (field->field == Field::kUriBytes) add(Buffer::kUri);
      if (field->field == Field::kRawUriBytes) add(Buffer::kRawUri);
      if (field->field == Field::kPayloadBytes) packet_only = true;
    }
  }
  // Going back from the end: buffers in which a later test is relative to the
  // last match there, and whether one is relative to the last match anywhere.
  std::array<bool, kBuffers> is_awaited = {};
  bool is_last_awaited = false;
  const auto found_in = [&](PayloadTest& one, Buffer buffer, bool is_relative) {
    bool& awaited = is_awaited[static_cast<size_t>(buffer)];
    one.is_chained = awaited || is_last_awaited;
    awaited = is_relative;
    is_last_awaited = false;
  };
  for (size_t i = payload_tests.size(); i-- > 0;) {
    PayloadTest& one = payload_tests[i];
    const bool in_payload =
        one.buffer == Buffer::kPayload || one.buffer == Buffer::kFileData;
    if (const auto* content = std::get_if<Content>(&one.test)) {
      add(content->buffer);
      if (!content->negated) {
        has_positive_ = true;
        found_in(one, content->buffer, content->is_relative);
      } else if (content->is_relative) {
        is_awaited[static_cast<size_t>(content->buffer)] = true;
      }
      is_anchored |= in_payload && !content->is_relative &&
                     (content->begin.has_value() || content->span.has_value());
    } else if (const auto* regex = std::get_if<RegexTest>(&one.test)) {
      add(regex->buffer);
      if (!regex->negated) {
        has_positive_ = true;
        found_in(one, regex->buffer, regex->is_relative);
      } else if (regex->is_relative) {
        is_awaited[static_cast<size_t>(regex->buffer)] = true;
      }
      // An expression may have anchors of its own.
      is_anchored |= in_payload && !regex->is_relative;
    } else if (std::holds_alternative<UseBuffer>(one.test)) {
      add(one.buffer);
      found_in(one, one.buffer, false);
    } else {
      const bool is_relative = std::visit(
          [](const auto& test) {
            if constexpr (requires { test.at; }) {
              return test.at.is_relative;
            } else if constexpr (requires { test.is_relative; }) {
              return test.is_relative;
            } else {
              return false;
            }
          },
          one.test);
      if (!is_relative) {
        add(one.buffer);
        is_anchored |= in_payload;
      }
      const bool moves = std::holds_alternative<ByteJump>(one.test) ||
                         std::holds_alternative<ByteExtract>(one.test);
      if (moves) is_last_awaited = false;
      if (is_relative) is_last_awaited = true;
    }
  }
}

std::vector<FixedContent> FixedContentsOf(const Rule& rule) {
  std::vector<FixedContent> fixed;
  Ends ends;
  ends.fill(0);
  for (const PayloadTest& test : rule.payload_tests) {
    const auto* const content = std::get_if<Content>(&test.test);
    if (content == nullptr) {
      if (std::holds_alternative<UseBuffer>(test.test)) {
        ends[static_cast<size_t>(test.buffer)] = 0;
      } else if (MovesCursor(test)) {
        ends.fill(std::nullopt);
      }
      continue;
    }
    if (content->negated) continue;
    const std::optional<int64_t> place = PlaceOf(*content, ends);
    std::optional<int64_t>& end = ends[static_cast<size_t>(content->buffer)];
    end.reset();
    if (!place.has_value()) continue;
    end = *place + std::ssize(content->bytes);
    fixed.push_back({content->buffer, static_cast<size_t>(*place),
                     content->bytes, content->nocase});
  }
  return fixed;
}

}  // namespace snf::snort
