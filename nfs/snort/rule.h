// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_NFS_SNORT_RULE_H_
#define SNF_NFS_SNORT_RULE_H_

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "nfs/snort/interval_set.h"
#include "nfs/snort/problem.h"
#include "nfs/snort/regex.h"

namespace snf::snort {

// The parts of a packet, a stream or an HTTP message that options look at.
enum class Buffer : uint8_t {
  kPayload,
  kUri,  // normalised
  kRawUri,
  kHeader,  // without cookies
  kRawHeader,
  kMethod,
  kCookie,
  kRawCookie,
  kClientBody,
  kStatusCode,
  kStatusMessage,
  kFileData,  // body of a response; the payload if the flow is not HTTP
};
inline constexpr size_t kBuffers = 12;
std::string_view Name(Buffer buffer);

// A number in an option, or a variable of byte_extract.
inline constexpr int kMaxVariables = 4;
struct Amount {
  int64_t value = 0;
  int8_t variable = -1;  // its index, or -1
};

// Tests of payload, in the order of the rule (Snort 2.9 manual, §3.5).
struct Content {
  std::string bytes;  // lower-case if nocase
  bool nocase = false;
  bool negated = false;
  bool is_relative = false;       // distance or within
  std::optional<Amount> begin{};  // offset or distance
  std::optional<Amount> span{};   // depth or within
  Buffer buffer = Buffer::kPayload;
  bool is_fast = false;  // fast_pattern
  uint16_t fast_offset = 0;
  uint16_t fast_length = 0;  // 0: all of it
};
struct RegexTest {
  Regex regex;
  bool negated = false;
  bool is_relative = false;
  Buffer buffer = Buffer::kPayload;
};
// The number that byte_test, byte_jump and byte_extract read.
struct NumberAt {
  uint8_t bytes = 0;
  Amount offset;
  bool is_relative = false;
  bool is_little = false;
  uint8_t base = 0;  // 8, 10 or 16: digits; 0: binary
};
struct ByteTest {
  NumberAt at;
  char op = '=';  // < > = & ^, and l, g for <=, >=
  bool negated = false;
  Amount value;
};
struct ByteJump {
  NumberAt at;
  int64_t multiplier = 1;
  bool aligns = false;  // to 4 bytes
  bool from_beginning = false;
  int64_t post_offset = 0;
};
struct ByteExtract {
  NumberAt at;
  int64_t multiplier = 1;
  uint8_t align_bytes = 0;
  int8_t variable = 0;
};
struct DataAt {  // isdataat
  Amount offset;
  bool negated = false;
  bool is_relative = false;
};
struct UseBuffer {};  // file_data, pkt_data: the cursor goes to the begin
struct PayloadTest {
  std::variant<Content, RegexTest, ByteTest, ByteJump, ByteExtract, DataAt,
               UseBuffer>
      test;
  // The buffer of tests that are not relative, and of UseBuffer.
  Buffer buffer = Buffer::kPayload;
  // A later test depends on where this one matched.
  bool is_chained = false;
};

// Tests of headers and sizes.
enum class Field : uint8_t {
  kTtl,
  kTos,
  kIpId,
  kIpProtocol,
  kFragmentOffset,  // in units of 8 bytes
  kIcmpType,
  kIcmpCode,
  kIcmpId,
  kIcmpSequence,
  kTcpSequence,
  kTcpAcknowledgement,
  kTcpWindow,
  kPayloadBytes,  // dsize
  kUriBytes,
  kRawUriBytes,
};
struct FieldTest {
  Field field;
  int64_t first = 0;
  int64_t last = 0;
  bool negated = false;
};
struct BitsTest {
  enum class Of : uint8_t { kTcpFlags, kFragmentBits };
  enum class Mode : uint8_t { kExact, kAll, kAny, kNone };
  Of of;
  Mode mode = Mode::kExact;
  uint8_t bits = 0;
  uint8_t ignored = 0;
};
struct IpOptionTest {
  bool any = false;
  uint8_t type = 0;
};
struct SameIpTest {};
using PacketTest = std::variant<FieldTest, BitsTest, IpOptionTest, SameIpTest>;

struct FlowTest {
  enum class Direction : uint8_t { kAny, kToServer, kToClient };
  enum class State : uint8_t { kAny, kEstablished, kNotEstablished };
  Direction direction = Direction::kAny;
  State state = State::kAny;
};

struct FlowbitOperation {
  enum class Kind : uint8_t {
    kSet,
    kUnset,
    kToggle,
    kIsSet,
    kIsNotSet,
    kReset
  };
  Kind kind;
  bool any = false;  // isset, isnotset: any of the bits, not all
  std::vector<uint32_t> bits{};
  bool is_test() const {
    return kind == Kind::kIsSet || kind == Kind::kIsNotSet;
  }
};

// threshold, detection_filter, event_filter.
struct Threshold {
  enum class Kind : uint8_t { kLimit, kThreshold, kBoth, kDetectionFilter };
  Kind kind = Kind::kLimit;
  bool by_destination = false;
  uint32_t count = 1;
  uint32_t seconds = 1;
};

struct Rule {
  enum class Action : uint8_t { kPass, kDrop, kAlert };
  enum class Protocol : uint8_t { kIp, kTcp, kUdp, kIcmp };

