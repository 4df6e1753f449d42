// SPDX-License-Identifier: Apache-2.0
#include <string>

#include "base/packet/flow_key_text.h"
#include "controller/units/load_meter.h"
#include "nlohmann/json.hpp"
#include "platform/report/explain/explain_story.h"

namespace snf {
namespace {

using Json = nlohmann::ordered_json;

Json Unit(UnitId unit) {
  return unit == kNoUnit ? Json(nullptr) : Json(value(unit));
}

double Share(int64_t quanta) { return static_cast<double>(quanta) / kFullLoad; }

std::string_view CauseOf(FlowletCause cause) {
  switch (cause) {
    case FlowletCause::kNewFlow:
      return "new_flow";
    case FlowletCause::kGap:
      return "gap";
    case FlowletCause::kBytes:
      return "bytes";
    case FlowletCause::kLate:
      return "late";
  }
  return "";
}

// Writes one story, whose times count from the run's first packet.
class Writer {
 public:
  explicit Writer(const FlowStory& story) : story_(story) {}

  Json Story() const {
    Json json = {{"flow", ToString(story_.key)},
                 {"first_ns", At(story_.first_packet)},
                 {"last_ns", At(story_.last_packet)},
                 {"lives", story_.lives},
                 {"flowlets", story_.flowlets},
                 {"moved", story_.moved},
                 {"seamless", story_.seamless},
                 {"overcommitted", story_.overcommitted},
                 {"pushes", story_.pushes},
                 {"pulls", story_.pulls},
                 {"hand_overs", story_.hand_overs}};
    json.update(Fates(story_.packets));
    Json& drops = json["first_drops"] = Json::array();
    for (const DropStory& drop : story_.drops) {
      Json& one = drops.emplace_back(Json{{"time_ns", At(drop.time)}});
      one["life"] = drop.life;
      one["clock"] = value(drop.clock);
      one["reason"] = drop.reason;
    }
    json["flowlets_not_shown"] = story_.between;
    Json& flowlets = json["flowlets_shown"] = Json::array();
    for (const auto& each : story_.first_flowlets) flowlets += Flowlet(each);
    for (const auto& each : story_.moved_flowlets) flowlets += Flowlet(each);
    for (const auto& each : story_.last_flowlets) flowlets += Flowlet(each);
    return json;
  }

 private:
  Json At(Instant time) const {
    if (time == Instant::max()) return nullptr;
    return (time - story_.capture_start).ns;
  }

  static Json Packet(const PacketName& packet) {
    if (packet.life == 0) return nullptr;
    return {{"life", packet.life},
            {"flowlet", packet.flowlet},
            {"clock", value(packet.clock)}};
  }

  static Json Fates(const PacketFates& packets) {
    Json dropped = Json::object();
    for (const auto& [reason, count] : packets.dropped) dropped[reason] = count;
    return {{"packets", packets.arrived},
            {"bytes", packets.bytes},
            {"released", packets.released},
            {"consumed", packets.consumed},
            {"dropped", dropped},
            {"held", packets.held},
            {"longest_hold_ns", packets.longest_hold.ns},
            {"longest_hold_of", Packet(packets.longest_hold_of)},
            {"longest_wait_ns", packets.longest_wait.ns},
            {"longest_wait_of", Packet(packets.longest_wait_of)},
            {"longest_latency_ns", packets.longest_latency.ns}};
  }

  static Json Candidates(const FlowletStory& flowlet) {
    Json json = Json::array();
    for (const CandidateUnit& unit : flowlet.candidates) {
      Json& one = json.emplace_back(Json{{"unit", value(unit.unit)}});
      one["load"] = Share(unit.load);
      one["score"] = unit.score < 0 ? Json(nullptr) : Json(Share(unit.score));
      one["has_state"] = unit.has_state;
    }
    return json;
  }

  void AddState(const FlowletStory& flowlet, Json& json) const {
    json["moved"] = flowlet.moved;
    json["seamless"] = flowlet.seamless;
    json["state_there_since_ns"] = At(flowlet.there_since);
    json["pull"] = nullptr;
    if (flowlet.state.has_value()) {
      json["pull"] = {{"asked_ns", At(flowlet.state->asked)},
                      {"from", Unit(flowlet.state->from)},
                      {"need", value(flowlet.state->need)},
                      {"came_ns", At(flowlet.state->came)}};
    }
    json["pushes"] = nullptr;
    if (flowlet.pushes.times > 0) {
      Json units = Json::array();
      for (const UnitId unit : flowlet.pushes.units) units += Unit(unit);
      json["pushes"] = {{"times", flowlet.pushes.times},
                        {"last_ns", At(flowlet.pushes.last)},
                        {"clock", value(flowlet.pushes.clock)},
                        {"units", units}};
    }
    json["hand_over"] = nullptr;
    if (flowlet.hand_over.has_value()) {
      json["hand_over"] = {{"time_ns", At(flowlet.hand_over->time)},
                           {"clock", value(flowlet.hand_over->clock)},
                           {"from", Unit(flowlet.hand_over->from)},
                           {"to", Unit(flowlet.hand_over->to)}};
    }
  }

  Json Flowlet(const FlowletStory& flowlet) const {
    const Decision& decision = flowlet.decision;
    Json json = {{"life", flowlet.life},
                 {"flowlet", decision.flowlet},
                 {"time_ns", At(decision.time)},
                 {"cause", CauseOf(decision.cause)},
                 {"gap_ns", decision.gap.ns},
                 {"demand_bps", decision.demand_bps},
                 {"unit", Unit(decision.placement.unit)},
                 {"unit_before", Unit(decision.request.owner)},
                 {"overcommitted", decision.placement.overcommitted},
                 {"units_placeable", flowlet.placeable_units},
                 {"units_with_room", flowlet.units_with_room},
                 {"candidates", Candidates(flowlet)},
                 {"first_clock", value(flowlet.first)},
                 {"last_clock", value(flowlet.last)}};
    AddState(flowlet, json);
    json.update(Fates(flowlet.packets));
    return json;
  }

  const FlowStory& story_;
};

}  // namespace

nlohmann::ordered_json JsonOf(const FlowStory& story) {
  return Writer(story).Story();
}

}  // namespace snf
