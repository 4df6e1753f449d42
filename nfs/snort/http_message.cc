// SPDX-License-Identifier: Apache-2.0
#include "nfs/snort/http_message.h"

#include <zlib.h>

#include <algorithm>
#include <array>

#include "nfs/snort/option_text.h"

namespace snf::snort {
namespace {

constexpr size_t kNone = std::string_view::npos;

bool IsUpper(char c) { return c >= 'A' && c <= 'Z'; }

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

bool EqualsNoCase(std::string_view a, std::string_view lower) {
  return std::ranges::equal(a, lower, [](char x, char y) {
    return (IsUpper(x) ? static_cast<char>(x + 32) : x) == y;
  });
}

bool ContainsNoCase(std::string_view text, std::string_view lower) {
  for (size_t i = 0; i + lower.size() <= text.size(); ++i) {
    if (EqualsNoCase(text.substr(i, lower.size()), lower)) return true;
  }
  return false;
}

// A method has at most this many letters.
constexpr size_t kMaxMethod = 20;

// Returns false if no message can begin so, whatever follows.
bool MayBegin(std::string_view text, bool is_request) {
  if (!is_request) {
    constexpr std::string_view kBegin = "HTTP/1.";
    const size_t bytes = std::min(kBegin.size(), text.size());
    return text.substr(0, bytes) == kBegin.substr(0, bytes);
  }
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == ' ') return i > 0;
    if (!IsUpper(text[i]) && text[i] != '_' && text[i] != '-') return false;
    if (i >= kMaxMethod) return false;
  }
  return true;
}

std::string DecodedPercent(std::string_view raw) {
  std::string text;
  text.reserve(raw.size());
  for (size_t i = 0; i < raw.size(); ++i) {
    if (raw[i] == '%' && i + 2 < raw.size()) {
      const bool is_wide =
          (raw[i + 1] == 'u' || raw[i + 1] == 'U') && i + 5 < raw.size();
      const size_t at = is_wide ? i + 4 : i + 1;
      const int high = HexDigit(raw[at]);
      const int low = HexDigit(raw[at + 1]);
      if (high >= 0 && low >= 0) {
        text += static_cast<char>(high * 16 + low);
        i = at + 1;
        continue;
      }
    }
    text += raw[i];
  }
  return text;
}

void Inflate(std::string_view raw, bool is_gzip, size_t max_bytes,
             HttpBody& body) {
  z_stream stream = {};
  // "deflate" is zlib's form, and often none: then what follows is raw.
  const bool is_zlib = !raw.empty() && (raw[0] & 0x0f) == 8;
  const int window = is_gzip ? 15 + 16 : is_zlib ? 15 : -15;
  if (inflateInit2(&stream, window) != Z_OK) {
    body.is_malformed = true;
    return;
  }
  std::string packed(raw);
  stream.next_in = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_in = static_cast<uInt>(packed.size());
  std::array<char, 4'096> piece;
  int result = Z_OK;
  while (result == Z_OK && body.bytes.size() < max_bytes) {
    stream.next_out = reinterpret_cast<Bytef*>(piece.data());
    stream.avail_out = piece.size();
    result = inflate(&stream, Z_SYNC_FLUSH);
    body.bytes.append(piece.data(), piece.size() - stream.avail_out);
    if (stream.avail_in == 0 && stream.avail_out != 0) break;
  }
  inflateEnd(&stream);
  body.is_malformed |=
      result != Z_OK && result != Z_STREAM_END && result != Z_BUF_ERROR;
  if (body.bytes.size() >= max_bytes) {
    body.bytes.resize(max_bytes);
    body.is_cut = true;
  }
}

// Joins chunks (RFC 9112 §7.1).
void Unchunk(std::string_view raw, std::string& out, HttpBody& body) {
  size_t at = 0;
  while (at < raw.size()) {
    const size_t line_end = raw.find('\n', at);
    if (line_end == kNone) return;
    uint64_t size = 0;
    size_t digits = 0;
    for (size_t i = at; i < line_end; ++i, ++digits) {
      const int digit = HexDigit(raw[i]);
      if (digit < 0) break;
      size = size * 16 + static_cast<uint64_t>(digit);
      if (digits > 8) break;
    }
    if (digits == 0 || digits > 8) {
      body.is_malformed = true;
      return;
    }
    at = line_end + 1;
    if (size == 0) {
      // Trailers end with an empty line.
      for (;;) {
        const size_t end = raw.find('\n', at);
        if (end == kNone) return;
        const bool is_empty = end == at || (end == at + 1 && raw[at] == '\r');
        at = end + 1;
        if (!is_empty) continue;
        body.is_whole = true;
        body.raw_bytes = at;
        return;
      }
    }
    const size_t bytes = std::min<uint64_t>(size, raw.size() - at);
    out.append(raw.substr(at, bytes));
    at += bytes;
    if (bytes < size) return;
    // The end of the line behind the chunk.
    if (at < raw.size() && raw[at] == '\r') ++at;
    if (at < raw.size() && raw[at] == '\n') ++at;
  }
}

}  // namespace