  Action action = Action::kAlert;
  Protocol protocol = Protocol::kIp;
  std::shared_ptr<const AddressSet> source;
  std::shared_ptr<const PortSet> source_ports;
  std::shared_ptr<const AddressSet> destination;
  std::shared_ptr<const PortSet> destination_ports;
  bool both_ways = false;

  std::vector<PacketTest> packet_tests;
  FlowTest flow;
  std::vector<FlowbitOperation> flowbits;
  bool noalert = false;
  std::vector<PayloadTest> payload_tests;
  // Sees the packet's own payload, not the stream: dsize, flow:no_stream.
  bool packet_only = false;
  // Has a test with a position that counts from the begin of the payload.
  bool is_anchored = false;
  std::optional<Threshold> threshold;

  uint32_t gid = 1;
  uint32_t sid = 0;
  uint32_t revision = 0;
  std::string message;
  std::string class_name;  // classtype
  std::string category;    // its text
  uint32_t priority = 3;
  bool has_priority = false;
  std::vector<std::pair<std::string, std::string>> references;
  std::vector<std::string> metadata;
  Place place;
  std::vector<Problem> ignored;  // parts that have no effect

  // A bit for each buffer that tests look at.
  uint32_t buffers() const { return buffers_; }
  bool uses(Buffer buffer) const {
    return (buffers_ >> static_cast<int>(buffer) & 1) != 0;
  }
  // True if the rule needs an HTTP message.
  bool needs_http() const { return (buffers_ & kHttpBuffers) != 0; }
  // True if a content or pcre must be found.
  bool has_positive() const { return has_positive_; }
  // Fills in what the tests imply. Call after the last test was added.
  void Finish();

 private:
  static constexpr uint32_t kHttpBuffers =
      ((1u << kBuffers) - 1) & ~(1u << static_cast<int>(Buffer::kPayload)) &
      ~(1u << static_cast<int>(Buffer::kFileData));
  uint32_t buffers_ = 0;
  bool has_positive_ = false;
};

// A content of a rule that can match at one place only. Such contents have a
// depth as long as they are, or a known distance to another fixed content.
// They are compared before the rule is evaluated, without a search.
//
// Example: content:"|16 03|"; depth:2; content:"|02|"; distance:3; within:1;
// has the fixed contents "|16 03|" at 0 and "|02|" at 5. Packets within a TLS
// record, in which stage 1 found "|02|" anywhere, are refused by two bytes.
struct FixedContent {
  Buffer buffer = Buffer::kPayload;
  size_t offset = 0;
  std::string bytes;  // lower-case if nocase
  bool nocase = false;
};

// Returns the fixed contents of a rule, in its order.
std::vector<FixedContent> FixedContentsOf(const Rule& rule);

}  // namespace snf::snort

#endif  // SNF_NFS_SNORT_RULE_H_
