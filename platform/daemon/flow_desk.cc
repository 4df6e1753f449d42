// SPDX-License-Identifier: Apache-2.0
#include "platform/daemon/flow_desk.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "base/packet/flow_key_text.h"
#include "base/text/wording.h"
#include "platform/drivers/real_time/real_driver.h"
#include "platform/outcome/flow_filter.h"
#include "platform/service/daemon_log.h"

namespace snf {
namespace {

// A flow as the dispatcher copies it: its text is made elsewhere.
struct SeenFlow {
  uint32_t chain;
  FlowId id;
  FlowHot hot;
  FlowKey alias;  // of no form: it has none
  uint32_t flowlet;
  UnitId owner;
  int64_t demand_bps;
  Nanos idle;
};

bool HadPacketLater(const SeenFlow& a, const SeenFlow& b) {
  return a.idle < b.idle;
}

// The part of the chains' tables that one letter looks at.
struct Piece {
  uint32_t slots;  // at most
  uint32_t chain = 0;
  uint32_t begin = 0;
  bool is_last = false;
  std::vector<SeenFlow> flows{};
};

// Reads the flows of the piece that `selects` wants, and goes to the next.
void Read(ChainSet& chains, absl::FunctionRef<bool(const SeenFlow&)> selects,
          Piece& piece) {
  piece.flows.clear();
  const std::optional<uint32_t> number = chains.FirstFrom(piece.chain);
  piece.is_last = !number.has_value();
  if (piece.is_last) return;
  if (*number != piece.chain) piece.begin = 0;
  piece.chain = *number;
  const RealDriver& driver = *chains.FindDriver(*number);
  const Controller& controller = driver.controller();
  const FlowTable& table = controller.flows();
  const Instant now = driver.clock().Now();
  const uint32_t end = std::min(piece.begin + piece.slots, table.used());
  for (uint32_t slot = piece.begin; slot < end; ++slot) {
    const FlowCold& cold = table.cold(slot);
    if (cold.owner == kNoUnit) continue;
    const FlowHot& hot = table.hot(slot);
    Alias alias;
    const SeenFlow flow = {
        .chain = *number,
        .id = controller.IdOfSlot(slot),
        .hot = hot,
        .alias = controller.aliases().Read(slot, alias) ? alias.key : FlowKey(),
        .flowlet = table.numbers(slot).flowlet,
        .owner = cold.owner,
        .demand_bps = cold.demand_bps,
        .idle = std::max(now - hot.last_packet, Nanos{})};
    if (selects(flow)) piece.flows.push_back(flow);
  }
  piece.begin = end;
  if (end < table.used()) return;
  ++piece.chain;
  piece.begin = 0;
}

// Deletes the flows that have not ended. Leaves in `flows` each that cannot be
// deleted yet. Returns the number of deleted flows.
uint64_t DeleteAll(ChainSet& chains, std::vector<SeenFlow>& flows) {
  uint64_t deleted = 0;
  std::erase_if(flows, [&](const SeenFlow& flow) {
    RealDriver* const driver = chains.FindDriver(flow.chain);
    if (driver == nullptr) return true;
    const Controller& controller = driver->controller();
    const FlowTable& table = controller.flows();
    const uint32_t slot = slot_of(flow.id);
    const bool is_there = slot < table.used() &&
                          table.cold(slot).owner != kNoUnit &&
                          table.hot(slot).key == flow.hot.key &&
                          controller.IdOfSlot(slot) == flow.id &&
                          (table.hot(slot).flags & FlowHot::kEnding) == 0;
    if (!is_there) return true;
    const bool is_deleted = driver->DeleteFlow(flow.id);
    deleted += is_deleted ? 1 : 0;
    return is_deleted;
  });
  return deleted;
}

// The flows that a request names.
class Selection {
 public:
  // Errors: as FlowFilter::Compile.
  static absl::StatusOr<Selection> Of(const proto::FlowsRequest& request) {
    auto filter = FlowFilter::Compile(request.filter());
    if (!filter.ok()) return filter.status();
    return Selection(request, *std::move(filter));
  }

  bool operator()(const SeenFlow& flow) {
    if (unit_.has_value() && value(flow.owner) != *unit_) return false;
    if (filter_.SelectsFlow(flow.hot.key)) return true;
    return flow.alias.form != FlowKeyForm::kNone &&
           filter_.SelectsFlow(flow.alias);
  }

 private:
  Selection(const proto::FlowsRequest& request, FlowFilter filter)
      : filter_(std::move(filter)) {
    if (request.has_unit()) unit_ = request.unit();
  }

