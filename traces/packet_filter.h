// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_TRACES_PACKET_FILTER_H_
#define SNF_TRACES_PACKET_FILTER_H_

#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/packet/link_type.h"
#include "traces/capture_reader.h"

namespace snf {

// A filter in the language of tcpdump (pcap-filter(7)), as in
// "tcp port 80 and net 192.0.2.0/24". It looks at a frame as it was captured:
// behind VLAN tags only if the text says `vlan`. A BSD loopback header counts
// as IPv4 or IPv6 by the numbers of all systems, in either byte order, where
// libpcap knows those of this host alone. Owner-thread only.
class PacketFilter {
 public:
  // Checks and compiles the text. Errors: kInvalidArgument with the text and
  // libpcap's message.
  static absl::StatusOr<std::unique_ptr<PacketFilter>> Compile(
      const std::string& text);
  ~PacketFilter();
  PacketFilter(const PacketFilter&) = delete;
  PacketFilter& operator=(const PacketFilter&) = delete;

  // Returns true if the packet passes. The first packet of a link type compiles
  // the text for that type; if it makes no sense there (as `ether host` in raw
  // IP), the call returns false and sets status() to an error.
  bool Passes(const CapturedPacket& packet);
  const absl::Status& status() const { return status_; }

 private:
  struct Program;

  explicit PacketFilter(std::string text);
  absl::Status CompileFor(LinkType link);
  // Returns the loopback frame as this host would have captured it; valid until
  // the next call.
  std::span<const std::byte> AsOfThisHost(std::span<const std::byte> frame);

  std::string text_;
  std::array<std::unique_ptr<Program>, kLinkTypes> programs_;  // by LinkType
  std::vector<std::byte> frame_;
  absl::Status status_;
};

}  // namespace snf

#endif  // SNF_TRACES_PACKET_FILTER_H_
