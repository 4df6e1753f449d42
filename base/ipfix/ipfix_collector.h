// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_BASE_IPFIX_IPFIX_COLLECTOR_H_
#define SNF_BASE_IPFIX_IPFIX_COLLECTOR_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace snf {

// A place to which IPFIX messages are sent.
struct IpfixCollector {
  static constexpr uint16_t kPort = 4'739;  // RFC 7011 §10.3.4

  // Returns true if the text is meant as a collector, not as a file.
  static bool IsMeantBy(std::string_view text) {
    return text.starts_with("udp://") || text.starts_with("tcp://");
  }
  // Reads "udp://192.0.2.9:4739" or "tcp://[2001:db8::9]", of which IsMeantBy
  // is true. Returns nothing if there is no host, or no such port.
  static std::optional<IpfixCollector> Parse(std::string_view text);
  // Returns the text, with its port.
  std::string text() const;

  std::string host;
  uint16_t port = kPort;
  bool is_udp = true;
};

}  // namespace snf

#endif  // SNF_BASE_IPFIX_IPFIX_COLLECTOR_H_
