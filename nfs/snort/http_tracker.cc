// SPDX-License-Identifier: Apache-2.0
#include "nfs/snort/http_tracker.h"

#include <algorithm>
#include <memory>

namespace snf::snort {
namespace {

// Returns true if a message may begin here, in the midst of a stream.
bool LooksLikeBegin(std::string_view text, bool is_request) {
  if (!is_request) return text.starts_with("HTTP/1.");
  const size_t space = text.find(' ');
  const size_t line = std::min(text.find('\n'), text.size());
  if (space == std::string_view::npos || space == 0 || space > line) {
    return false;
  }
  return std::ranges::all_of(text.substr(0, space),
                             [](char c) { return c >= 'A' && c <= 'Z'; }) &&
         text.substr(0, line).find(" HTTP/1.") != std::string_view::npos;
}

}  // namespace

const std::vector<TrackedMessage>& HttpTracker::Follow(const StreamPiece& piece,
                                                       HttpState& state) {
  messages_.clear();
  const uint64_t end = piece.begin + piece.bytes.size();
  const uint64_t fresh = piece.begin + piece.kept;
  const std::string_view news = piece.bytes.substr(piece.kept);
  // A message that begins with a packet also ends the message before it.
  const bool is_astray =
      state.phase == HttpState::kLost ||
      (state.phase == HttpState::kBody && state.body_end > fresh);
  if (is_astray && LooksLikeBegin(news, piece.is_request)) {
    state.phase = HttpState::kStart;
    state.message_begin = fresh;
  }
  while (messages_.size() < kMaxMessages) {
    if (state.phase == HttpState::kLost || state.phase == HttpState::kNotHttp) {
      break;
    }
    const size_t number = messages_.size();
    if (texts_.size() == number) texts_.push_back(std::make_unique<Texts>());
    HttpHeader& header = texts_[number]->header;
    const bool is_kept = state.message_begin >= piece.begin;
    if (state.phase == HttpState::kBody && !is_kept) {
      Add(piece, state, false);
    } else {
      if (!is_kept) {
        ++headers_too_long_;
        state.phase = HttpState::kLost;
        break;
      }
      if (state.message_begin >= end) break;
      const auto read =
          header.Read(piece.bytes.substr(state.message_begin - piece.begin),
                      piece.is_request);
      if (read == HttpHeader::Result::kNeedsMore) break;
      if (read == HttpHeader::Result::kNotHttp) {
        state.phase =
            state.message_begin == 0 ? HttpState::kNotHttp : HttpState::kLost;
        break;
      }
      if (state.phase == HttpState::kStart) {
        state.phase = HttpState::kBody;
        state.body_begin = state.message_begin + header.header_bytes;
        const uint64_t length =
            header.content_length.value_or(HttpState::kUnknown);
        state.body_end = length >= HttpState::kUnknown - state.body_begin
                             ? HttpState::kUnknown
                             : state.body_begin + length;
        state.coding = static_cast<uint64_t>(header.coding) |
                       (header.is_chunked ? HttpState::kChunked : 0);
      }
      Add(piece, state, true);
    }
    if (state.body_end > end || state.body_end == HttpState::kUnknown) break;
    state.message_begin = state.body_end;
    state.phase = HttpState::kStart;
    if (state.message_begin >= end) break;
  }
  return messages_;
}

void HttpTracker::Add(const StreamPiece& piece, HttpState& state,
                      bool has_header) {
  Texts& texts = *texts_[messages_.size()];
  TrackedMessage& message = messages_.emplace_back();
  Buffers& buffers = message.buffers;
  const uint64_t fresh = piece.begin + piece.kept;
  const uint64_t end = piece.begin + piece.bytes.size();
  const auto at = [&piece](uint64_t offset) {
    return static_cast<size_t>(offset - piece.begin);
  };
  const auto set = [&buffers](Buffer which, std::string_view bytes,
                              size_t fresh_from) {
    At(buffers, which) = {bytes, std::min(fresh_from, bytes.size()), true};
  };
  // Chunks and compression can only be undone from the body's begin.
  const bool is_plain = state.coding == 0;
  const uint64_t body_from = std::max(state.body_begin, piece.begin);
  if (body_from <= end) {
    const bool from_begin = body_from == state.body_begin;
    const auto coding = static_cast<HttpHeader::Coding>(
        from_begin ? state.coding & ~HttpState::kChunked : 0);
    const bool is_chunked =
        from_begin && (state.coding & HttpState::kChunked) != 0;
    const auto raw_until = [&](uint64_t until) {
      const uint64_t most = std::max(body_from, std::min(end, state.body_end));
      until = std::clamp(until, body_from, most);
      return piece.bytes.substr(at(body_from), until - body_from);
    };
    const std::string_view raw = raw_until(end);
    size_t fresh_body = fresh > body_from ? fresh - body_from : 0;
    std::string_view body = raw;
    if (!is_plain && from_begin) {
      DecodeBody(raw, is_chunked, coding, max_body_bytes_, texts.body);
      body = texts.body.bytes;
      bodies_cut_ += texts.body.is_cut ? 1 : 0;
      malformed_ += texts.body.is_malformed ? 1 : 0;
      if (fresh_body > 0) {
        DecodeBody(raw_until(fresh), is_chunked, coding, max_body_bytes_,
                   texts.old_body);
        fresh_body = texts.old_body.bytes.size();
      }
      if (texts.body.is_whole) {
        state.body_end = state.body_begin + texts.body.raw_bytes;
      }
    }
    set(piece.is_request ? Buffer::kClientBody : Buffer::kFileData, body,
        fresh_body);
  }
  const uint64_t from = std::max(state.message_begin, piece.begin);
  const uint64_t to = std::max(from, std::min(end, state.body_end));
  message.is_from_begin = from == state.message_begin;
  set(Buffer::kPayload, piece.bytes.substr(at(from), to - from),
      fresh > from ? fresh - from : 0);
  if (!has_header) return;
  const HttpHeader& header = texts.header;
  const bool is_old = state.body_begin <= fresh;
  if (!is_old) message.header = &header;
  const auto part = [&](Buffer which, std::string_view bytes) {
    set(which, bytes, is_old ? bytes.size() : 0);
  };
  part(Buffer::kHeader, header.header);
  part(Buffer::kRawHeader, header.raw_header);
  if (!header.cookie.empty()) {
    part(Buffer::kCookie, header.cookie);
    part(Buffer::kRawCookie, header.cookie);
  }
  if (piece.is_request) {
    part(Buffer::kMethod, header.method);
    part(Buffer::kUri, header.uri);
    part(Buffer::kRawUri, header.raw_uri);
  } else {
    part(Buffer::kStatusCode, header.status_code);
    part(Buffer::kStatusMessage, header.status_message);
  }
}

}  // namespace snf::snort
