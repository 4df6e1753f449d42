// SPDX-License-Identifier: Apache-2.0
#include "nfs/ids_connection.h"

#include "base/packet/l4_headers.h"

namespace snf {
namespace {

using Tcp = TcpHeader<const std::byte>;

// The first packet goes to the server, unless its flags or ports say otherwise.
bool IsAnswer(const IdsConnection::Packet& packet) {
  if (!packet.segment.has_value()) return false;
  if (packet.segment->has(Tcp::kSyn)) return packet.segment->has(Tcp::kAck);
  return packet.ends.source_port.host() < 1'024 &&
         packet.ends.destination_port.host() >= 1'024;
}

}  // namespace

bool IdsConnection::Add(const Packet& packet) {
  const FlowKey& ends = packet.ends;
  if (all_packets() == 0) {
    begin_ns = packet.time_ns;
    client = IsAnswer(packet) ? Reversed(ends) : ends;
  }
  const bool to_server =
      ends.source == client.source && (client.source != client.destination ||
                                       ends.source_port == client.source_port);
  const size_t side = to_server ? 0 : 1;
  ++packets[side];
  bytes[side] += packet.bytes;
  end_ns = packet.time_ns;
  if (!to_server) seen |= kServerSpoke;
  return to_server;
}

}  // namespace snf
