// SPDX-License-Identifier: Apache-2.0
#include "platform/control/control_figures.h"

#include <string>

#include "base/check.h"
#include "platform/run/figures/figures.h"

namespace snf {
namespace {

// Returns true for counts that are there while a run goes on.
bool IsLive(const Figure& figure) {
  return !figure.metric.name.empty() || !figure.row.label.empty();
}

void SetTimes(const LiveFigures::Times& from, proto::Times& to) {
  to.set_now_p50_ns(from.now.p50.ns);
  to.set_now_p99_ns(from.now.p99.ns);
  to.set_p50_ns(from.all.p50.ns);
  to.set_p99_ns(from.all.p99.ns);
  to.set_max_ns(from.max.ns);
  to.set_count(from.count);
  to.set_sum_ns(from.sum_ns);
}

LiveFigures::Times TimesOf(const proto::Times& from) {
  return {.now = {.p50 = {from.now_p50_ns()}, .p99 = {from.now_p99_ns()}},
          .all = {.p50 = {from.p50_ns()}, .p99 = {from.p99_ns()}},
          .max = {from.max_ns()},
          .count = from.count(),
          .sum_ns = from.sum_ns()};
}

const google::protobuf::FieldDescriptor& FieldOf(const PortCount& count) {
  const auto* field =
      proto::Port::descriptor()->FindFieldByName(std::string(count.key));
  SNF_CHECK(field != nullptr);
  return *field;
}

void SetUnit(const LiveFigures::Unit& unit, proto::UnitFigures& to) {
  to.set_id(value(unit.id));
  to.set_is_up(unit.is_up);
  to.set_packets(unit.packets);
  to.set_bytes(unit.bytes);
  to.set_host(unit.host);
}

LiveFigures::Unit UnitOf(const proto::UnitFigures& unit) {
  return {.id = UnitId{static_cast<uint16_t>(unit.id())},
          .is_up = unit.is_up(),
          .packets = unit.packets(),
          .bytes = unit.bytes(),
          .host = unit.host()};
}

void SetGroup(const LiveFigures::Group& from, proto::StatusReply& reply) {
  proto::GroupFigures& to = *reply.mutable_group();
  to.set_name(from.name);
  to.set_state(from.state);
  to.set_epoch(from.epoch);
  to.set_controllers(from.controllers);
  to.set_states_away(from.states_away);
  for (const LiveFigures::Group::Member& member : from.members) {
    proto::GroupMember& added = *to.add_member();
    added.set_number(member.number);
    added.set_name(member.name);
    added.set_address(member.address);
    added.set_hosts_1000(member.hosts_1000);
  }
  for (const NamedCount& count : from.counts) {
    proto::NamedCount& added = *to.add_count();
    added.set_name(count.name);
    added.set_count(count.count);
  }
}

LiveFigures::Group GroupOf(const proto::GroupFigures& from) {
  LiveFigures::Group to = {.name = from.name(),
                           .state = from.state(),
                           .epoch = from.epoch(),
                           .controllers = from.controllers()};
  for (const proto::GroupMember& member : from.member()) {
    to.members.push_back({.number = member.number(),
                          .name = member.name(),
                          .address = member.address(),
                          .hosts_1000 = member.hosts_1000()});
  }
  for (const proto::NamedCount& count : from.count()) {
    to.counts.push_back({count.name(), count.count()});
  }
  to.states_away = from.states_away();
  return to;
}

void SetDependency(const Outage::State& from, proto::Dependency& to) {
  to.set_away_ns(from.away.ns);
  to.set_why(from.why);
}

Outage::State DependencyOf(const proto::Dependency& from) {
  return {.away = {from.away_ns()}, .why = from.why()};
}

}  // namespace

void SetPort(const PortFigures& from, proto::Port& to) {
  to.set_name(from.name);
  to.set_interface(from.interface);
  to.set_down_ns(static_cast<uint64_t>(from.down.ns));
  for (const PortCount& count : PortCounts()) {
    to.GetReflection()->SetUInt64(&to, &FieldOf(count), from.*count.count);
  }
  for (const NamedCount& count : from.router) {
    proto::NamedCount& added = *to.add_router();
    added.set_name(count.name);
    added.set_count(count.count);
  }
}

PortFigures PortOf(const proto::Port& from) {
  PortFigures to;
  to.name = from.name();
  to.interface = from.interface();
  to.down.ns = static_cast<int64_t>(from.down_ns());
  for (const PortCount& count : PortCounts()) {
    to.*count.count = from.GetReflection()->GetUInt64(from, &FieldOf(count));
  }
  for (const proto::NamedCount& count : from.router()) {
    to.router.push_back({count.name(), count.count()});
  }
  return to;
}

void AddFigures(const LiveFigures& figures, proto::StatusReply& reply) {
  reply.set_elapsed_ns(figures.elapsed.ns);
  for (const Figure& figure : Figures()) {
    if (!IsLive(figure)) continue;
    (*reply.mutable_count())[std::string(figure.key)] =
        figures.counts.of(figure);
  }
  for (const DropCount& drop : figures.drops) {
    proto::Drop& to = *reply.add_drop();
    to.set_reason(drop.name);
    to.set_by_nf(drop.by_nf);
    to.set_packets(drop.packets);
  }
  for (const LiveFigures::Unit& unit : figures.units) {
    SetUnit(unit, *reply.add_unit());
  }
  for (const LiveFigures::Host& host : figures.hosts) {
    proto::HostFigures& to = *reply.add_host();
    to.set_name(host.name);
    to.set_address(host.address);
    to.set_state(host.state);
    to.set_units(host.units);
  }
  if (figures.group.has_value()) SetGroup(*figures.group, reply);
  if (figures.etcd.has_value()) {
    SetDependency(*figures.etcd, *reply.mutable_etcd());
  }
  if (figures.manager.has_value()) {
    SetDependency(*figures.manager, *reply.mutable_manager());
  }
  for (const PortFigures& port : figures.live.ports) {
    SetPort(port, *reply.add_port());
  }
  reply.set_filtered(figures.live.filtered);
  reply.set_unrouted(figures.live.unrouted);
  reply.set_copies(figures.live.copies);
  reply.set_answer_copies(figures.live.answer_copies);
  reply.set_no_chain(figures.live.no_chain);
  for (const LiveFigures::Chain& chain : figures.chains) {
    proto::ChainFigures& to = *reply.add_chain();
    to.set_number(chain.number);
    to.set_nf(chain.nf);
    to.set_name(chain.name);
    to.set_flows(chain.flows);
    to.set_packets_in(chain.packets_in);
    for (const LiveFigures::Unit& unit : chain.units) {
      SetUnit(unit, *to.add_unit());
    }
    if (chain.latency.count > 0) SetTimes(chain.latency, *to.mutable_latency());
  }
  for (const LiveFigures::NfObject& object : figures.nf_objects) {
    proto::NfObject& to = *reply.add_nf_object();
    to.set_nf(object.nf);
    to.set_object(object.object);
    to.set_state(object.state);
    if (object.age.has_value()) to.set_age_ns(object.age->ns);
    to.set_why(object.why);
  }
  SetTimes(figures.latency, *reply.mutable_latency());
  if (figures.unit_capacity_bps.has_value()) {
    reply.set_unit_capacity_bps(*figures.unit_capacity_bps);
  }
}

LiveFigures FiguresOf(const proto::StatusReply& reply) {
  LiveFigures figures;
  figures.elapsed = {reply.elapsed_ns()};
  for (const Figure& figure : Figures()) {
    const auto count = reply.count().find(std::string(figure.key));
    if (!IsLive(figure) || count == reply.count().end()) continue;
    figures.counts[figure.place] = count->second;
  }
  for (const proto::Drop& drop : reply.drop()) {
    figures.drops.push_back({.by_nf = drop.by_nf(),
                             .name = drop.reason(),
                             .packets = drop.packets()});
  }
  for (const proto::UnitFigures& unit : reply.unit()) {
    figures.units.push_back(UnitOf(unit));
  }
  for (const proto::HostFigures& host : reply.host()) {
    figures.hosts.push_back({.name = host.name(),
                             .address = host.address(),
                             .state = host.state(),
                             .units = host.units()});
  }
  if (reply.has_group()) figures.group = GroupOf(reply.group());
  if (reply.has_etcd()) figures.etcd = DependencyOf(reply.etcd());
  if (reply.has_manager()) figures.manager = DependencyOf(reply.manager());
  for (const proto::Port& port : reply.port()) {
    figures.live.ports.push_back(PortOf(port));
  }
  figures.live.filtered = reply.filtered();
  figures.live.unrouted = reply.unrouted();
  figures.live.copies = reply.copies();
  figures.live.answer_copies = reply.answer_copies();
  figures.live.no_chain = reply.no_chain();
  for (const proto::ChainFigures& chain : reply.chain()) {
    LiveFigures::Chain& to = figures.chains.emplace_back();
    to = {.number = chain.number(),
          .nf = chain.nf(),
          .flows = chain.flows(),
          .packets_in = chain.packets_in(),
          .name = chain.name()};
    for (const proto::UnitFigures& unit : chain.unit()) {
      to.units.push_back(UnitOf(unit));
    }
    if (chain.has_latency()) to.latency = TimesOf(chain.latency());
  }
  for (const proto::NfObject& object : reply.nf_object()) {
    LiveFigures::NfObject& to = figures.nf_objects.emplace_back();
    to.nf = object.nf();
    to.object = object.object();
    to.state = object.state();
    if (object.has_age_ns()) to.age = Nanos{object.age_ns()};
    to.why = object.why();
  }
  figures.latency = TimesOf(reply.latency());
  if (reply.has_unit_capacity_bps()) {
    figures.unit_capacity_bps = reply.unit_capacity_bps();
  }
  return figures;
}

}  // namespace snf
