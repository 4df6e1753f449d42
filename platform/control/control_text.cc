// SPDX-License-Identifier: Apache-2.0
#include "platform/control/control_text.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/messages/controller_counts.h"
#include "base/quantity.h"
#include "base/text/wording.h"
#include "platform/control/control_figures.h"

namespace snf {
namespace {

// "541 in, 530 released, 0 passed through, 0 dropped, 11 consumed, 0 under
// way": what is in or made by NFs, or comes again, is as much as all others.
std::string PacketsOf(const LiveFigures& figures) {
  const auto if_any = [](uint64_t count, std::string_view what) {
    return count == 0 ? "" : fmt::format(", {} {}", FormatCount(count), what);
  };
  const auto& counts = figures.counts;
  return fmt::format(
      "{} in{}{}, {} released, {} passed through, {} dropped{}, {} under way",
      FormatCount(counts[&RunResult::packets_in]),
      if_any(counts[&RunResult::packets_generated], "made by NFs"),
      if_any(counts[&AliasFigures::packets_hairpinned], "came again"),
      FormatCount(counts[&RunResult::packets_released]),
      FormatCount(counts[&RunResult::packets_passed_through]),
      FormatCount(figures.packets_dropped()),
      if_any(counts[&RunResult::packets_consumed], "consumed"),
      FormatCount(figures.packets_under_way()));
}

// Counts flows that began before an upgrade; "" if there are none.
std::string BeforeOf(const proto::StatusReply& reply) {
  const auto flows = reply.count().find("predecessor_flows");
  if (flows == reply.count().end() || flows->second == 0) return "";
  return fmt::format(
      "the process before the upgrade lives, had {} then, and ends with the "
      "last of them",
      Plural(flows->second, "flow"));
}

uint64_t FlowsInAll(const LiveFigures& figures) {
  return figures.counts[&ControllerCounters::flows] +
         figures.counts[&ControllerCounters::flows_inherited];
}

uint64_t FlowsNow(const LiveFigures& figures) {
  const uint64_t flows = FlowsInAll(figures);
  return flows -
         std::min(figures.counts[&ControllerCounters::flows_ended], flows);
}

// Without packets there are no times.
std::string LatencyOf(const LiveFigures::Times& latency, bool with_most) {
  if (latency.max == Nanos{}) return "of no packet yet";
  std::string text =
      fmt::format("p50 {}, p99 {}", FormatDuration(latency.all.p50),
                  FormatDuration(latency.all.p99));
  if (with_most) text += ", at most " + FormatDuration(latency.max);
  return text;
}

std::string FlowsOf(const LiveFigures& figures) {
  const uint64_t given_up = figures.counts[&FailureCounters::flows_given_up];
  const uint64_t deleted = figures.counts[&ControllerCounters::flows_deleted];
  return fmt::format(
      "{} now, {} in all; {} flowlets, of which {} moved{}{}",
      FormatCount(FlowsNow(figures)), FormatCount(FlowsInAll(figures)),
      FormatCount(figures.counts[&ControllerCounters::flowlets]),
      FormatCount(figures.counts[&ControllerCounters::flowlets_moved]),
      given_up == 0
          ? ""
          : fmt::format("; {} lost their state", Plural(given_up, "flow")),
      deleted == 0 ? "" : fmt::format("; {} deleted", FormatCount(deleted)));
}

std::string PortLine(const PortFigures& port) {
  return fmt::format(
      "{}{} received, {} sent{}{}{}{}",
      port.down.ns == 0
          ? ""
          : fmt::format("DOWN for {}; ", FormatDuration(port.down)),
      FormatCount(port.received), FormatCount(port.sent),
      port.refused == 0
          ? ""
          : fmt::format(", {} refused", FormatCount(port.refused)),
      port.kernel_drops == 0 ? ""
                             : fmt::format(", {} dropped by the kernel",
                                           FormatCount(port.kernel_drops)),
      port.send_drops == 0
          ? ""
          : fmt::format(", {} not taken", FormatCount(port.send_drops)),
      port.too_long == 0 ? ""
                         : fmt::format(", of these {} longer than the MTU",
                                       FormatCount(port.too_long)));
}

// "tcp 10.0.0.1:8080 down for 3.2 s: checks fail: no answer".
std::string ObjectLine(const LiveFigures::NfObject& object) {
  return fmt::format("{} {}{}{}{}", object.object, object.state,
                     object.age.has_value()
                         ? fmt::format(" for {}", FormatDuration(*object.age))
                         : "",
                     object.why.empty() ? "" : ": ", object.why);
}

// Lists units that have run on the host: ": 1, 2"; for "", the own host,
// "; here 0". Units of several chains have their chain's name: ": dns 1".
std::string OnHost(const LiveFigures& figures, const std::string& host) {
  std::string units;
  const auto list = [&](const std::string& chain,
                        const std::vector<LiveFigures::Unit>& of_chain) {
    for (const LiveFigures::Unit& unit : of_chain) {
      if (unit.host != host) continue;
      units +=
          fmt::format("{}{}{}{}", units.empty() ? "" : ", ", Printable(chain),
                      chain.empty() ? "" : " ", value(unit.id));
    }
  };
  list("", figures.units);
  for (const LiveFigures::Chain& chain : figures.chains) {
    list(chain.name, chain.units);
  }
  if (units.empty()) return host.empty() ? "" : ": none";
  return (host.empty() ? "; here " : ": ") + units;
}

// "b (10.0.0.2:7000) joined, for 2 units at most: 1, 2".
std::string HostLine(const LiveFigures& figures,
                     const LiveFigures::Host& host) {
  // A host that has left can run none.
  return fmt::format(
      "{} ({}) {}{}{}", host.name, host.address, host.state,
      host.state == "left"
          ? ""
          : fmt::format(", for {} at most", Plural(host.units, "unit")),
      OnHost(figures, host.name));
}

// "away for 4 s (no endpoint of etcd answers): the table of the group stays as
// it is"; "" if etcd answers.
std::string EtcdLine(const LiveFigures& figures) {
  if (!figures.etcd.has_value() || !figures.etcd->is_away()) return "";
  const bool has_group = figures.group.has_value();
  return fmt::format("away for {} ({}): {}", FormatDuration(figures.etcd->away),
                     figures.etcd->why,
                     has_group && figures.group->state == "waiting"
                         ? "this controller takes no packets"
                     : has_group ? "the table of the group stays as it is"
                                 : "units stay on the hosts that they have");
}

// "lost for 9 s (…): leases stay as they are"; "" if it answers.
std::string ManagerLine(const LiveFigures& figures) {
  if (!figures.manager.has_value() || !figures.manager->is_away()) return "";
  return fmt::format("lost for {} ({}): leases stay as they are",
                     FormatDuration(figures.manager->away),
                     figures.manager->why);
}

// "" if they go to another member, or there is none.
std::string StatesLine(const LiveFigures& figures) {
  if (!figures.group.has_value() || figures.group->states_away.empty()) {
    return "";
  }
  return "states of flows go to no other controller: " +
         figures.group->states_away;
}

// "edge, active in epoch 7: controller 0 at 10.0.0.1:6083 has 48.8 % of the
// hosts, controller 2 at 10.0.0.3:6083 has 51.2 % of the hosts; without 1".
std::string GroupLine(const LiveFigures::Group& group) {
  std::string line =
      fmt::format("{}, {} in epoch {}: ", group.name, group.state, group.epoch);
  std::string missing;
  // A reply may hold any number.
  const uint32_t count = std::min(group.controllers, kMostAtPorts);
  bool is_first = true;
  for (uint32_t number = 0; number < count; ++number) {
    const auto member = std::ranges::find(group.members, number,
                                          &LiveFigures::Group::Member::number);
    if (member == group.members.end()) {
      missing +=
          fmt::format("{}{}", missing.empty() ? "; without " : ", ", number);
      continue;
    }
    line += fmt::format("{}controller {}{}{} has {}.{} % of the hosts",
                        is_first ? "" : ", ", number,
                        member->address.empty() ? "" : " at ", member->address,
                        member->hosts_1000 / 10, member->hosts_1000 % 10);
    is_first = false;
  }
  return line + (is_first ? "no controller lives" : missing);
}

// "12 forwarded, 3 stranger"; "" if all counts are 0.
std::string CountLine(const std::vector<NamedCount>& counts) {
  std::string line;
  for (const NamedCount& count : counts) {
    if (count.count == 0) continue;
    line += fmt::format("{}{} {}", line.empty() ? "" : ", ",
                        FormatCount(count.count), count.name);
  }
  return line;
}

// Returns true if a member that handles packets is in a table without this one.
bool IsReplaced(const proto::StatusReply& reply, uint32_t controller) {
  return std::ranges::any_of(reply.member(), [&](const auto& member) {
    if (!member.has_group()) return false;
    const LiveFigures::Group group = *FiguresOf(member).group;
    return group.state == "active" &&
           std::ranges::find(group.members, controller,
                             &LiveFigures::Group::Member::number) ==
               group.members.end();
  });
}

// Returns true if a member says that etcd is away. No process can join then.
bool IsEtcdAway(const proto::StatusReply& reply) {
  return std::ranges::any_of(reply.member(), [](const auto& member) {
    return !member.etcd().why().empty();
  });
}

std::string MemberLine(const proto::StatusReply& member, bool is_replaced,
                       bool is_etcd_away) {
  if (member.pid() == 0) {
    if (is_etcd_away && !is_replaced) {
      return "does not run, and cannot join before etcd answers: no controller "
             "takes the packets of its hosts";
    }
    return is_replaced ? "does not run: others of its group have its hosts; "
                         "the same snf up starts it"
                       : "does not run: nobody takes the packets of its hosts; "
                         "the same snf up starts it";
  }
  if (member.version().empty()) {
    return fmt::format("process {} does not answer", member.pid());
  }
  const LiveFigures figures = FiguresOf(member);
  return fmt::format("process {}, {}: {} packets in, {} flows now, {} units up",
                     member.pid(), FormatDuration(figures.elapsed),
                     FormatCount(figures.counts[&RunResult::packets_in]),
                     FormatCount(FlowsNow(figures)), figures.units_up());
}

// The sums, and a line for each.
std::string TextOfSeveral(const proto::StatusReply& reply) {
  const LiveFigures figures = FiguresOf(reply);
  std::string text = fmt::format(
      "{}: {} under policy {}, by {} controllers at the same ports\n",
      Printable(reply.name()), Printable(reply.nf()), Printable(reply.policy()),
      reply.controllers());
  const auto say = [&text](std::string_view what, const std::string& prose) {
    text += fmt::format("  {:<13} {}\n", what, Printable(prose));
  };
  const auto of_group =
      std::ranges::find_if(reply.member(), &proto::StatusReply::has_group);
  const bool has_group = of_group != reply.member().end();
  for (const proto::StatusReply& member : reply.member()) {
    say(fmt::format("controller {}", member.controller()),
        MemberLine(member, IsReplaced(reply, member.controller()),
                   IsEtcdAway(reply)));
    const LiveFigures of_member = FiguresOf(member);
    const auto say_more = [&say](const char* what, const std::string& line) {
      if (!line.empty()) say("", what + line);
    };
    say_more("etcd is ", EtcdLine(of_member));
    say_more("the resource manager is ", ManagerLine(of_member));
    say_more("", StatesLine(of_member));
    for (const LiveFigures::Host& host : of_member.hosts) {
      say("", "host " + HostLine(of_member, host));
    }
  }
  if (has_group) say("group", GroupLine(*FiguresOf(*of_group).group));
  say("packets", PacketsOf(figures));
  for (const DropCount& drop : figures.drops) {
    if (drop.packets == 0) continue;
    say("",
        fmt::format("{} dropped: {}", FormatCount(drop.packets), drop.name));
  }
  say("flows", FlowsOf(figures));
  if (const std::string before = BeforeOf(reply); !before.empty()) {
    say("before", before);
  }
  for (const PortFigures& port : figures.live.ports) {
    say(port.name, fmt::format("{}: {}", port.interface, PortLine(port)));
  }
  return text;
}

}  // namespace

std::string TextOf(const proto::StatusReply& reply) {
  if (reply.member_size() > 0) return TextOfSeveral(reply);
  const LiveFigures figures = FiguresOf(reply);
  // A resource manager has no ports.
  if (reply.port_size() == 0) {
    return fmt::format(
        "{0}: {1}, process {2}, {3}; snf leases --name={0} tells who has "
        "what\n",
        Printable(reply.name()), Printable(reply.nf()), reply.pid(),
        FormatDuration(figures.elapsed));
  }
  std::string text = fmt::format("{}: {} under policy {}, process {}, {}\n",
                                 Printable(reply.name()), Printable(reply.nf()),
                                 Printable(reply.policy()), reply.pid(),
                                 FormatDuration(figures.elapsed));
  const auto say = [&text](std::string_view what, const std::string& prose) {
    text += fmt::format("  {:<9} {}\n", what, Printable(prose));
  };
  if (reply.controllers() > 0) {
    const bool shares = !figures.group.has_value() ||
                        figures.group->members.empty() ||
                        figures.group->members.front().address.empty();
    say("shares", fmt::format("{}, as controller {} of {}",
                              shares ? "the ports" : "the hosts",
                              reply.controller(), reply.controllers()));
  }
  if (figures.group.has_value()) {
    say("group", GroupLine(*figures.group));
    const std::string counts = CountLine(figures.group->counts);
    if (!counts.empty()) say("", counts);
    const std::string states = StatesLine(figures);
    if (!states.empty()) say("", states);
  }
  const std::string etcd = EtcdLine(figures);
  if (!etcd.empty()) say("etcd", etcd);
  const std::string manager = ManagerLine(figures);
  if (!manager.empty()) say("manager", manager);
  say("packets", PacketsOf(figures));
  for (const DropCount& drop : figures.drops) {
    if (drop.packets == 0) continue;
    say("",
        fmt::format("{} dropped: {}", FormatCount(drop.packets), drop.name));
  }
  say("flows", FlowsOf(figures));
  if (const std::string before = BeforeOf(reply); !before.empty()) {
    say("before", before);
  }
  if (figures.chains.size() > 1) {
    for (const LiveFigures::Chain& chain : figures.chains) {
      const std::string name = chain.name.empty() ? "" : chain.name + ": ";
      say(fmt::format("chain {}", chain.number),
          fmt::format("{}{} flows, {} packets so far: {}", Printable(name),
                      FormatCount(chain.flows), FormatCount(chain.packets_in),
                      chain.nf));
      if (!chain.units.empty()) {
        say("", fmt::format("{} up, latency {}",
                            Plural(LiveFigures::UnitsUp(chain.units), "unit"),
                            LatencyOf(chain.latency, false)));
      }
    }
    if (figures.live.no_chain > 0) {
      say("no chain",
          Plural(figures.live.no_chain, "packet") + " dropped: no_chain");
    }
  }
  say("units", fmt::format("{} up{}", figures.units_up(),
                           figures.hosts.empty() ? "" : OnHost(figures, "")));
  for (const LiveFigures::Host& host : figures.hosts) {
    say("host", HostLine(figures, host));
  }
  if (reply.has_keep_ns()) {
    say("keep",
        fmt::format("{} if it is killed{}", FormatDuration({reply.keep_ns()}),
                    reply.has_inherited_flows()
                        ? fmt::format("; goes on with {} of one that "
                                      "was",
                                      Plural(reply.inherited_flows(), "flow"))
                        : ""));
  }
  constexpr size_t kMostObjects = 16;
  const size_t objects = figures.nf_objects.size();
  for (size_t i = 0; i < std::min(objects, kMostObjects); ++i) {
    const LiveFigures::NfObject& object = figures.nf_objects[i];
    const bool is_first = i == 0 || figures.nf_objects[i - 1].nf != object.nf;
    say(is_first ? object.nf : "", ObjectLine(object));
  }
  if (objects > kMostObjects) {
    say("", fmt::format("… and {} more: --json tells all",
                        FormatCount(objects - kMostObjects)));
  }
  text +=
      fmt::format("  {:<9} {}\n", "latency", LatencyOf(figures.latency, true));
  for (const PortFigures& port : figures.live.ports) {
    say(port.name, fmt::format("{}: {}", port.interface, PortLine(port)));
    const std::string router = CountLine(port.router);
    if (!router.empty()) say("", router);
  }
  return text;
}

std::string TextOf(const proto::UnitsReply& reply) {
  size_t width = 0;  // of the chains' names
  for (const proto::Unit& unit : reply.unit()) {
    width = std::max(width, Printable(unit.chain()).size());
  }
  if (width > 0) width = std::max(width, size_t{5});
  const auto chain = [width](const std::string& name) {
    return width == 0 ? "" : fmt::format("{:<{}} ", Printable(name), width);
  };
  std::string text =
      fmt::format("{}{:>5}  {:<9} {:>9} {:>9} {:>13} {:>16}\n", chain("chain"),
                  "unit", "state", "flows", "flowlets", "packets", "bytes");
  for (const proto::Unit& unit : reply.unit()) {
    const std::string host =
        unit.host().empty() ? "" : "  on " + Printable(unit.host());
    text += fmt::format(
        "{}{:>5}  {:<9} {:>9} {:>9} {:>13} {:>16}{}{}\n", chain(unit.chain()),
        unit.id(), Printable(unit.state()), FormatCount(unit.flows()),
        FormatCount(unit.open_flowlets()), FormatCount(unit.packets()),
        FormatCount(unit.bytes()), unit.is_drained() ? "  drained" : "", host);
  }
  return text;
}

std::string TextOf(const proto::FlowsReply& reply) {
  size_t width = 4;
  size_t alias_width = 0;  // without aliases the text has no column of them
  for (const proto::Flow& flow : reply.flow()) {
    width = std::max(width, flow.key().size());
    if (flow.alias().empty()) continue;
    alias_width = std::max({alias_width, flow.alias().size(), size_t{5}});
  }
  const bool has_several =
      std::ranges::any_of(reply.flow(), [&reply](const proto::Flow& flow) {
        return flow.chain() != reply.flow(0).chain();
      });
  const auto chain = [has_several](const std::string& of) {
    return has_several ? fmt::format(" {:>5}", of) : "";
  };
  const auto alias = [alias_width](const std::string& of) {
    return alias_width == 0 ? "" : fmt::format(" {:<{}}", of, alias_width);
  };
  std::string text =
      fmt::format("{:<{}}{}{} {:>5} {:>11} {:>9} {:>14} {:>12}\n", "flow",
                  width, alias("alias"), chain("chain"), "unit", "clock",
                  "flowlet", "rate", "idle");
  for (const proto::Flow& flow : reply.flow()) {
    text += fmt::format(
        "{:<{}}{}{} {:>5} {:>11} {:>9} {:>14} {:>12}\n", Printable(flow.key()),
        width, alias(Printable(flow.alias())),
        chain(fmt::format("{}", flow.chain())), flow.unit(),
        FormatCount(flow.clock()), FormatCount(flow.flowlet()),
        FormatBitRate(flow.rate_bps()), FormatDuration({flow.idle_ns()}));
  }
  const auto shown = static_cast<uint64_t>(reply.flow_size());
  if (reply.flows() > shown) {
    text += fmt::format("… and {} more\n", FormatCount(reply.flows() - shown));
  }
  return text;
}

std::string TextOf(const proto::RulesReply& reply) {
  size_t place_width = 5;
  size_t text_width = 4;
  const auto place_of = [](const proto::CountedRule& rule) {
    std::string place = Printable(rule.chain());
    for (const std::string& part : {rule.nf(), rule.place()}) {
      if (part.empty()) continue;
      place += (place.empty() ? "" : " ") + Printable(part);
    }
    return place;
  };
  for (const proto::CountedRule& rule : reply.rule()) {
    place_width = std::max(place_width, place_of(rule).size());
    text_width = std::max(text_width, Printable(rule.text()).size());
  }
  std::string text = fmt::format("{:<{}} {:<{}} {:>11} {:>13} {:>16}  {}\n",
                                 "place", place_width, "rule", text_width,
                                 "times", "packets", "bytes", "last");
  for (const proto::CountedRule& rule : reply.rule()) {
    text += fmt::format("{:<{}} {:<{}} {:>11} {:>13} {:>16}  {}\n",
                        place_of(rule), place_width, Printable(rule.text()),
                        text_width, FormatCount(rule.times()),
                        FormatCount(rule.packets()), FormatCount(rule.bytes()),
                        rule.last().empty() ? "never" : Printable(rule.last()));
  }
  return text;
}

std::string TextOf(const proto::SetReply& reply) {
  std::string text;
  for (const proto::Setting& setting : reply.setting()) {
    text += fmt::format("{}={}\n", Printable(setting.name()),
                        Printable(setting.value()));
  }
  return text;
}

}  // namespace snf
