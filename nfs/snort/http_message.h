// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_NFS_SNORT_HTTP_MESSAGE_H_
#define SNF_NFS_SNORT_HTTP_MESSAGE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace snf::snort {

// The header of an HTTP/1 message (RFC 9112), as rules look at it. Bytes from
// outside: anything is allowed. Texts are reused from message to message.
struct HttpHeader {
  enum class Result : uint8_t { kWhole, kNeedsMore, kNotHttp };
  enum class Coding : uint8_t { kNone, kGzip, kDeflate, kOther };

  bool is_request = true;
  std::string_view method;  // views are of the text that was read
  std::string_view raw_uri;
  std::string_view protocol;  // "HTTP/1.1"
  std::string_view status_code;
  std::string_view status_message;
  std::string_view raw_header;  // lines behind the first, and the empty one
  std::string uri;              // normalised: NormalisedUri
  std::string header;           // raw_header without Cookie and Set-Cookie
  std::string cookie;           // their values

  size_t header_bytes = 0;  // with the empty line
  // Bytes of the body; nothing if it ends where the connection does, or is
  // chunked.
  std::optional<uint64_t> content_length;
  bool is_chunked = false;
  Coding coding = Coding::kNone;

  // Lines that are read; later ones are part of raw_header only.
  static constexpr int kMaxLines = 256;

  // Reads the header that begins with `text`. Fields are valid after kWhole,
  // and as long as the text.
  Result Read(std::string_view text, bool is_a_request);

 private:
  bool ReadFirstLine(std::string_view line);
  void ReadLine(std::string_view line, std::string_view with_end);
};

// Returns the value of the first field of that name, in lower case, of a raw
// header; "" if there is none.
std::string_view HttpField(std::string_view raw_header, std::string_view name);

// Returns the path and query as Snort's http_inspect does: percent-decoded
// once (%uXXXX to its low byte), \ as /, // as /, and /./ and /x/../ taken out
// of the path.
std::string NormalisedUri(std::string_view raw);

// The body of a message, without chunks and compression.
struct HttpBody {
  std::string bytes;
  bool is_whole = false;      // the last chunk was seen
  size_t raw_bytes = 0;       // up to behind the last chunk, if is_whole
  bool is_cut = false;        // more than max_bytes came out
  bool is_malformed = false;  // chunks or compression
};
void DecodeBody(std::string_view raw, bool is_chunked,
                HttpHeader::Coding coding, size_t max_bytes, HttpBody& body);

}  // namespace snf::snort

#endif  // SNF_NFS_SNORT_HTTP_MESSAGE_H_
