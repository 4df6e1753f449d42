// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_NFS_MONITOR_RECORD_H_
#define SNF_NFS_MONITOR_RECORD_H_

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/ipfix/ipfix_writer.h"
#include "base/packet/flow_key.h"
#include "runtime/sdk/packet.h"

namespace snf {

// The reason for which a record ended: the element flowEndReason.
enum class FlowEnd : uint8_t { kIdle = 1, kActiveTimeout = 2, kEndSeen = 3 };

// The packets from one end to another in a span of time.
struct MonitorRecord {
  uint64_t packets = 0;
  uint64_t octets = 0;       // of IP, its header included
  uint64_t link_octets = 0;  // on the wire, the link header included
  uint64_t first_ns = 0;     // the first arrival, if there are packets
  uint64_t last_ns = 0;
  uint16_t tcp_flags = 0;  // of all packets together
  uint16_t icmp = 0;       // type and code, each 8 bits
  uint16_t vlan = 0;       // the outer tag, the highest of all; 0: none
  FlowEnd end{};
  uint8_t zero = 0;

  // Returns the record of one packet.
  static MonitorRecord Of(const Packet& packet);
  // Adds the packets of another record. Commutative and associative.
  void Add(const MonitorRecord& other);
};
static_assert(sizeof(MonitorRecord) == 48);

struct MonitorRecordKey {
  // The ends of one direction, as FiveTuple gives them; of ICMP the destination
  // port has the type and the code.
  FlowKey ends;
  uint64_t begin_ns = 0;  // of the time that the record is about
};

struct MergeMonitorRecords {
  void operator()(MonitorRecord& record, const MonitorRecord& more) const {
    record.Add(more);
  }
};

using MonitorRecords = std::vector<std::pair<MonitorRecordKey, MonitorRecord>>;

// Writes the templates and the records, in their order, by IP version and
// protocol.
void AddMonitorRecords(const MonitorRecords& records, IpfixWriter& writer);

}  // namespace snf

#endif  // SNF_NFS_MONITOR_RECORD_H_
