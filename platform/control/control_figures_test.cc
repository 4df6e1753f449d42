// SPDX-License-Identifier: Apache-2.0
#include "platform/control/control_figures.h"

#include <fmt/format.h>

#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "platform/control/control_text.h"
#include "platform/report/watch/live_screen.h"
#include "platform/report/watch/test_live.h"
#include "platform/run/figures/figures.h"

namespace snf {
namespace {

LiveFigures Figures() {
  LiveFigures figures = LiveFiguresAfter(20);
  figures.speed = {};
  figures.done_1000 = {};
  figures.late = {};
  figures.live.ports = {{.name = "inside",
                         .interface = "lan0",
                         .received = 6,
                         .split = 1,
                         .merged = 9,
                         .refused = 2,
                         .kernel_drops = 3,
                         .sent = 4,
                         .send_drops = 5,
                         .too_long = 4,
                         .foreign = 5,
                         .down = Seconds(3)}};
  figures.live.filtered = 9;
  figures.live.unrouted = 7;
  figures.live.copies = 8;
  figures.live.answer_copies = 6;
  figures.live.no_chain = 5;
  return figures;
}

LiveFigures WithObjects() {
  LiveFigures figures = Figures();
  figures.nf_objects = {
      {.nf = "lb", .object = "tcp 10.0.0.1:80", .state = "up"},
      {.nf = "lb",
       .object = "tcp 10.0.0.2:80",
       .state = "down",
       .age = Seconds(3),
       .why = "checks fail: no answer"}};
  return figures;
}

// The daemon has inherited flows from a killed process.
TEST(ControlText, SaysHowManyFlowsThereAre) {
  LiveFigures figures = Figures();
  const auto set = [&](auto member, uint64_t count) {
    for (const Figure& figure : snf::Figures()) {
      if (figure.place == FigurePlace(member)) {
        figures.counts[figure.place] = count;
      }
    }
  };
  set(&ControllerCounters::flows, 10);
  set(&ControllerCounters::flows_inherited, 5'000);
  set(&ControllerCounters::flows_ended, 4'990);
  proto::StatusReply reply;
  reply.add_port();
  AddFigures(figures, reply);
  EXPECT_NE(TextOf(reply).find(" 20 now, 5,010 in all"), std::string::npos)
      << TextOf(reply);
  EXPECT_EQ(TextOf(reply).find("lost their state"), std::string::npos);
  set(&FailureCounters::flows_given_up, 3);
  reply.Clear();
  reply.add_port();
  AddFigures(figures, reply);
  EXPECT_NE(TextOf(reply).find("; 3 flows lost their state"), std::string::npos)
      << TextOf(reply);
}

TEST(ControlText, TellsTheStatesOfObjectsThatNfsWatch) {
  LiveFigures figures = WithObjects();
  const auto text = [&] {
    proto::StatusReply reply;
    reply.add_port();
    AddFigures(figures, reply);
    return TextOf(reply);
  };
  EXPECT_NE(text().find("  lb        tcp 10.0.0.1:80 up\n"
                        "            tcp 10.0.0.2:80 down for 3.00 s: checks "
                        "fail: no answer\n"),
            std::string::npos)
      << text();
  figures.nf_objects.resize(20, figures.nf_objects.front());
  EXPECT_NE(text().find("… and 4 more: --json tells all\n"), std::string::npos)
      << text();
}

LiveFigures::Group Group() {
  return {.name = "edge",
          .state = "active",
          .epoch = 7,
          .controllers = 3,
          .members = {{.number = 0,
                       .name = "d.0",
                       .address = "10.0.0.1:6083",
                       .hosts_1000 = 488},
                      {.number = 2,
                       .name = "d.2",
                       .address = "10.0.0.3:6083",
                       .hosts_1000 = 512}},
          .counts = {{"forwarded", 1'000}, {"out", 0}, {"taken", 3}}};
}

TEST(ControlText, TellsWhoHasTheHostsOfAGroup) {
  LiveFigures figures = Figures();
  figures.group = Group();
  proto::StatusReply reply;
  reply.set_controllers(3);
  reply.set_controller(2);
  reply.add_port();
  AddFigures(figures, reply);
  EXPECT_NE(TextOf(reply).find(
                "  shares    the hosts, as controller 2 of 3\n"
                "  group     edge, active in epoch 7: controller 0 at "
                "10.0.0.1:6083 has 48.8 % of the hosts, controller 2 at "
                "10.0.0.3:6083 has 51.2 % of the hosts; without 1\n"
                "            1,000 forwarded, 3 taken\n"),
            std::string::npos)
      << TextOf(reply);
  proto::StatusReply all;
  all.add_member()->set_controller(0);
  all.add_member()->set_controller(1);
  *all.add_member() = reply;
  EXPECT_NE(
      TextOf(all).find("  controller 1  does not run: others of its group "
                       "have its hosts"),
      std::string::npos)
      << TextOf(all);
  // Controller 0 is still in the table, so no other has its hosts.
  constexpr char kNobody[] =
      "  controller 0  does not run: nobody takes the packets of its hosts";
  EXPECT_NE(TextOf(all).find(kNobody), std::string::npos) << TextOf(all);
  EXPECT_NE(TextOf(all).find("  group         edge, active in epoch 7: "),
            std::string::npos)
      << TextOf(all);
}

TEST(ControlText, TellsWhatIsAway) {
  LiveFigures figures = Figures();
  const auto text = [&] {
    proto::StatusReply reply;
    reply.add_port();
    AddFigures(figures, reply);
    return TextOf(reply);
  };
  const auto has = [&](const char* line) {
    EXPECT_NE(text().find(line), std::string::npos) << text();
  };
  figures.etcd = Outage::State();
  figures.manager = Outage::State();
  EXPECT_EQ(text().find("  etcd "), std::string::npos) << text();
  EXPECT_EQ(text().find("  manager "), std::string::npos) << text();
  figures.etcd = {.away = Seconds(4), .why = "no endpoint answers"};
  figures.manager = {.away = Seconds(9), .why = "10.0.0.2:7: refused"};
  has("  etcd      away for 4.00 s (no endpoint answers): units stay on the "
      "hosts that they have\n");
  has("  manager   lost for 9.00 s (10.0.0.2:7: refused): leases stay as they "
      "are\n");
  figures.group = Group();
  has("  etcd      away for 4.00 s (no endpoint answers): the table of the "
      "group stays as it is\n");
  figures.group->state = "waiting";
  has("(no endpoint answers): this controller takes no packets\n");
  figures.group->states_away = "10.0.0.1:6083: TLS: no handshake";
  has("            states of flows go to no other controller: 10.0.0.1:6083: "
      "TLS: no "
      "handshake\n");
}

// A controller that is started while etcd is away cannot join.
TEST(ControlText, SaysForWhatAControllerThatDoesNotRunWaits) {
  LiveFigures figures = Figures();
  figures.group = Group();
  figures.etcd = {.away = Seconds(4), .why = "no endpoint answers"};
  figures.group->states_away = "not connected yet";
  proto::StatusReply all;
  all.add_member()->set_controller(0);
  proto::StatusReply& other = *all.add_member();
  other.set_controller(2);
  AddFigures(figures, other);
  const std::string text = TextOf(all);
  EXPECT_NE(
      text.find("  controller 0  does not run, and cannot join before etcd "
                "answers: no controller takes the packets of its "
                "hosts\n"),
      std::string::npos)
      << text;
  EXPECT_NE(
      text.find(
          "                etcd is away for 4.00 s (no endpoint "
          "answers): the table of the group stays as it is\n"
          "                states of flows go to no other controller: not "
          "connected yet\n"),
      std::string::npos)
      << text;
}

TEST(ControlText, SaysOfAHostThatHasLeftWhatIsStillThere) {
  LiveFigures figures = Figures();
  figures.hosts = {
      {.name = "b", .address = "10.0.0.2:7000", .state = "left", .units = 0}};
  figures.units.front().host = "b";
  proto::StatusReply reply;
  reply.add_port();
  AddFigures(figures, reply);
  EXPECT_NE(TextOf(reply).find("  host      b (10.0.0.2:7000) left: "),
            std::string::npos)
      << TextOf(reply);
}

TEST(ControlText, ListsTheHostsOfEachController) {
  proto::StatusReply all;
  for (const char* const host : {"b", "c"}) {
    LiveFigures figures = Figures();
    figures.hosts = {{.name = host,
                      .address = "10.0.0.2:7000",
                      .state = "joined",
                      .units = 2}};
    figures.units.front().host = host;
    proto::StatusReply& member = *all.add_member();
    member.set_controller(static_cast<uint32_t>(all.member_size() - 1));
    member.set_pid(1);
    member.set_version("1");
    AddFigures(figures, member);
  }
  const std::string text = TextOf(all);
  const size_t second = text.find("  controller 1  process 1");
  ASSERT_NE(second, std::string::npos) << text;
  static constexpr char kLine[] =
      "                host {} (10.0.0.2:7000) joined, for 2 units at most: ";
  EXPECT_LT(text.find(fmt::format(kLine, "b")), second) << text;
  const size_t of_second = text.find(fmt::format(kLine, "c"));
  EXPECT_GT(of_second, second) << text;
  EXPECT_NE(of_second, std::string::npos) << text;
}

TEST(ControlText, OnlyAnActiveMemberSaysWhoHasHosts) {
  LiveFigures figures = Figures();
  figures.group = Group();
  figures.group->state = "joining";
  proto::StatusReply all;
  all.add_member()->set_controller(1);
  proto::StatusReply& other = *all.add_member();
  other.set_controller(2);
  AddFigures(figures, other);
  EXPECT_NE(TextOf(all).find("  controller 1  does not run: nobody takes"),
            std::string::npos)
      << TextOf(all);
}

TEST(ControlText, ListsNoMoreControllersThanThereCanBe) {
  LiveFigures figures = Figures();
  figures.group = Group();
  figures.group->controllers = ~uint32_t{0};
  proto::StatusReply reply;
  reply.add_port();
  AddFigures(figures, reply);
  EXPECT_NE(TextOf(reply).find("; without 1, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, "
                               "13, 14, 15\n"),
            std::string::npos)
      << TextOf(reply);
}

TEST(ControlFigures, AreWhatTheyWereAfterTheWay) {
  proto::StatusReply reply;
  LiveFigures before = WithObjects();
  before.group = Group();
  before.group->states_away = "no route";
  before.etcd = {.away = Seconds(4), .why = "no endpoint answers"};
  before.manager = Outage::State();
  AddFigures(before, reply);
  proto::StatusReply again;
  AddFigures(FiguresOf(reply), again);
  EXPECT_EQ(JsonOf(again), JsonOf(reply));
  const LiveFigures figures = FiguresOf(reply);
  EXPECT_EQ(LiveLine({}, figures), LiveLine({}, Figures()));
  EXPECT_EQ(figures.packets_under_way(), Figures().packets_under_way());
  EXPECT_EQ(figures.units.size(), 2u);
  EXPECT_EQ(figures.units[1].packets, 4'000u);
  for (const PortCount& count : PortCounts()) {
    EXPECT_EQ(figures.live.ports[0].*count.count,
              Figures().live.ports[0].*count.count)
        << count.key;
  }
  EXPECT_EQ(figures.live.ports[0].down, Seconds(3));
  EXPECT_EQ(figures.live.filtered, 9u);
  EXPECT_EQ(figures.live.unrouted, 7u);
  EXPECT_EQ(figures.live.copies, 8u);
  EXPECT_EQ(figures.live.answer_copies, 6u);
  EXPECT_EQ(figures.live.no_chain, 5u);
}

TEST(ControlFigures, LeaveOutWhatTheReaderDoesNotKnow) {
  proto::StatusReply reply;
  (*reply.mutable_count())["of_a_later_version"] = 5;
  (*reply.mutable_count())["latency_ns"] = 5;  // known, but no count
  const LiveFigures figures = FiguresOf(reply);
  EXPECT_EQ(LiveLine({}, figures), LiveLine({}, LiveFigures()));
}

TEST(ControlText, SaysTheFiguresOfAStatus) {
  proto::StatusReply reply;
  AddFigures(Figures(), reply);
  reply.set_name("edge");
  reply.set_nf("nat");
  reply.set_policy("snf");
  reply.set_pid(17);
  EXPECT_EQ(
      TextOf(reply),
      "edge: nat under policy snf, process 17, 10.0 s\n"
      "  packets   10,000 in, 9,990 released, 0 passed through, 0 "
      "dropped, 10 under way\n"
      "  flows     120 now, 200 in all; 1,200 flowlets, of which 240 "
      "moved\n"
      "  units     2 up\n"
      "  latency   p50 120 µs, p99 1.76 ms, at most 3.00 ms\n"
      "  inside    lan0: DOWN for 3.00 s; 6 received, 4 sent, 2 refused, 3 "
      "dropped by the kernel, 5 not taken, of these 4 longer than the MTU\n");
}

// The two sides of "=" are equal.
TEST(ControlText, AddsUpWithPacketsThatNfsMakeAndConsume) {
  LiveFigures figures;
  figures.counts[&RunResult::packets_in] = 2'541;
  figures.counts[&RunResult::packets_generated] = 8;
  figures.counts[&AliasFigures::packets_hairpinned] = 2;
  figures.counts[&RunResult::packets_released] = 2'529;
  figures.counts[&RunResult::packets_consumed] = 12;
  figures.drops = {{.name = "nf:firewall.denied", .packets = 7}};
  proto::StatusReply reply;
  reply.add_port();
  AddFigures(figures, reply);
  EXPECT_NE(TextOf(reply).find(
                "  packets   2,541 in, 8 made by NFs, 2 came again, 2,529 "
                "released, 0 passed through, 7 dropped, 12 consumed, 3 under "
                "way\n"),
            std::string::npos)
      << TextOf(reply);
}

TEST(ControlText, TellsOfTheProcessBeforeAnUpgrade) {
  proto::StatusReply reply;
  AddFigures(Figures(), reply);
  EXPECT_EQ(TextOf(reply).find("before"), std::string::npos) << TextOf(reply);
  (*reply.mutable_count())["predecessor_flows"] = 2;
  const std::string said =
      "the process before the upgrade lives, had 2 flows then, and ends with "
      "the last of them\n";
  EXPECT_NE(TextOf(reply).find("  before    " + said), std::string::npos)
      << TextOf(reply);
  proto::StatusReply all = reply;
  *all.add_member() = reply;
  EXPECT_NE(TextOf(all).find("  before        " + said), std::string::npos)
      << TextOf(all);
}

TEST(ControlText, SaysThatNoPacketHasCome) {
  LiveFigures figures = Figures();
  figures.latency = {};
  figures.chains = {{.number = 1, .nf = "monitor"}, {.number = 2, .nf = "nat"}};
  figures.chains[1].units = figures.units;
  figures.chains[1].latency.all = {.p50 = Microseconds(1),
                                   .p99 = Microseconds(2)};
  figures.chains[1].latency.max = Microseconds(3);
  figures.chains[1].latency.count = 1;
  proto::StatusReply reply;
  AddFigures(figures, reply);
  const std::string before = TextOf(reply);
  EXPECT_NE(before.find("  latency   of no packet yet\n"), std::string::npos)
      << before;
  EXPECT_NE(before.find(" up, latency p50 1.00 µs, p99 2.00 µs\n"),
            std::string::npos)
      << before;
  figures.chains[1].latency = {};
  proto::StatusReply none;
  AddFigures(figures, none);
  EXPECT_NE(TextOf(none).find(" up, latency of no packet yet\n"),
            std::string::npos)
      << TextOf(none);
}

TEST(ControlText, NamesTheCountsOfAPortThatRoutes) {
  LiveFigures figures = Figures();
  figures.live.ports[0].router = {
      {"other_mac", 1'200}, {"group", 0}, {"no_route", 3}};
  proto::StatusReply reply;
  AddFigures(figures, reply);
  EXPECT_NE(TextOf(reply).find("1,200 other_mac, 3 no_route\n"),
            std::string::npos)
      << TextOf(reply);
  const LiveFigures read = FiguresOf(reply);
  ASSERT_EQ(read.live.ports[0].router.size(), 3u);
  EXPECT_EQ(read.live.ports[0].router[2].name, "no_route");
  EXPECT_EQ(read.live.ports[0].router[2].count, 3u);
}

TEST(ControlText, SaysOfAResourceManagerWhereToLook) {
  proto::StatusReply reply;
  reply.set_name("rm");
  reply.set_nf("a resource manager");
  reply.set_policy("leases");
  reply.set_pid(17);
  reply.set_elapsed_ns(2'000'000'000);
  EXPECT_EQ(TextOf(reply),
            "rm: a resource manager, process 17, 2.00 s; snf leases --name=rm "
            "tells who has what\n");
}

TEST(ControlText, IsJsonOfAllFieldsByTheirNames) {
  proto::UnitsReply reply;
  proto::Unit& unit = *reply.add_unit();
  unit.set_id(3);
  unit.set_state("active");
  unit.set_packets(uint64_t{1} << 60);
  const auto json = nlohmann::json::parse(JsonOf(reply));
  EXPECT_EQ(json["unit"][0]["packets"], uint64_t{1} << 60);
  EXPECT_EQ(json["unit"][0]["is_drained"], false);
  EXPECT_EQ(json["usable_units"], 0);
  proto::StatusReply status;
  EXPECT_TRUE(
      nlohmann::json::parse(JsonOf(status))["unit_capacity_bps"].is_null());
}

TEST(ControlText, ShowsNoControlCharacters) {
  proto::SetReply reply;
  reply.add_setting()->set_name("a\033b");
  EXPECT_EQ(TextOf(reply), "a?b=\n");
}

}  // namespace
}  // namespace snf