  FlowFilter filter_;
  std::optional<uint32_t> unit_;
};

void SetFlow(const SeenFlow& from, proto::Flow& to) {
  to.set_chain(from.chain);
  to.set_key(ToString(from.hot.key));
  if (from.alias.form != FlowKeyForm::kNone) {
    to.set_alias(ToString(from.alias));
  }
  to.set_unit(value(from.owner));
  to.set_clock(value(from.hot.clock));
  to.set_flowlet(from.flowlet);
  to.set_is_open((from.hot.flags & FlowHot::kOpen) != 0);
  to.set_flowlet_bytes(from.hot.flowlet_bytes);
  to.set_rate_bps(from.demand_bps);
  to.set_idle_ns(from.idle.ns);
}

}  // namespace

absl::Status FlowDesk::Answer(Deadline deadline,
                              const proto::FlowsRequest& request,
                              proto::FlowsReply& reply) {
  if (request.limit() > kMostFlows) {
    return absl::InvalidArgumentError(
        fmt::format("limit={}: want at most {}", request.limit(), kMostFlows));
  }
  auto selection = Selection::Of(request);
  if (!selection.ok()) return selection.status();
  if (request.deletes()) return Delete(deadline, request, reply);
  const size_t limit = request.limit() == 0 ? kFlows : request.limit();
  // A heap: the flow that is idle longest is first.
  std::vector<SeenFlow> latest;
  uint64_t count = 0;
  Piece piece = {.slots = kSlotsAtATime};
  piece.flows.reserve(kSlotsAtATime);
  const auto all = [](const SeenFlow&) { return true; };
  do {
    const absl::Status status =
        mailbox_.Ask([&] { Read(chains_, all, piece); }, deadline);
    if (!status.ok()) return status;
    for (const SeenFlow& flow : piece.flows) {
      if (!(*selection)(flow)) continue;
      ++count;
      latest.push_back(flow);
      std::ranges::push_heap(latest, HadPacketLater);
      if (latest.size() <= limit) continue;
      std::ranges::pop_heap(latest, HadPacketLater);
      latest.pop_back();
    }
  } while (!piece.is_last);
  std::ranges::sort_heap(latest, HadPacketLater);
  for (const SeenFlow& flow : latest) SetFlow(flow, *reply.add_flow());
  reply.set_flows(count);
  return absl::OkStatus();
}

// One letter finds a flow and deletes it: between letters another flow could
// get the slot.
absl::Status FlowDesk::Delete(Deadline deadline,
                              const proto::FlowsRequest& request,
                              proto::FlowsReply& reply) {
  if (request.filter().empty() && !request.has_unit()) {
    return absl::InvalidArgumentError(
        "to delete flows wants a filter or a unit; \"ip or ip6\" is all");
  }
  auto selection = Selection::Of(request);
  if (!selection.ok()) return selection.status();
  const size_t limit = request.limit() == 0 ? kFlows : request.limit();
  uint64_t selected = 0;
  uint64_t deleted = 0;
  std::vector<SeenFlow> left;  // they could not be deleted yet
  Piece piece = {.slots = kDeletedAtATime};
  const auto selects = [&](const SeenFlow& flow) { return (*selection)(flow); };
  const auto letter = [&] {
    Read(chains_, selects, piece);
    selected += piece.flows.size();
    for (const SeenFlow& flow : piece.flows) {
      if (static_cast<size_t>(reply.flow_size()) == limit) break;
      SetFlow(flow, *reply.add_flow());
    }
    deleted += DeleteAll(chains_, piece.flows);
    left.insert(left.end(), piece.flows.begin(), piece.flows.end());
  };
  do {
    const absl::Status status = mailbox_.Ask(letter, deadline);
    if (!status.ok()) return status;
  } while (!piece.is_last);
  const Deadline end =
      std::min(deadline, std::chrono::steady_clock::now() + kDeletesWithin);
  while (!left.empty() && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    const absl::Status status =
        mailbox_.Ask([&] { deleted += DeleteAll(chains_, left); }, deadline);
    if (!status.ok()) return status;
  }
  reply.set_flows(deleted);
  const std::string selecting = request.filter().empty()
                                    ? fmt::format("unit {}", request.unit())
                                    : Printable(request.filter());
  LogLine(LogLevel::kInfo, fmt::format("deleted {} of \"{}\"",
                                       Plural(deleted, "flow"), selecting));
  if (selected == 0) {
    return absl::FailedPreconditionError(
        fmt::format("no flow is selected by \"{}\"{}", selecting,
                    flows_before_ == 0
                        ? ""
                        : fmt::format("; the process before the upgrade had {} "
                                      "of its own, which are not looked at",
                                      Plural(flows_before_, "flow"))));
  }
  if (left.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(fmt::format(
      "{} deleted, but not {}{}: part of its state is still at another unit",
      Plural(deleted, "flow"), ToString(left.front().hot.key),
      left.size() == 1 ? "" : fmt::format(" and {} more", left.size() - 1)));
}

}  // namespace snf
