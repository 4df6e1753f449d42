// SPDX-License-Identifier: Apache-2.0
#include "nfs/ids_http_log.h"

#include <algorithm>
#include <array>
#include <optional>

#include "base/byte_order.h"
#include "base/rules/eve_text.h"
#include "nfs/snort/option_text.h"

namespace snf {
namespace {

// The parts of a transaction, by Suricata's names. A part that is told by a
// field of the header has its name there.
struct Part {
  std::string_view key;
  size_t max_bytes;
  std::string_view field;
  bool is_of_request;
  bool is_number = false;
};
enum : uint8_t {
  kHost,
  kUrl,
  kAgent,
  kType,
  kReferer,
  kMethod,
  kProtocol,
  kStatus,
  kRedirect,
  kLength
};
constexpr std::array<Part, 10> kParts = {{
    {"hostname", 100, "host", true},
    {"url", 250, "", true},
    {"http_user_agent", 120, "user-agent", true},
    {"http_content_type", 60, "content-type", false},
    {"http_refer", 120, "referer", true},
    {"http_method", 20, "", true},
    {"protocol", 10, "", true},
    {"status", 3, "", false, true},
    {"redirect", 120, "location", false},
    {"length", 20, "", false, true},
}};

using snort::BytesOf;
using snort::TextOf;

void AddPart(std::string& parts, uint8_t number, std::string_view text) {
  if (text.empty()) return;
  text = text.substr(0, kParts[number].max_bytes);
  parts += static_cast<char>(number);
  parts += static_cast<char>(text.size());
  parts += text;
}

// Calls visit(number, text) for each part.
template <typename Visit>
void ForEachPart(std::string_view parts, const Visit& visit) {
  while (parts.size() >= 2) {
    const auto number = static_cast<uint8_t>(parts[0]);
    const auto bytes = static_cast<uint8_t>(parts[1]);
    if (number >= kParts.size() || bytes > parts.size() - 2) return;
    visit(number, parts.substr(2, bytes));
    parts.remove_prefix(2 + size_t{bytes});
  }
}

// Returns the bytes of the oldest request, with its length.
size_t OldestOf(std::string_view waiting) {
  if (waiting.size() < 2) return waiting.size();
  const size_t bytes = LoadAs<uint16_t>(BytesOf(waiting).data());
  return std::min(2 + bytes, waiting.size());
}

size_t CountOf(std::string_view waiting) {
  size_t count = 0;
  for (; !waiting.empty(); ++count) waiting.remove_prefix(OldestOf(waiting));
  return count;
}

// Takes the oldest request out of the blob's bytes.
std::string TakeOldest(std::string& waiting) {
  const size_t bytes = OldestOf(waiting);
  std::string oldest = bytes < 2 ? "" : waiting.substr(2, bytes - 2);
  waiting.erase(0, bytes);
  return oldest;
}

void Put(std::string& waiting, std::string_view parts) {
  const auto bytes = static_cast<uint16_t>(parts.size());
  waiting += TextOf(std::as_bytes(std::span(&bytes, 1)));
  waiting += parts;
}

}  // namespace

void IdsHttpLog::Note(const snort::HttpHeader& header) {
  const bool is_request = header.is_request;
  // An interim answer is followed by the answer.
  if (!is_request && header.status_code.starts_with('1')) return;
  Message& message = noted_.emplace_back(is_request, "");
  for (size_t i = 0; i < kParts.size(); ++i) {
    const Part& part = kParts[i];
    if (part.field.empty() || part.is_of_request != is_request) continue;
    AddPart(message.parts, static_cast<uint8_t>(i),
            snort::HttpField(header.raw_header, part.field));
  }
  if (is_request) {
    AddPart(message.parts, kMethod, header.method);
    AddPart(message.parts, kUrl, header.raw_uri);
    AddPart(message.parts, kProtocol, header.protocol);
    return;
  }
  AddPart(message.parts, kStatus, header.status_code);
  if (header.content_length.has_value()) {
    AddPart(message.parts, kLength, std::to_string(*header.content_length));
  }
}

void IdsHttpLog::Join(FlowState& flow, Blob waiting, OnDone on_done) {
  if (noted_.empty()) return;
  std::string requests(TextOf(flow.get(waiting)));
  for (const Message& message : noted_) {
    if (!message.is_request) {
      on_done(TakeOldest(requests) + message.parts);
      continue;
    }
    while (requests.size() + 2 + message.parts.size() > waiting.max_bytes() ||
           CountOf(requests) >= kMaxWaiting) {
      on_done(TakeOldest(requests));
    }
    Put(requests, message.parts);
  }
  flow.put(waiting, BytesOf(requests));
  noted_.clear();
}

void IdsHttpLog::End(FlowState& flow, Blob waiting, OnDone on_done) {
  std::string requests(TextOf(flow.get(waiting)));
  while (!requests.empty()) on_done(TakeOldest(requests));
}

std::string IdsHttpJson(std::span<const std::byte> parts) {
  std::array<std::string_view, kParts.size()> texts;
  ForEachPart(TextOf(parts), [&texts](uint8_t number, std::string_view text) {
    texts[number] = text;
  });
  std::string json;
  for (size_t i = 0; i < kParts.size(); ++i) {
    if (texts[i].empty()) continue;
    const auto number = kParts[i].is_number ? snort::IntegerIn(texts[i])
                                            : std::optional<int64_t>();
    snort::Append(
        json, json.empty() ? "{\"" : ",\"", kParts[i].key, "\":",
        number.has_value() ? std::to_string(*number) : EveQuoted(texts[i]));
  }
  return json.empty() ? "{}" : json + "}";
}

}  // namespace snf
