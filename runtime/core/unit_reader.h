// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RUNTIME_CORE_UNIT_READER_H_
#define SNF_RUNTIME_CORE_UNIT_READER_H_

#include <cstdint>
#include <optional>

#include "base/ids.h"
#include "base/messages/failure_messages.h"
#include "base/messages/messages.h"
#include "base/messages/report_messages.h"
#include "runtime/core/flow_record.h"
#include "runtime/core/flow_store.h"
#include "runtime/core/nf_calls.h"
#include "runtime/core/packet_nodes.h"

namespace snf {

// Reads what a unit keeps, for a controller after a failure of another unit
// (proto/protocol.md F3), and for a new controller (F9). Changes nothing, and
// must not outlive a change of the unit.
class UnitReader {
 public:
  // Takes what a unit reports to a new controller.
  class Report {
   public:
    virtual void on_flow(const FlowReport& flow) = 0;
    virtual void on_packet(const PacketReport& packet) = 0;
    // A packet was processed, and waits for the alias that on_open_alias names.
    virtual void on_parked(const PacketReport& /*packet*/) {}
    virtual void on_open_alias(const Alias& alias) = 0;
    virtual void on_open_request(const PieceRequest& request) = 0;

   protected:
    ~Report() = default;
  };

  UnitReader(UnitId id, const FlowStore& flows, const NfCalls& nf)
      : id_(id), flows_(flows), nf_(nf) {}

  // As Unit::NextDone.
  std::optional<DoneAnswer> NextDone(uint32_t& at) const;
  // Returns true if the logger has a record of a flow that waits for its alias.
  bool has_parked() const;

  // Report flows; packets of a list, or a single packet, that have not run; and
  // open requests for pieces, with the packets that wait for these.
  void ReportFlows(Report& report) const;
  void ReportPackets(const PacketList& list, Report& report) const;
  void ReportPacket(uint32_t node, Report& report) const;
  void ReportRequests(Report& report) const;

 private:
  static constexpr uint32_t kNone = FlowStore::kNone;

  void ReportFlow(uint32_t slot, Report& report) const;
  PacketReport ReportOf(const PacketNode& node) const;

  UnitId id_;
  const FlowStore& flows_;
  const NfCalls& nf_;
};

}  // namespace snf

#endif  // SNF_RUNTIME_CORE_UNIT_READER_H_
