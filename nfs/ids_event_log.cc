// SPDX-License-Identifier: Apache-2.0
#include "nfs/ids_event_log.h"

namespace snf {

IdsEventHead IdsEventLog::HeadOf(const IdsConnection& connection,
                                 IdsEventHead::Kind kind) {
  return {.ends = connection.client,
          .begin_ns = connection.begin_ns,
          .kind = kind,
          .transaction = connection.transactions};
}

void IdsEventLog::LogHttp(std::string_view parts, IdsConnection& connection,
                          FlowState& flow) {
  flow.log(log_, IdsEventRecord(HeadOf(connection, IdsEventHead::kHttp),
                                std::as_bytes(std::span(parts))));
  ++connection.transactions;
}

void IdsEventLog::End(const Packet& packet, IdsConnection& connection,
                      FlowState& flow) {
  if (requests_.has_value() && !packet.is_lost) {
    http_.Join(flow, *requests_, [&](std::string_view parts) {
      LogHttp(parts, connection, flow);
    });
  }
  if (!types_.anomaly) return;
  for (uint8_t i = 0; i < kIdsAnomalies; ++i) {
    if ((packet.anomalies >> i & 1) == 0) continue;
    IdsEventHead head = HeadOf(connection, IdsEventHead::kAnomaly);
    head.ends = packet.ends;
    head.anomaly = IdsAnomaly{i};
    head.to_client = packet.to_client ? 1 : 0;
    flow.log(log_, IdsEventRecord(head));
  }
}

void IdsEventLog::EndFlow(IdsConnection connection,
                          std::span<const std::byte> flowbits,
                          FlowState& flow) {
  if (requests_.has_value()) {
    IdsHttpLog::End(flow, *requests_, [&](std::string_view parts) {
      LogHttp(parts, connection, flow);
    });
  }
  if (!types_.flow) return;
  flow.log(log_,
           IdsEventRecord(
               HeadOf(connection, IdsEventHead::kFlow),
               std::as_bytes(std::span(&connection, 1)),
               types_.flowbits ? flowbits : std::span<const std::byte>()));
}

}  // namespace snf
