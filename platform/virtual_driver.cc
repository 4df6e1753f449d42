// SPDX-License-Identifier: Apache-2.0
#include "platform/virtual_driver.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "base/check.h"

namespace snf {

// Something that happens at a later time.
struct VirtualDriver::Event {
  enum class Kind : uint8_t {
    kPacketAtUnit,
    kServiceEnd,
    kRelease,
    kPullAtUnit,
    kStateAtUnit,
    kEndFlowAtUnit,
    kStopAtUnit,
    kUnitReady,
    kNfTimer,
  };
  Kind kind{};
  bool generated = false;  // of kRelease: the NF made the packet
  UnitId unit = kNoUnit;
  PacketHandle packet = kNoPacket;
  union {
    PacketMeta meta{};
    Pull pull;
    State state;
    EndFlow end;
  };

  static Event OfUnit(Kind kind, UnitId unit) {
    return {.kind = kind, .unit = unit, .meta = {}};
  }
};

// A unit and what surrounds it in this driver.
struct VirtualDriver::UnitShell {
  Unit unit;
  std::unique_ptr<NetworkFunction> nf;
  bool ready = false;
  Instant nf_timer = Instant::max();  // the earliest kNfTimer under way
};

VirtualDriver::VirtualDriver(const RunOptions& options,
                             const PlacementPolicy& policy,
                             const NfRegistration& nf, ReleaseSink* sink,
                             RunObserver* observer)
    : options_(options),
      nf_(nf),
      sink_(sink),
      observer_(observer),
      classifier_(options.flow),
      pool_(options.buffers),
      controller_(options.controller, policy),
      service_(options.controller.unit_capacity_bps),
      events_(std::make_unique<EventQueue<Event>>()),
      units_(options.controller.max_units),
      provisioning_(options.controller.unit_capacity_bps,
                    options.controller.max_units) {
  controller_.set_decision_observer(observer);
  const std::unique_ptr<NetworkFunction> example = nf.create();
  SNF_CHECK(example->drop_reasons().size() <= NetworkFunction::kMaxDropReasons);
  for (const std::string_view name : example->drop_reasons()) {
    result_.nf_drop_names.emplace_back(name);
  }
  result_.nf_dropped.resize(result_.nf_drop_names.size());
}

VirtualDriver::~VirtualDriver() = default;

void VirtualDriver::Offer(const CapturedPacket& captured) {
  if (result_.packets_in == 0) {
    result_.first_packet = captured.time;
  } else if (captured.time < result_.last_packet) {
    ++result_.late_packets;
  }
  const Instant arrival = std::max(captured.time, now_);
  RunUntil(arrival);
  now_ = arrival;
  ++result_.packets_in;
  result_.bytes_in += captured.original_bytes;
  result_.last_packet = arrival;

  ParsedPacket headers;
  FlowKey key;
  const Direction direction = classifier_.Classify(
      arrival, captured.link, captured.bytes, headers, key);
  if (direction == Direction::kNone) {
    ++result_.packets_passed_through;
    digest_.Add(kNoFlow, captured.bytes);
    if (sink_ != nullptr) {
      sink_->OnRelease({.time = arrival,
                        .bytes = captured.bytes,
                        .original_length = captured.original_bytes,
                        .link = captured.link});
    }
    return;
  }
  provisioning_.OnOffered(arrival, captured.original_bytes);
  if (observer_ != nullptr) {
    observer_->OnArrival(arrival, key, captured.original_bytes);
  }
  const auto length = static_cast<uint32_t>(captured.bytes.size());
  const PacketHandle packet = pool_.Allocate(length);
  if (packet == kNoPacket) {
    const DropReason reason = length > BufferPool::kMaxPacketBytes
                                  ? DropReason::kPacketTooLarge
                                  : DropReason::kBufferPoolEmpty;
    CountDrop(kNoFlow, Clock{}, reason);
    return;
  }
  std::memcpy(pool_.room(packet).data(), captured.bytes.data(), length);
  pool_.info(packet) = {.arrival = arrival,
                        .length = length,
                        .original_length = captured.original_bytes,
                        .headers = headers,
                        .link = captured.link};
  const Arrival arrived = {.key = key,
                           .time = arrival,
                           .original_length = captured.original_bytes,
                           .packet = packet};
  controller_out_.clear();
  SNF_CHECK(controller_.on_packets(now_, {&arrived, 1}, controller_out_) == 1);
  for (const ControllerCommand& command : controller_out_.commands()) {
    Execute(command);
  }
}

RunResult VirtualDriver::Finish() {
  RunUntil(Instant::max());
  provisioning_.OnEnd(now_);
  if (options_.check) checker_.OnEnd(now_);
  result_.violations = checker_.violations();
  result_.violation_messages = checker_.messages();
  result_.controller = controller_.counters();
  result_.classifier = classifier_.counters();
  result_.cold_starts = controller_.pool().cold_starts();
  result_.warm_starts = controller_.pool().warm_starts();
  result_.units_max = provisioning_.units_max();
  result_.units_mean_1000 = provisioning_.units_mean_1000();
  result_.utilisation_1000 = provisioning_.utilisation();
  result_.epochs = provisioning_.samples();
  result_.digest = digest_.value();
  return std::move(result_);
}

void VirtualDriver::RunUntil(Instant time) {
  while (true) {
    const Instant event = events_->next_time();
    const Instant timer = controller_.next_wakeup();
    const Instant next = std::min(event, timer);
    // Times saturate: an event may be due at the last instant, a timer never.
    if (next > time || (events_->empty() && timer == Instant::max())) return;
    // At the end packets that nothing is under way to move would wait for ever,
    // and their units with them. The checker says which.
    if (time == Instant::max() && events_->empty() && pool_.in_use() > 0) {
      return;
    }
    now_ = std::max(now_, next);
    ++events_handled_;
    if (event <= timer) {
      Handle(events_->Pop());
    } else {
      controller_out_.clear();
      controller_.on_timers(now_, controller_out_);
      for (const ControllerCommand& command : controller_out_.commands()) {
        Execute(command);
      }
    }
  }
}

void VirtualDriver::Execute(const ControllerCommand& command) {
  using Kind = ControllerCommand::Kind;
  const Instant after_hop = now_ + options_.hop_delay;
  switch (command.kind) {
    case Kind::kEnqueue:
      if (options_.check) checker_.OnEnqueue(now_, command.meta);
      if (observer_ != nullptr) {
        observer_->OnEnqueue(now_, command.unit, command.meta);
      }
      events_->PushInOrder(after_hop, {.kind = Event::Kind::kPacketAtUnit,
                                       .unit = command.unit,
                                       .packet = command.packet,
                                       .meta = command.meta});
      break;
    case Kind::kDrop:
      CountDrop(kNoFlow, Clock{}, command.reason);
      pool_.Free(command.packet);
      break;
    case Kind::kStartUnit:
      provisioning_.OnUnitUp(now_, command.unit);
      events_->Push(now_ + (command.warm ? options_.warm_start_delay
                                         : options_.unit_start_delay),
                    Event::OfUnit(Event::Kind::kUnitReady, command.unit));
      break;
    case Kind::kParkUnit:
      provisioning_.OnUnitDown(now_, command.unit);
      Shell(command.unit).ready = false;
      break;
    case Kind::kStopUnit:
      events_->PushInOrder(
          after_hop, Event::OfUnit(Event::Kind::kStopAtUnit, command.unit));
      break;
    case Kind::kEndFlow:
      events_->PushInOrder(after_hop, {.kind = Event::Kind::kEndFlowAtUnit,
                                       .unit = command.unit,
                                       .end = command.end});
      break;
  }
}

void VirtualDriver::Handle(const Event& event) {
  if (event.kind == Event::Kind::kRelease) {
    Release(event);
    return;
  }
  UnitShell& shell = Shell(event.unit);
  switch (event.kind) {
    case Event::Kind::kServiceEnd:
      EndService(shell);
      break;
    case Event::Kind::kUnitReady:
      controller_.on_unit_ready(now_, event.unit);
      shell.ready = true;
      break;
    default:
      HandleAtUnit(event, shell);
      break;
  }
  Serve(shell);
}

void VirtualDriver::HandleAtUnit(const Event& event, UnitShell& shell) {
  unit_out_.clear();
  switch (event.kind) {
    case Event::Kind::kPacketAtUnit:
      shell.unit.on_packet(event.packet, event.meta);
      return;
    case Event::Kind::kPullAtUnit:
      if (observer_ != nullptr) {
        observer_->OnPull(now_, event.unit, event.pull);
      }
      shell.unit.on_pull(event.pull, unit_out_);
      break;
    case Event::Kind::kStateAtUnit:
      if (observer_ != nullptr) {
        observer_->OnState(now_, event.unit, event.state);
      }
      shell.unit.on_state(event.state, unit_out_);
      ScheduleNfTimer(shell);
      break;
    case Event::Kind::kEndFlowAtUnit:
      shell.unit.on_end_flow(event.end, unit_out_);
      break;
    case Event::Kind::kStopAtUnit:
      shell.unit.on_stop(unit_out_);
      break;
    case Event::Kind::kNfTimer:
      // Outdated by an earlier one, which has scheduled what comes next.
      if (now_ < shell.nf_timer) return;
      shell.nf_timer = Instant::max();
      shell.unit.on_timers(now_, {*shell.nf, pool_}, unit_out_);
      ScheduleNfTimer(shell);
      break;
    default:
      SNF_CHECK(false);
  }
  ExecuteAll(shell);
}

void VirtualDriver::Serve(UnitShell& shell) {
  if (!shell.ready || shell.unit.busy()) return;
  Unit::Next next = Unit::Next::kAgain;
  while (next == Unit::Next::kAgain) {
    unit_out_.clear();
    next = shell.unit.begin(unit_out_);
    ExecuteAll(shell);
  }
  result_.held_packets_max =
      std::max(result_.held_packets_max, shell.unit.held_packets());
  if (next == Unit::Next::kIdle) return;
  const PacketMeta& meta = shell.unit.in_service();
  if (options_.check) checker_.OnServiceBegin(now_, shell.unit.id(), meta);
  if (observer_ != nullptr) {
    observer_->OnServiceBegin(now_, shell.unit.id(), meta);
  }
  events_->Push(now_ + service_.ServiceTime(meta.original_length),
                Event::OfUnit(Event::Kind::kServiceEnd, shell.unit.id()));
}

void VirtualDriver::EndService(UnitShell& shell) {
  if (options_.check) {
    checker_.OnServiceEnd(now_, shell.unit.id(), shell.unit.in_service());
  }
  unit_out_.clear();
  shell.unit.finish(now_, {*shell.nf, pool_}, unit_out_);
  ExecuteAll(shell);
  ScheduleNfTimer(shell);
}

void VirtualDriver::ExecuteAll(UnitShell& shell) {
  for (const UnitCommand& command : unit_out_.commands()) {
    Execute(shell, command);
  }
}

void VirtualDriver::Execute(UnitShell& shell, const UnitCommand& command) {
  using Kind = UnitCommand::Kind;
  const Instant after_hop = now_ + options_.hop_delay;
  const UnitId self = shell.unit.id();
  switch (command.kind) {
    case Kind::kRelease:
    case Kind::kEmit: {
      // The release stage is null: what a unit lets go is released a hop later.
      const bool generated = command.kind == Kind::kEmit;
      result_.packets_generated += generated ? 1 : 0;
      events_->PushInOrder(after_hop, {.kind = Event::Kind::kRelease,
                                       .generated = generated,
                                       .unit = self,
                                       .packet = command.packet,
                                       .meta = command.meta});
      if (!generated) Drained(self, command.meta.original_length);
      break;
    }
    case Kind::kNfDrop:
      ++result_.nf_dropped[command.nf_reason];
      NotifyDrop(command.meta.flow, command.meta.clock,
                 result_.nf_drop_names[command.nf_reason]);
      Take(self, command);
      break;
    case Kind::kDrop:
      CountDrop(command.meta.flow, command.meta.clock, command.reason);
      Take(self, command);
      break;
    case Kind::kConsume:
      ++result_.packets_consumed;
      if (observer_ != nullptr) observer_->OnConsumed(now_, command.meta);
      Take(self, command);
      break;
    case Kind::kSendPull:
      ++result_.state_pulls;
      events_->PushInOrder(after_hop, {.kind = Event::Kind::kPullAtUnit,
                                       .unit = command.unit,
                                       .pull = command.pull});
      break;
    case Kind::kSendState:
      events_->PushInOrder(after_hop, {.kind = Event::Kind::kStateAtUnit,
                                       .unit = command.unit,
                                       .state = command.state});
      break;
    case Kind::kStopped:
      controller_.on_unit_stopped(self);
      break;
  }
}

void VirtualDriver::Take(UnitId unit, const UnitCommand& command) {
  if (options_.check) checker_.OnTaken(now_, command.meta);
  pool_.Free(command.packet);
  Drained(unit, command.meta.original_length);
}

void VirtualDriver::Drained(UnitId unit, uint32_t original_length) {
  provisioning_.OnDrained(now_, unit, original_length);
  controller_.on_drained(
      now_, {.unit = unit, .packets = 1, .bytes = original_length});
}

void VirtualDriver::Release(const Event& event) {
  const PacketInfo& info = pool_.info(event.packet);
  const std::span<const std::byte> bytes = pool_.bytes(event.packet);
  ++result_.packets_released;
  digest_.Add(event.meta.flow, bytes);
  if (!event.generated) {
    result_.latency_ns.Record((now_ - event.meta.arrival).ns);
    if (options_.check) checker_.OnRelease(now_, event.meta);
    if (observer_ != nullptr) observer_->OnReleased(now_, event.meta);
  }
  if (sink_ != nullptr) {
    sink_->OnRelease({.time = now_,
                      .bytes = bytes,
                      .original_length = info.original_length,
                      .link = info.link});
  }
  pool_.Free(event.packet);
}

void VirtualDriver::CountDrop(FlowId flow, Clock clock, DropReason reason) {
  ++result_.dropped[static_cast<size_t>(reason)];
  NotifyDrop(flow, clock, ToString(reason));
}

void VirtualDriver::NotifyDrop(FlowId flow, Clock clock,
                               std::string_view reason) {
  provisioning_.OnDropped(now_);
  if (observer_ != nullptr) observer_->OnDropped(now_, flow, clock, reason);
}

void VirtualDriver::ScheduleNfTimer(UnitShell& shell) {
  const Instant wakeup = shell.unit.next_wakeup();
  if (wakeup >= shell.nf_timer) return;
  shell.nf_timer = wakeup;
  events_->Push(std::max(wakeup, now_),
                Event::OfUnit(Event::Kind::kNfTimer, shell.unit.id()));
}

uint64_t VirtualDriver::flows_at_units() const {
  uint64_t sum = 0;
  for (const std::unique_ptr<UnitShell>& shell : units_) {
    if (shell != nullptr) sum += shell->unit.flows();
  }
  return sum;
}

VirtualDriver::UnitShell& VirtualDriver::Shell(UnitId unit) {
  std::unique_ptr<UnitShell>& shell = units_[value(unit)];
  if (shell == nullptr) {
    const UnitOptions options = {
        .max_flows = options_.controller.max_flows,
        .queue_packets = options_.controller.unit_queue_packets,
        // Every packet under way lies in a buffer.
        .packets_elsewhere = options_.buffers.small + options_.buffers.medium +
                             options_.buffers.large};
    shell = std::make_unique<UnitShell>(
        UnitShell{.unit = Unit(unit, options), .nf = nf_.create()});
  }
  return *shell;
}

}  // namespace snf
