// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_NFS_IDS_EVENT_LOG_H_
#define SNF_NFS_IDS_EVENT_LOG_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "nfs/ids_connection.h"
#include "nfs/ids_events.h"
#include "nfs/ids_http_log.h"
#include "runtime/sdk/state.h"

namespace snf {

// Writes events of the chosen types into a log of the NF "ids", beside its
// alerts. Owner-thread only.
class IdsEventLog {
 public:
  // `requests` is there if HTTP is among the types.
  IdsEventLog(IdsEventTypes types, LogId log, std::optional<Blob> requests)
      : types_(types), log_(log), requests_(requests) {}

  // Begins a packet.
  void Begin() { http_.Forget(); }
  // Notes a header of HTTP that the packet has completed.
  void Note(const snort::HttpHeader& header) {
    if (requests_.has_value()) http_.Note(header);
  }
  // Logs what belongs to the packet. `anomalies` has a bit for each IdsAnomaly.
  // A packet that is lost completes no transaction.
  struct Packet {
    FlowKey ends;
    bool to_client = false;
    bool is_lost = false;
    uint32_t anomalies = 0;
  };
  void End(const Packet& packet, IdsConnection& connection, FlowState& flow);
  // Logs the end of a flow.
  void EndFlow(IdsConnection connection, std::span<const std::byte> flowbits,
               FlowState& flow);

 private:
  static IdsEventHead HeadOf(const IdsConnection& connection,
                             IdsEventHead::Kind kind);
  void LogHttp(std::string_view parts, IdsConnection& connection,
               FlowState& flow);

  IdsEventTypes types_;
  LogId log_;
  std::optional<Blob> requests_;
  IdsHttpLog http_;
};

}  // namespace snf

#endif  // SNF_NFS_IDS_EVENT_LOG_H_
