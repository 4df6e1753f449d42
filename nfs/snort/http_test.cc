// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <zlib.h>

#include <algorithm>
#include <string>
#include <vector>

#include "nfs/snort/http_message.h"
#include "nfs/snort/http_tracker.h"

namespace snf::snort {
namespace {

using Result = HttpHeader::Result;

std::string Zipped(const std::string& text, int window = 15 + 16) {
  z_stream stream = {};
  deflateInit2(&stream, 9, Z_DEFLATED, window, 8, Z_DEFAULT_STRATEGY);
  std::string in = text;
  std::string out(deflateBound(&stream, text.size()) + 64, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(in.data());
  stream.avail_in = static_cast<uInt>(in.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

TEST(HttpHeader, ReadsARequest) {
  HttpHeader header;
  const std::string text =
      "POST /a%2Fb/../c//d?x=%41+y HTTP/1.1\r\nHost: h\r\nCookie: k=v\r\n"
      "Content-Length: 3\r\n\r\nabcGET";
  ASSERT_EQ(header.Read(text, true), Result::kWhole);
  EXPECT_EQ(header.method, "POST");
  EXPECT_EQ(header.raw_uri, "/a%2Fb/../c//d?x=%41+y");
  EXPECT_EQ(header.uri, "/a/c/d?x=A+y");
  EXPECT_EQ(header.cookie, "k=v");
  EXPECT_EQ(header.header, "Host: h\r\nContent-Length: 3\r\n\r\n");
  EXPECT_EQ(header.raw_header,
            "Host: h\r\nCookie: k=v\r\nContent-Length: 3\r\n\r\n");
  EXPECT_EQ(header.content_length, 3u);
  EXPECT_EQ(text.substr(header.header_bytes), "abcGET");
}

TEST(HttpHeader, ReadsAResponse) {
  HttpHeader header;
  ASSERT_EQ(header.Read("HTTP/1.1 404 Not Found\nSet-Cookie: a=b\n"
                        "Transfer-Encoding: chunked\nContent-Encoding: gzip\n"
                        "\nrest",
                        false),
            Result::kWhole);
  EXPECT_EQ(header.status_code, "404");
  EXPECT_EQ(header.status_message, "Not Found");
  EXPECT_EQ(header.cookie, "a=b");
  EXPECT_TRUE(header.is_chunked);
  EXPECT_EQ(header.coding, HttpHeader::Coding::kGzip);
  EXPECT_EQ(header.content_length, std::nullopt);
}

TEST(HttpHeader, TellsWhatIsNotHttp) {
  HttpHeader header;
  for (const char* text :
       {"get / HTTP/1.1\r\n", "\x16\x03\x01", "EHLO x\r\n", "USER a b\r\n",
        " GET", "AAAAAAAAAAAAAAAAAAAAAAAAA"}) {
    EXPECT_EQ(header.Read(text, true), Result::kNotHttp) << text;
  }
  for (const char* text : {"HTTQ", "220 x\r\n", "HTTP/1.1 2000 x\r\n"}) {
    EXPECT_EQ(header.Read(text, false), Result::kNotHttp) << text;
  }
  for (const char* text : {"", "G", "GET /", "GET / HTTP/1.1\r\nA: b\r\n"}) {
    EXPECT_EQ(header.Read(text, true), Result::kNeedsMore) << text;
  }
}

TEST(NormalisedUri, TakesDisguisesAway) {
  EXPECT_EQ(NormalisedUri("/a/./b/../../c"), "/c");
  EXPECT_EQ(NormalisedUri("/..//..\\etc/%70asswd"), "/etc/passwd");
  EXPECT_EQ(NormalisedUri("/%u0041%"), "/A%");
  EXPECT_EQ(NormalisedUri("http://h/a//b?c=//d/../e"),
            "http://h/a/b?c=//d/../e");
  EXPECT_EQ(NormalisedUri(""), "");
}

TEST(DecodeBody, UndoesChunksAndCompression) {
  HttpBody body;
  DecodeBody("3\r\nabc\r\n2;x=y\r\nde\r\n0\r\nT: r\r\n\r\nnext", true,
             HttpHeader::Coding::kNone, 100, body);
  EXPECT_EQ(body.bytes, "abcde");
  EXPECT_TRUE(body.is_whole);
  EXPECT_EQ(body.raw_bytes, 30u);
  DecodeBody("3\r\nab", true, HttpHeader::Coding::kNone, 100, body);
  EXPECT_EQ(body.bytes, "ab");
  EXPECT_FALSE(body.is_whole);
  DecodeBody("zz\r\n", true, HttpHeader::Coding::kNone, 100, body);
  EXPECT_TRUE(body.is_malformed);
  DecodeBody(Zipped("hello"), false, HttpHeader::Coding::kGzip, 100, body);
  EXPECT_EQ(body.bytes, "hello");
  DecodeBody(Zipped("hello", 15), false, HttpHeader::Coding::kDeflate, 100,
             body);
  EXPECT_EQ(body.bytes, "hello");
  DecodeBody(Zipped("hello", -15), false, HttpHeader::Coding::kDeflate, 100,
             body);
  EXPECT_EQ(body.bytes, "hello");
}

TEST(DecodeBody, IsBoundedWhateverIsPacked) {
  HttpBody body;
  DecodeBody(Zipped(std::string(10'000'000, 'x')), false,
             HttpHeader::Coding::kGzip, 4'000, body);
  EXPECT_EQ(body.bytes.size(), 4'000u);
  EXPECT_TRUE(body.is_cut);
}

// Follows a stream that is cut at some places, and of which the last `window`
// bytes are kept: "uri=…" and so on, if it is fresh.
std::string Told(const std::string& stream, const std::vector<size_t>& cuts,
                 size_t window, bool is_request) {
  HttpTracker tracker(10'000);
  HttpState state;
  std::string told;
  size_t begin = 0;
  std::vector<size_t> ends = cuts;
  ends.push_back(stream.size());
  for (const size_t end : ends) {
    const size_t from = begin > window ? begin - window : 0;
    const auto& messages = tracker.Follow(
        {.bytes = std::string_view(stream).substr(from, end - from),
         .begin = from,
         .kept = begin - from,
         .is_request = is_request},
        state);
    for (const TrackedMessage& message : messages) {
      for (const Buffer which :
           {Buffer::kMethod, Buffer::kUri, Buffer::kHeader, Buffer::kStatusCode,
            Buffer::kClientBody, Buffer::kFileData}) {
        const BufferView& view = At(message.buffers, which);
        const bool is_body =
            which == Buffer::kClientBody || which == Buffer::kFileData;
        if (!view.is_present || !view.is_fresh()) continue;
        const std::string fresh(view.bytes.substr(view.fresh_from));
        told += is_body ? fresh : std::string(Name(which)) + "=" + fresh + ";";
      }
    }
    begin = end;
  }
  return told;
}

const std::string kRequests =
    "GET /one HTTP/1.1\r\nA: b\r\n\r\n"
    "POST /two HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello"
    "POST /three HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"
    "4\r\nwiki\r\n0\r\n\r\n"
    "GET /four HTTP/1.1\r\n\r\n";

TEST(HttpTracker, TellsTheSameHoweverTheStreamIsCut) {
  const std::string whole = Told(kRequests, {}, 500, true);
  for (const char* part : {"http_uri=/one;", "http_uri=/two;", "hello",
                           "http_uri=/three;", "wiki", "http_uri=/four;"}) {
    EXPECT_NE(whole.find(part), std::string::npos) << part << " in " << whole;
  }
  for (size_t i = 1; i < kRequests.size(); ++i) {
    EXPECT_EQ(Told(kRequests, {i}, 500, true), whole) << "cut at " << i;
  }
  std::vector<size_t> every;
  for (size_t i = 1; i < kRequests.size(); ++i) every.push_back(i);
  EXPECT_EQ(Told(kRequests, every, 500, true), whole);
  const std::string response =
      "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n0123456789"
      "HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n";
  const std::string told = Told(response, {}, 500, false);
  EXPECT_NE(told.find("http_stat_code=404;"), std::string::npos) << told;
  for (size_t i = 1; i < response.size(); ++i) {
    EXPECT_EQ(Told(response, {i}, 500, false), told) << "cut at " << i;
  }
}

TEST(HttpTracker, GoesOnInABodyThatIsLongerThanItsWindow) {
  const std::string response =
      "HTTP/1.1 200 OK\r\nContent-Length: 400\r\n\r\n" + std::string(399, 'x') +
      "yHTTP/1.1 204 No\r\n\r\n";
  std::vector<size_t> cuts;
  for (size_t i = 60; i < response.size(); i += 7) cuts.push_back(i);
  const std::string told = Told(response, cuts, 60, false);
  EXPECT_EQ(std::ranges::count(told, 'x'), 399) << told;
  EXPECT_NE(told.find("http_stat_code=204;"), std::string::npos) << told;
}

TEST(HttpTracker, FindsItsWayAgainAfterAHeaderThatIsTooLong) {
  HttpTracker tracker(100);
  HttpState state;
  std::string header = "GET /";
  header.append(90, 'a');
  tracker.Follow({.bytes = header}, state);
  const std::string kept(23, 'a');
  tracker.Follow({.bytes = kept, .begin = header.size() - 20, .kept = 20},
                 state);
  EXPECT_EQ(tracker.headers_too_long(), 1u);
  const std::string next = "GET /b HTTP/1.1\r\n\r\n";
  const auto& messages =
      tracker.Follow({.bytes = next, .begin = header.size() + 3}, state);
  ASSERT_EQ(messages.size(), 1u);
  EXPECT_EQ(At(messages[0].buffers, Buffer::kUri).bytes, "/b");
}

}  // namespace
}  // namespace snf::snort
