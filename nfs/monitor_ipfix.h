// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_NFS_MONITOR_IPFIX_H_
#define SNF_NFS_MONITOR_IPFIX_H_

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <vector>

#include "base/packet/ip_address.h"

namespace snf {

// An information element of IPFIX as it stands in a record: its number (RFC
// 7012, www.iana.org/assignments/ipfix) and its length there.
struct IpfixField {
  uint16_t element;
  uint16_t bytes;
  uint32_t enterprise = 0;  // that defines the element; 0: IANA
};
// Returns the same field of the other direction (RFC 5103 §6.1).
constexpr IpfixField Reverse(IpfixField field) {
  return {field.element, field.bytes, 29'305};
}

inline constexpr IpfixField kIpfixPackets = {86, 8};  // packetTotalCount
inline constexpr IpfixField kIpfixBytes = {353, 8};   // layer2OctetTotalCount
inline constexpr IpfixField kIpfixSource4 = {8, 4};
inline constexpr IpfixField kIpfixSource6 = {27, 16};
inline constexpr IpfixField kIpfixDestination4 = {12, 4};
inline constexpr IpfixField kIpfixDestination6 = {28, 16};

// Builds an IPFIX file (RFC 5655): a sequence of IPFIX messages (RFC 7011 §3)
// of at most kMaxMessageBytes; templates stand before their records.
//
//     IpfixFile file(export_time_s);
//     const uint16_t host = file.AddTemplate({kIpfixSource4, kIpfixPackets});
//     file.Begin(host);
//     file.Put(address.host(), 4);
//     file.Put(packets, 8);
//     const std::string bytes = file.Take();
class IpfixFile {
 public:
  static constexpr size_t kMaxMessageBytes = 16'384;

  explicit IpfixFile(uint32_t export_time_s) : export_time_s_(export_time_s) {}

  // Adds a template and returns its number.
  uint16_t AddTemplate(std::initializer_list<IpfixField> fields);
  // Begins a record of a template. The caller then puts the values of its
  // fields in order.
  void Begin(uint16_t number);
  void Put(uint64_t value, uint32_t bytes);
  // Puts the 4 bytes of an IPv4 address, or all 16.
  void Put(const IpAddress& address, bool as_ipv4);
  // Returns the whole file. Called once, at the end.
  std::string Take();

 private:
  struct Template {
    uint16_t number;
    size_t record_bytes;
  };
  void Append(uint64_t value, uint32_t bytes);
  void OpenSet(uint16_t id, size_t next_bytes);
  void CloseSet();
  void CloseMessage();
  void SetLength(size_t at, size_t bytes);

  uint32_t export_time_s_;
  std::vector<Template> templates_;
  std::string bytes_;
  size_t message_ = 0;  // begin of the open message
  size_t set_ = 0;      // begin of the open set; 0 for none
  uint16_t set_id_ = 0;
  uint32_t records_ = 0;  // data records of all messages
};

}  // namespace snf

#endif  // SNF_NFS_MONITOR_IPFIX_H_
