// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_NFS_LB_PROBE_H_
#define SNF_NFS_LB_PROBE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/byte_order.h"
#include "nfs/lb_health_options.h"
#include "runtime/sdk/packet.h"

namespace snf {

// Theory of operation. A health check is a TCP connection of the load
// balancer's own to a server, from LbHealthOptions::source. No unit keeps
// anything of it: the port names the round, and the sequence number is a hash
// of server and round, so each answer says to which check it belongs.
//
//   check=tcp    SYN ►  ◄ SYN ACK  RST ►
//   check=http   SYN ►  ◄ SYN ACK  ACK "GET /…" ►  ◄ "HTTP/1.1 200 …"  RST ►
//
// Nothing is sent twice: a segment that is lost fails the check.

// The meaning of a server's answer for a check.
enum class LbAnswer : uint8_t {
  kNone,     // none: late, of no check, or without data
  kOpen,     // the connection is open, and the request is to be sent
  kPassed,   // the check has passed, and the connection is to be reset
  kFailed,   // another answer; the connection is to be reset as well
  kRefused,  // by a reset
};

// The bytes of a request.
std::string LbRequest(const LbHealthOptions& options);

// A segment of a check, framed as another packet was.
class LbProbe {
 public:
  // The longest request.
  static constexpr size_t kMaxRequestBytes = 300;

  // The SYN of a round's check, beside another packet, whose way it goes: on,
  // or back to where the packet comes from. frame() is empty if the packet's
  // link header cannot serve.
  enum class Way : uint8_t { kOn, kBack };
  static LbProbe Syn(const Packet& beside, Way way, const LbEnd& server,
                     const IpAddress& source, uint64_t round);
  // The answer to a segment of a server: the request, or a reset if it is
  // empty.
  static LbProbe Answer(const Packet& segment, std::string_view request);

  std::span<const std::byte> frame() const {
    return std::span(bytes_).first(size_);
  }

 private:
  LbProbe() = default;
  void WriteIp(const Packet& like, size_t link_bytes, const IpAddress& from,
               const IpAddress& to, size_t payload_bytes);
  void WriteTcp(const IpAddress& from, const IpAddress& to, be16 from_port,
                be16 to_port, uint32_t sequence,
                std::optional<uint32_t> acknowledgement, uint8_t flags,
                std::string_view payload);

  std::array<std::byte, 36 + 40 + 20 + kMaxRequestBytes> bytes_{};
  size_t size_ = 0;
};

// Says what a segment from `server` to the checks' address means, and sets the
// round of its check. `now` is the round of its arrival.
LbAnswer ReadLbAnswer(const Packet& segment, const LbEnd& server, uint64_t now,
                      const LbHealthOptions& options, uint64_t& round);

}  // namespace snf

#endif  // SNF_NFS_LB_PROBE_H_
