// SPDX-License-Identifier: Apache-2.0
#include "resource_manager/etcd/group_store.h"

#include <fmt/format.h>
#include <google/protobuf/util/json_util.h>

#include <charconv>
#include <utility>

#include "base/messages/controller_counts.h"
#include "base/text/wording.h"
#include "resource_manager/etcd/key_name.h"

namespace snf {
namespace {

std::string TextOf(const google::protobuf::Message& message) {
  std::string text;
  // Fails for types that these messages do not have.
  (void)google::protobuf::util::MessageToJsonString(message, &text);
  return text;
}

absl::Status ReadText(const EtcdPair& pair,
                      google::protobuf::Message& message) {
  google::protobuf::util::JsonParseOptions options;
  options.ignore_unknown_fields = true;  // of a later version
  if (google::protobuf::util::JsonStringToMessage(pair.value, &message, options)
          .ok()) {
    return absl::OkStatus();
  }
  return absl::DataLossError(
      fmt::format("etcd: key {}: \"{}\" is of another program",
                  Printable(pair.key), Printable(pair.value.substr(0, 80))));
}

bool IsRight(const GatewayTable& table) {
  const uint32_t controllers = table.shape.controllers;
  if (controllers == 0 || controllers > kMostAtPorts) return false;
  constexpr uint64_t kMostEpochs = uint64_t{1} << 63;  // one can follow
  if (table.epoch >= kMostEpochs) return false;
  constexpr Nanos kLongestSilence = Seconds(3600);
  if (table.shape.silence > kLongestSilence) return false;
  MemberSet seen = 0;
  for (const Gateway& member : table.members) {
    if (member.number >= controllers || Has(seen, member.number)) return false;
    if (member.incarnation == 0) return false;
    seen |= SetOf(member.number);
  }
  return true;
}

}  // namespace

proto::GatewayTable MessageOf(const GatewayTable& table) {
  proto::GatewayTable message;
  message.set_epoch(table.epoch);
  message.set_key(table.key);
  message.set_controllers(table.shape.controllers);
  message.set_program(table.shape.program);
  message.set_version(table.shape.version);
  message.set_machine(table.shape.machine);
  message.set_takeover_ns(table.shape.silence.ns);
  message.set_history(table.history);
  message.set_mark(table.mark);
  for (const Gateway& member : table.members) {
    proto::Gateway& to = *message.add_member();
    to.set_number(member.number);
    to.set_name(member.name);
    to.set_address(member.address);
    to.set_incarnation(member.incarnation);
    to.set_states(member.states);
  }
  return message;
}

GatewayTable TableOf(const proto::GatewayTable& message) {
  GatewayTable table = {.epoch = message.epoch(),
                        .key = message.key(),
                        .shape = {.controllers = message.controllers(),
                                  .program = message.program(),
                                  .version = message.version(),
                                  .machine = message.machine(),
                                  .silence = {message.takeover_ns()}},
                        .history = message.history(),
                        .mark = message.mark()};
  for (const proto::Gateway& member : message.member()) {
    table.members.push_back({.number = member.number(),
                             .name = member.name(),
                             .address = member.address(),
                             .incarnation = member.incarnation(),
                             .states = member.states()});
  }
  return table;
}

absl::StatusOr<GroupStore> GroupStore::Of(EtcdClient& client,
                                          const std::string& cluster,
                                          const std::string& group) {
  absl::Status named = CheckKeyName("name of a cluster", cluster);
  named.Update(CheckKeyName("name of a group", group));
  if (!named.ok()) return named;
  return GroupStore(client, "/snf/" + cluster + "/groups/" + group + "/");
}

absl::StatusOr<GatewayGroup::Look> GroupStore::Look() {
  const absl::StatusOr<EtcdRange> range = client_->List(prefix_);
  if (!range.ok()) return range.status();
  GatewayGroup::Look look;
  unread_.clear();
  for (const EtcdPair& pair : range->pairs) {
    if (absl::Status s = Take(pair, look); !s.ok()) return s;
  }
  return look;
}

absl::Status GroupStore::Take(const EtcdPair& pair, GatewayGroup::Look& look) {
  if (pair.key == TableKey()) {
    proto::GatewayTable message;
    if (absl::Status s = ReadText(pair, message); !s.ok()) return s;
    look.table = TableOf(message);
    look.revision = pair.mod_revision;
    if (IsRight(*look.table)) return absl::OkStatus();
    return absl::DataLossError(
        fmt::format("etcd: key {}: its values cannot be", pair.key));
  }
  TakeBeat(pair, look);
  return absl::OkStatus();
}

void GroupStore::TakeBeat(const EtcdPair& pair, GatewayGroup::Look& look) {
  const std::string beats = prefix_ + "beats/";
  if (!pair.key.starts_with(beats)) return;
  uint32_t number = 0;
  const char* const end = pair.key.data() + pair.key.size();
  const auto parsed =
      std::from_chars(pair.key.data() + beats.size(), end, number);
  if (parsed.ec != std::errc() || number >= kMostAtPorts ||
      pair.key != BeatKey(number)) {
    return;  // of no member
  }
  GatewayGroup::Look::Beat& beat = look.beats[number];
  beat.revision = pair.mod_revision;
  proto::GatewayBeat message;
  if (const absl::Status s = ReadText(pair, message); !s.ok()) {
    unread_ = std::string(s.message());
    return;
  }
  beat.beat = {.incarnation = message.incarnation(),
               .epoch = message.epoch(),
               .mark = message.mark(),
               .is_active = message.active()};
}

absl::Status GroupStore::Beat(uint32_t number, const GatewayBeat& beat) {
  proto::GatewayBeat message;
  message.set_incarnation(beat.incarnation);
  message.set_epoch(beat.epoch);
  message.set_mark(beat.mark);
  message.set_active(beat.is_active);
  return client_->Put(BeatKey(number), TextOf(message));
}

absl::StatusOr<bool> GroupStore::Swap(const GatewayGroup::Swap& swap) {
  std::vector<EtcdCondition> conditions = {{TableKey(), swap.revision}};
  for (const auto& [number, revision] : swap.beats) {
    conditions.push_back({BeatKey(number), revision});
  }
  const auto outcome = client_->Transact(
      conditions, {{TableKey(), TextOf(MessageOf(swap.table))}});
  if (!outcome.ok()) return outcome.status();
  return outcome->is_done;
}

}  // namespace snf