HttpHeader::Result HttpHeader::Read(std::string_view text, bool is_a_request) {
  is_request = is_a_request;
  if (!MayBegin(text, is_request)) return Result::kNotHttp;
  method = raw_uri = protocol = status_code = status_message = raw_header = {};
  uri.clear();
  header.clear();
  cookie.clear();
  header_bytes = 0;
  content_length.reset();
  is_chunked = false;
  coding = Coding::kNone;
  size_t at = 0;
  for (int line = 0;; ++line) {
    const size_t end = text.find('\n', at);
    if (end == kNone) return Result::kNeedsMore;
    std::string_view one = text.substr(at, end - at);
    if (one.ends_with('\r')) one.remove_suffix(1);
    const std::string_view with_end = text.substr(at, end + 1 - at);
    at = end + 1;
    if (line == 0) {
      if (!ReadFirstLine(one)) return Result::kNotHttp;
      raw_header = text.substr(at);
      continue;
    }
    if (one.empty()) {
      header += with_end;
      break;
    }
    if (line <= kMaxLines) ReadLine(one, with_end);
  }
  header_bytes = at;
  raw_header = raw_header.substr(
      0, at - static_cast<size_t>(raw_header.data() - text.data()));
  if (is_request) {
    uri = NormalisedUri(raw_uri);
    // A request without a length has no body.
    if (!content_length && !is_chunked) content_length = 0;
  } else if (status_code.starts_with('1') || status_code == "204" ||
             status_code == "304") {
    content_length = 0;
    is_chunked = false;
  }
  if (is_chunked) content_length.reset();
  return Result::kWhole;
}

bool HttpHeader::ReadFirstLine(std::string_view line) {
  const size_t first = line.find(' ');
  if (first == kNone) return false;
  if (!is_request) {
    if (!line.starts_with("HTTP/1.")) return false;
    protocol = line.substr(0, first);
    const size_t second = std::min(line.find(' ', first + 1), line.size());
    status_code = line.substr(first + 1, second - first - 1);
    if (second < line.size()) status_message = line.substr(second + 1);
    return status_code.size() == 3;
  }
  const size_t last = line.rfind(' ');
  if (last == first || !line.substr(last + 1).starts_with("HTTP/")) {
    return false;
  }
  method = line.substr(0, first);
  raw_uri = line.substr(first + 1, last - first - 1);
  protocol = line.substr(last + 1);
  return true;
}

void HttpHeader::ReadLine(std::string_view line, std::string_view with_end) {
  const size_t colon = line.find(':');
  const std::string_view name =
      colon == kNone ? std::string_view() : line.substr(0, colon);
  const std::string_view value = colon == kNone
                                     ? std::string_view()
                                     : StrippedView(line.substr(colon + 1));
  if (EqualsNoCase(name, is_request ? "cookie" : "set-cookie")) {
    if (!cookie.empty()) cookie += ", ";
    cookie += value;
    return;
  }
  header += with_end;
  if (EqualsNoCase(name, "content-length")) {
    const auto length = IntegerIn(value);
    if (length.has_value() && *length >= 0) {
      content_length = static_cast<uint64_t>(*length);
    }
  } else if (EqualsNoCase(name, "transfer-encoding")) {
    is_chunked = ContainsNoCase(value, "chunked");
  } else if (EqualsNoCase(name, "content-encoding")) {
    coding = ContainsNoCase(value, "gzip")       ? Coding::kGzip
             : ContainsNoCase(value, "deflate")  ? Coding::kDeflate
             : ContainsNoCase(value, "identity") ? Coding::kNone
                                                 : Coding::kOther;
  }
}

std::string_view HttpField(std::string_view raw_header, std::string_view name) {
  while (!raw_header.empty()) {
    const size_t end = std::min(raw_header.find('\n'), raw_header.size());
    const std::string_view line = raw_header.substr(0, end);
    const size_t colon = line.find(':');
    if (colon != kNone && EqualsNoCase(line.substr(0, colon), name)) {
      return StrippedView(line.substr(colon + 1));
    }
    raw_header.remove_prefix(std::min(end + 1, raw_header.size()));
  }
  return {};
}

std::string NormalisedUri(std::string_view raw) {
  const std::string decoded = DecodedPercent(raw);
  const size_t query = std::min(decoded.find('?'), decoded.size());
  std::string uri;
  uri.reserve(decoded.size());
  for (size_t i = 0; i < query; ++i) {
    const char c = decoded[i] == '\\' ? '/' : decoded[i];
    // "http://host" keeps its two.
    const bool is_scheme = uri.ends_with(":/") && uri.size() <= 8;
    if (c == '/' && uri.ends_with('/') && !is_scheme) continue;
    uri += c;
    if (c != '/') continue;
    if (uri.ends_with("/./")) uri.resize(uri.size() - 2);
    if (!uri.ends_with("/../")) continue;
    uri.resize(uri.size() - 3);
    const size_t up =
        uri.size() < 2 ? std::string::npos : uri.rfind('/', uri.size() - 2);
    if (up != std::string::npos) uri.resize(up + 1);
  }
  return uri.append(decoded, query);
}

void DecodeBody(std::string_view raw, bool is_chunked,
                HttpHeader::Coding coding, size_t max_bytes, HttpBody& body) {
  body.bytes.clear();
  body.is_whole = body.is_cut = body.is_malformed = false;
  body.raw_bytes = 0;
  std::string joined;
  std::string_view plain = raw;
  if (is_chunked) {
    Unchunk(raw, joined, body);
    plain = joined;
  }
  if (coding == HttpHeader::Coding::kGzip ||
      coding == HttpHeader::Coding::kDeflate) {
    if (!plain.empty()) {
      Inflate(plain, coding == HttpHeader::Coding::kGzip, max_bytes, body);
    }
    return;
  }
  body.is_cut = plain.size() > max_bytes;
  body.bytes.assign(plain.substr(0, max_bytes));
}

}  // namespace snf::snort
