// SPDX-License-Identifier: Apache-2.0
#include "platform/real_time/real_driver.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "base/check.h"
#include "platform/run/service_model.h"
#include "platform/run/table_ends.h"
#include "platform/run/unit_calls.h"

namespace snf {
RealDriver::RealDriver(const RunOptions& options, const RealOptions& real,
                       const PlacementPolicy& policy, const NfSpec& nf,
                       RunObserver* sink, SharedRegion region,
                       BufferPool buffers)
    : options_(options),
      real_(real),
      nf_(nf),
      example_(nf.create()),
      schema_(example_->schema()),
      sink_(sink),
      region_(std::move(region)),
      buffers_(std::move(buffers)),
      pace_(real.speed),
      ingress_(options, example_->flow_scope() == FlowScope::kInsideEndpoint,
               buffers_),
      controller_(options.controller, policy),
      tables_(*example_, options.controller.max_units, TableOptionsOf(options)),
      order_(options.controller.max_flows),
      provisioning_(options.controller.unit_capacity_bps,
                    options.controller.max_units) {
  for (const std::string_view name : example_->drop_reasons()) {
    result_.nf_drop_names.emplace_back(name);
  }
  result_.nf_dropped.resize(result_.nf_drop_names.size());
  result_.aliases.has_sides =
      example_->flow_scope() == FlowScope::kInsideEndpoint;
  result_.aliases.pools = static_cast<uint32_t>(example_->pools().size());
  for (const NetworkFunction::Pool& pieces : example_->pools()) {
    controller_.AddPiecePool(pieces.first, pieces.last);
  }
  if (result_.aliases.has_sides) {
    under_way_ =
        LazyArray<uint64_t>(options.controller.max_flows, Pages::kGrowing);
  }
  provisioning_.Reserve(Seconds(3'600));
  starting_.reserve(options.controller.max_units);
  if (!real.unpaced) {
    constexpr uint32_t kMaxPacket = 65'535;
    const Nanos service = ServiceModel(options.controller.unit_capacity_bps)
                              .ServiceTime(kMaxPacket);
    patience_.ns +=
        std::max({options.unit_start_delay, options.warm_start_delay, service})
            .ns;
  }
  if (real.live != nullptr) {
    latency_times_ = std::make_unique<LiveTimes>();
    late_times_ = std::make_unique<LiveTimes>();
  }
  const auto most = [&options](uint32_t of_size) {
    return std::max(std::min({options.controller.unit_queue_packets,
                              options.controller.start_buffer_packets,
                              options.hold_packets, of_size}),
                    1u);
  };
  most_under_way_ = {most(real.buffers.small), most(real.buffers.medium),
                     most(real.buffers.large)};
  batch_.reserve(2 * kBatch);
}

RealDriver::~RealDriver() {
  for (Crew& crew : crews_) {
    crew.worker->Stop();
    if (crew.thread.joinable()) crew.thread.join();
  }
}

void RealDriver::Offer(const CapturedPacket& captured) {
  if (result_.packets_in == 0) {
    result_.first_packet = captured.time;
    clock_.Start(captured.time);
    now_ = clock_.Now();
    began_ = now_;
    if (real_.live != nullptr) next_live_ = now_;
  } else if (captured.time < last_captured_) {
    ++result_.late_packets;
  }
  last_captured_ = captured.time;
  Instant arrival = now_;
  if (pace_.has_schedule()) {
    arrival = pace_.Due(captured.time, captured.original_bytes);
    if (arrival > now_) now_ = clock_.Now();
    if (arrival > now_) WaitUntil(arrival);
    if (arrival > now_) arrival = now_;  // interrupted
    result_.real.schedule_error_ns.Record((now_ - arrival).ns);
  }
  if (real_.wait_for_room) {
    WaitForRoom(captured);
    if (!pace_.has_schedule()) arrival = now_;
  }
  ++result_.packets_in;
  result_.bytes_in += captured.original_bytes;
  result_.last_packet = arrival;
  Take(arrival, captured);
  if (batch_.size() < kBatch) return;
  HandleBatch();
  Turn();
}

void RealDriver::WaitUntil(Instant due) {
  HandleBatch();
  while (true) {
    const bool did = Turn();
    const Nanos left = due - now_;
    if (left.ns <= 0 || is_interrupted()) return;
    // And look again whether it is.
    if (!did) Rest(std::min(left, Milliseconds(100)));
  }
}

// So many packets may be under way that none is dropped for want of room.
void RealDriver::WaitForRoom(const CapturedPacket& captured) {
  const auto& sizes = BufferPool::kBufferBytes;
  const size_t length = captured.bytes.size();
  const size_t buffer = length <= sizes[0] ? 0 : length <= sizes[1] ? 1 : 2;
  const auto is_full = [&] {
    return in_channels_ + batch_.size() >= most_under_way_[buffer];
  };
  if (!is_full()) return;
  HandleBatch();
  const Instant begin = clock_.Now();
  while (is_full() && now_ - begin < patience_ && !is_interrupted()) {
    if (!Turn()) Rest(Nanos{});
  }
}

void RealDriver::Take(Instant arrival, const CapturedPacket& captured) {
  using Fate = Ingress::Taken::Fate;
  // It becomes what TakeAgain returns.
  const Ingress::Taken& taken = ingress_.Take(arrival, captured);
  if (taken.fate == Fate::kPassesThrough) {
    PassThrough(captured);
    return;
  }
  if (taken.fate == Fate::kDropped && real_.wait_for_room &&
      WaitForCause(taken)) {
    ingress_.TakeAgain(arrival, captured);
  }
  provisioning_.on_offered(now_, captured.original_bytes);
  if (taken.fate == Fate::kDropped) {
    CountDrop(taken.reason);
    if (sink_ != nullptr) {
      sink_->on_drop(ReleasedPacket::Of(now_, captured),
                     ToString(taken.reason));
    }
    return;
  }
  Arrive(taken, arrival, captured.original_bytes);
}

// A packet was dropped for what packets under way may change: for want of a
// buffer, or of an alias that its flow may be about to get. Waits until they
// are through; false if there are none.
bool RealDriver::WaitForCause(const Ingress::Taken& taken) {
  const bool wants_alias = taken.reason == DropReason::kNotTranslated;
  if (!wants_alias && taken.reason != DropReason::kBufferPoolEmpty)
    return false;
  HandleBatch();
  const uint64_t* under_way = &in_channels_;
  if (wants_alias) {
    const FlowTable& flows = controller_.flows();
    const uint32_t slot = flows.Find(*taken.flow, flows.HashOf(*taken.flow));
    if (slot == FlowTable::kNone) return false;
    under_way = &under_way_[slot];
  }
  if (*under_way == 0) return false;
  uint64_t left = *under_way;
  Instant last_move = clock_.Now();  // now_ may be long ago
  while (*under_way > 0 && now_ - last_move < patience_ && !is_interrupted()) {
    if (!Turn()) Rest(Nanos{});
    if (std::exchange(left, *under_way) != *under_way) last_move = now_;
  }
  return true;
}

void RealDriver::PassThrough(const CapturedPacket& captured) {
  ++result_.packets_passed_through;
  if (options_.check) digest_.Add(kNoFlow, captured.bytes);
  if (sink_ != nullptr) sink_->on_release(ReleasedPacket::Of(now_, captured));
}

void RealDriver::Arrive(const Ingress::Taken& taken, Instant arrival,
                        uint32_t original_length) {
  batch_.emplace_back(*taken.key, arrival, original_length, taken.packet,
                      taken.by_alias);
  controller_.Expect(batch_);
  result_.aliases.packets_offered += taken.by_alias ? 1 : 0;
}

void RealDriver::HandleBatch() {
  for (size_t done = 0; done < batch_.size();) {
    out_.clear();
    done += controller_.on_packets(now_, std::span(batch_).subspan(done), out_);
    ExecuteAll();
  }
  batch_.clear();
  FlushAll();
}

bool RealDriver::FlushAll() {
  bool all = true;
  for (Crew& crew : crews_) all &= crew.out.Flush();
  return all;
}

// What the workers have sent, and what is due: whether there was anything.
bool RealDriver::Turn() {
  for (Crew& crew : crews_) {
    if (!crew.thread.joinable()) crew.worker->Turn();
    crew.in.Receive();
  }
  // Workers set out with it before: no packet is released before it was run.
  now_ = clock_.Now();
  if (now_ >= next_live_) PublishLive();
  size_t messages = 0;
  for (Crew& crew : crews_) {
    messages += crew.in.Handle(
        RealWorker::PayloadBytesToFront,
        [this](const Cell& cell, std::span<const std::byte> payload) {
          if (!cell.is_table()) {
            Handle(cell.As<UnitCommand>(), payload);
          } else {
            on_table(LoadAs<TableMessage>(payload.data()));
          }
        });
  }
  ReportDrained();
  const bool is_due = now_ >= NextTimer();
  if (is_due) {
    FinishStarts();
    out_.clear();
    controller_.on_timers(now_, out_);
    ExecuteAll();
    for (size_t table = 0; table < tables_.size(); ++table) {
      tables_.on_timers(now_, table, [this](const TableMessage& message) {
        SendToUnit(message);
      });
    }
  }
  if (!batch_.empty() && messages > 0) HandleBatch();  // some came back
  FlushAll();
  return messages > 0 || is_due;
}

// Until a worker has sent something, for `left` at the most.
void RealDriver::Rest(Nanos left) {
  const auto has_items = [this] {
    return std::ranges::any_of(crews_,
                               [](Crew& crew) { return crew.in.has_items(); });
  };
  // Below that a sleep takes longer.
  constexpr Nanos kShort = Microseconds(100);
  const bool has_threads = crews_.front().thread.joinable();
  // Of its own thread's workers nothing is heard until they get a turn.
  const Nanos most =
      std::min(left, (has_threads ? NextTimer() : NextDue()) - now_);
  if (most < kShort) {
    if (has_threads) std::this_thread::yield();
    return;
  }
  bell_->Wait(has_items, {most.ns - kShort.ns / 2},
              has_threads ? Doorbell::kSpins : 0);
}

void RealDriver::CountDrop(DropReason reason) {
  ++result_.dropped[static_cast<size_t>(reason)];
  provisioning_.on_dropped(now_);
}

void RealDriver::ShowDrop(PacketHandle packet, const PacketRoute& route,
                          std::string_view reason) {
  if (sink_ == nullptr) return;
  sink_->on_drop(ReleasedPacket::Of(now_, buffers_, packet, route), reason);
}

void RealDriver::Violation(std::string what) {
  ++result_.violations;
  constexpr size_t kMostMessages = 10;
  if (result_.violation_messages.size() < kMostMessages) {
    result_.violation_messages.push_back(std::move(what));
  }
}

void RealDriver::ExecuteAll() {
  for (const ControllerCommand& command : out_.commands()) {
    if (command.kind == ControllerCommand::Kind::kEnqueue) [[likely]] {
      ++in_channels_;
      if (under_way_.size() > 0) ++under_way_[slot_of(command.meta.flow)];
      order_.Prefetch(command.meta.flow);
      Send(command);
    } else {
      Execute(command);
    }
  }
}

void RealDriver::Execute(const ControllerCommand& command) {
  using Kind = ControllerCommand::Kind;
  switch (command.kind) {
    case Kind::kDrop:
      by_alias_lost_ += command.reason == DropReason::kNoAlias ? 1 : 0;
      CountDrop(command.reason);
      ShowDrop(command.packet,
               {.latency = now_ - buffers_.info(command.packet).arrival},
               ToString(command.reason));
      Free(command.packet);
      return;
    case Kind::kStartUnit:
      provisioning_.on_unit_up(now_, command.unit);
      ++(command.warm ? result_.warm_starts : result_.cold_starts);
      StartUnit(command);
      return;
    case Kind::kParkUnit:
      provisioning_.on_unit_down(now_, command.unit);
      break;
    case Kind::kEndFlow:
      ingress_.ForgetAlias(command.end.flow, command.end.last);
      order_.End(command.end.flow, command.end.last);
      break;
    default:
      break;
  }
  Send(command);
}

void RealDriver::StartUnit(const ControllerCommand& command) {
  const Nanos delay =
      command.warm ? options_.warm_start_delay : options_.unit_start_delay;
  if (real_.unpaced || delay.ns == 0) {
    FinishStart(command);
    return;
  }
  starting_.push_back({.ready = now_ + delay, .command = command});
  next_ready_ = std::min(next_ready_, starting_.back().ready);
}

void RealDriver::FinishStart(const ControllerCommand& command) {
  Send(command);
  // Its thread runs: what follows in the link finds it started.
  controller_.on_unit_ready(now_, command.unit);
}

void RealDriver::FinishStarts() {
  if (now_ < next_ready_) return;
  const auto is_ready = [this](const UnitStart& start) {
    return start.ready <= now_;
  };
  for (const UnitStart& start : starting_) {
    if (is_ready(start)) FinishStart(start.command);
  }
  std::erase_if(starting_, is_ready);
  next_ready_ = Instant::max();
  for (const UnitStart& start : starting_) {
    next_ready_ = std::min(next_ready_, start.ready);
  }
}

void RealDriver::Send(const ControllerCommand& command) {
  link_to_[value(command.unit)]->Send(command);
}

Instant RealDriver::NextDue() const {
  Instant due = NextTimer();
  for (const Crew& crew : crews_) {
    due = std::min(due, Instant{crew.worker->progress().next_due.load()});
  }
  return due;
}

// Whether nothing is under way and nothing is due. What was received is counted
// first: if that is all that was sent, be it later, no message was in between.
bool RealDriver::IsQuiet() {
  uint64_t received = 0;
  uint64_t sent = 0;
  for (const Crew& crew : crews_) {
    received += crew.in.received() + crew.worker->progress().received.load();
  }
  const bool is_due = NextDue() <= clock_.Now();
  for (const Crew& crew : crews_) {
    sent += crew.out.sent() + crew.worker->progress().sent.load();
  }
  return received == sent && !is_due && batch_.empty();
}

// Until nothing moves: whether all packets are out of the units then.
bool RealDriver::Settle() {
  HandleBatch();
  Instant last_move = RealClock::Monotonic();
  while (in_channels_ > 0 || !IsQuiet()) {
    const uint64_t left = in_channels_;
    const bool did = Turn();
    // Timers go on for as long as a packet is in a unit: they move none.
    if (in_channels_ != left || (did && left == 0)) {
      last_move = RealClock::Monotonic();
    } else if (RealClock::Monotonic() - last_move > patience_) {
      return false;
    }
    if (!did) Rest(starting_.empty() ? Nanos{} : Milliseconds(1));
  }
  return true;
}

RunResult RealDriver::Finish() {
  if (result_.packets_in == 0) clock_.Start(Instant{});
  bool is_over = Settle();
  if (!is_over) {
    Violation(fmt::format("{} packets never left their units", in_channels_));
  }
  result_.real.wall = clock_.Now() - began_;
  if (real_.live != nullptr) PublishLive();
  next_live_ = Instant::max();  // time skips from here on
  // A step as long as this lets many flows end at once.
  constexpr Nanos kStep = Milliseconds(10);
  while (is_over && NextDue() != Instant::max()) {
    clock_.SkipTo(NextDue() + kStep);
    for (const Crew& crew : crews_) crew.worker->Wake();
    is_over = Settle();
  }
  if (is_over && order_.waiting() + order_.earlier() > 0) {
    Violation(
        fmt::format("I3: {} packets wait for clocks that never ended, of "
                    "flows of which {} have lost their slot",
                    order_.waiting(), order_.earlier()));
  }
  for (Crew& crew : crews_) {
    crew.worker->Stop();
    if (!crew.thread.joinable()) continue;
    crew.thread.join();
    ++result_.real.threads;
  }
  ++result_.real.threads;
  provisioning_.on_end(now_);
  Collect();
  return std::move(result_);
}

void RealDriver::Collect() {
  result_.controller = controller_.counters();
  result_.classifier = ingress_.counters();
  result_.aliases.packets_found =
      result_.aliases.packets_offered - by_alias_lost_;
  for (const NetworkFunction::Part& part : example_->parts()) {
    for (const NetworkFunction::CounterInfo& info : part.nf->counters()) {
      result_.nf_counters.push_back(
          {.nf = std::string(part.name), .name = info.name, .help = info.help});
    }
  }
  for (const Crew& crew : crews_) {
    crew.worker->AddTo(result_);
  }
  std::vector<const UnitTables*> tables;
  for (uint32_t unit = 0; unit < options_.controller.max_units; ++unit) {
    const UnitId id{static_cast<uint16_t>(unit)};
    tables.push_back(crews_[unit % crews_.size()].worker->tables(id));
  }
  tables_.Finish(tables, *example_, result_);
  for (const NetworkFunction::Part& part : example_->parts()) {
    NfReport report = part.nf->report();
    if (report.tables.empty() && report.files.empty()) continue;
    result_.nf_reports.push_back(
        {.nf = std::string(part.name), .report = std::move(report)});
  }
  result_.state.pulls -= result_.state.units.pulls_repeated;
  result_.units_max = provisioning_.units_max();
  result_.units_mean_1000 = provisioning_.units_mean_1000();
  result_.utilisation_1000 = provisioning_.utilisation();
  result_.epochs = provisioning_.samples();
  result_.digest = digest_.value();
}

uint32_t RealDriver::buffers_in_use() const {
  uint32_t sum = buffers_.in_use();
  for (const Crew& crew : crews_) sum += crew.worker->buffers_in_use();
  return sum;
}

}  // namespace snf
