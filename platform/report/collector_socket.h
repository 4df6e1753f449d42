// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_REPORT_COLLECTOR_SOCKET_H_
#define SNF_PLATFORM_REPORT_COLLECTOR_SOCKET_H_

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "base/ipfix/ipfix_collector.h"

struct addrinfo;

namespace snf {

// A socket that is connected to a collector of IPFIX. Owner-thread only.
class CollectorSocket {
 public:
  // Connects, which may take seconds; is_open tells whether it has.
  explicit CollectorSocket(const IpfixCollector& to);
  CollectorSocket(const CollectorSocket&) = delete;
  CollectorSocket& operator=(const CollectorSocket&) = delete;
  ~CollectorSocket();

  bool is_open() const { return socket_ >= 0; }
  // Sends all bytes, over UDP as one datagram. Returns false, and error says
  // why, unless the kernel has taken all. Over UDP the error may be of an
  // earlier datagram.
  bool Send(std::string_view bytes);
  // Returns Unavailable, with the collector and the last error.
  absl::Status error() const;

 private:
  void Connect(const addrinfo& to);
  void NoteError();

  IpfixCollector to_;
  int socket_ = -1;
  std::string why_not_;
};

}  // namespace snf

#endif  // SNF_PLATFORM_REPORT_COLLECTOR_SOCKET_H_
