// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_BASE_IPFIX_IPFIX_WRITER_H_
#define SNF_BASE_IPFIX_IPFIX_WRITER_H_

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/packet/ip_address.h"

namespace snf {

// An information element of IPFIX as it stands in a record: its number (RFC
// 7012, www.iana.org/assignments/ipfix) and its length there.
struct IpfixField {
  uint16_t element;
  uint16_t bytes;
  uint32_t enterprise = 0;  // that defines the element; 0: IANA
  friend bool operator==(const IpfixField&, const IpfixField&) = default;
};
// Returns the same field of the other direction (RFC 5103 §6.1).
constexpr IpfixField Reverse(IpfixField field) {
  return {field.element, field.bytes, 29'305};
}

inline constexpr IpfixField kIpfixOctets = {1, 8};    // octetDeltaCount
inline constexpr IpfixField kIpfixPackets = {2, 8};   // packetDeltaCount
inline constexpr IpfixField kIpfixProtocol = {4, 1};  // protocolIdentifier
inline constexpr IpfixField kIpfixTcpFlags = {6, 2};  // tcpControlBits
inline constexpr IpfixField kIpfixSourcePort = {7, 2};
inline constexpr IpfixField kIpfixSource4 = {8, 4};
inline constexpr IpfixField kIpfixDestinationPort = {11, 2};
inline constexpr IpfixField kIpfixDestination4 = {12, 4};
inline constexpr IpfixField kIpfixSource6 = {27, 16};
inline constexpr IpfixField kIpfixDestination6 = {28, 16};
inline constexpr IpfixField kIpfixIcmp4 = {32, 2};         // icmpTypeCodeIPv4
inline constexpr IpfixField kIpfixVlan = {58, 2};          // vlanId
inline constexpr IpfixField kIpfixTotalPackets = {86, 8};  // packetTotalCount
inline constexpr IpfixField kIpfixEndReason = {136, 1};    // flowEndReason
inline constexpr IpfixField kIpfixIcmp6 = {139, 2};        // icmpTypeCodeIPv6
inline constexpr IpfixField kIpfixStart = {152, 8};  // flowStartMilliseconds
inline constexpr IpfixField kIpfixEnd = {153, 8};    // flowEndMilliseconds
// Elements of NAT events (RFC 8158): postNATSourceIPv4Address,
// postNAPTSourceTransportPort, natEvent, observationTimeMilliseconds,
// natQuotaExceededEvent and maxEntriesPerUser.
inline constexpr IpfixField kIpfixPostNatSource4 = {225, 4};
inline constexpr IpfixField kIpfixPostNaptSourcePort = {227, 2};
inline constexpr IpfixField kIpfixNatEvent = {230, 1};
inline constexpr IpfixField kIpfixTime = {323, 8};
inline constexpr IpfixField kIpfixNatQuota = {466, 4};
inline constexpr IpfixField kIpfixMostOfUser = {473, 4};
// layer2OctetDeltaCount and layer2OctetTotalCount.
inline constexpr IpfixField kIpfixLinkOctets = {352, 8};
inline constexpr IpfixField kIpfixTotalLinkOctets = {353, 8};

// Appends a number in network order.
void AppendIpfix(uint64_t value, uint32_t bytes, std::string& to);

// Builds IPFIX messages (RFC 7011 §3); templates stand before their records.
//
//     IpfixWriter writer(export_time_s);
//     const uint16_t host = writer.AddTemplate({kIpfixSource4, kIpfixPackets});
//     writer.Begin(host);
//     writer.Put(address.host(), 4);
//     writer.Put(packets, 8);
//     const std::vector<std::string> messages = writer.Take();
//
// A value; owner-thread only.
class IpfixWriter {
 public:
  struct Limits {
    size_t message_bytes = 16'384;  // most bytes of a message
    // All templates stand again in each message of this number; 0: once only.
    uint32_t templates_each = 0;
    // Each domain numbers its templates and records itself (RFC 7011 §3.1).
    uint32_t observation_domain = 1;
  };
  // For datagrams that no path cuts: 1,280 bytes, which every IPv6 path
  // carries, less the headers of IPv6 and UDP (RFC 7011 §10.3.3, §8.4).
  static constexpr Limits kForUdp = {
      .message_bytes = 1'232, .templates_each = 16, .observation_domain = 1};

  explicit IpfixWriter(uint32_t export_time_s)
      : export_time_s_(export_time_s) {}
  IpfixWriter(uint32_t export_time_s, Limits limits)
      : export_time_s_(export_time_s), limits_(limits) {}

  // Adds a template and returns its number.
  uint16_t AddTemplate(std::span<const IpfixField> fields);
  uint16_t AddTemplate(std::initializer_list<IpfixField> fields) {
    return AddTemplate(std::span(fields.begin(), fields.size()));
  }
  // Begins a record of a template. The caller then puts the values of its
  // fields in order.
  void Begin(uint16_t number);
  void Put(uint64_t value, uint32_t bytes) {
    AppendIpfix(value, bytes, message_);
  }
  // Puts the 4 bytes of an IPv4 address, or all 16.
  void Put(const IpAddress& address, bool as_ipv4);
  // Puts the values of all fields of a record.
  void PutBytes(std::string_view values) { message_ += values; }
  // Returns all messages since the last call. Templates and numbers go on.
  std::vector<std::string> Take();
  // Counts the records of all messages.
  uint32_t records() const { return records_; }
  // Sets the time that messages from the next one on bear.
  void set_export_time(uint32_t export_time_s) {
    export_time_s_ = export_time_s;
  }

 private:
  struct Template {
    std::string bytes;
    size_t record_bytes = 0;
  };
  void OpenSet(uint16_t id, size_t next_bytes);
  void CloseSet();
  void OpenMessage();
  void CloseMessage();
  void SetLength(size_t at, size_t bytes);

  uint32_t export_time_s_;
  Limits limits_;
  std::vector<Template> templates_;
  std::vector<std::string> messages_;
  std::string message_;  // the open one, or empty
  size_t set_ = 0;       // begin of the open set; 0 for none
  uint16_t set_id_ = 0;
  uint32_t records_ = 0;  // data records of all messages
  uint64_t opened_ = 0;   // messages so far
};

}  // namespace snf

#endif  // SNF_BASE_IPFIX_IPFIX_WRITER_H_
