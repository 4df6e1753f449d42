// SPDX-License-Identifier: Apache-2.0
#include "nfs/ids_eve.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <string_view>
#include <tuple>

#include "base/rules/eve_text.h"
#include "nfs/ids_events.h"
#include "nfs/snort/option_text.h"

namespace snf {
namespace {

using snort::Append;
using snort::Rule;
using snort::Threshold;

constexpr uint64_t kSecond = 1'000'000'000;

bool IsSuppressed(const snort::RuleSet& set, const Rule& rule,
                  const FlowKey& ends) {
  return std::ranges::any_of(
      set.suppressions, [&](const snort::RuleSet::Suppression& one) {
        if (one.gid != rule.gid || (one.sid != 0 && one.sid != rule.sid)) {
          return false;
        }
        const IpAddress& address =
            one.by_destination ? ends.destination : ends.source;
        return one.addresses == nullptr ||
               one.addresses->Contains(snort::NumberOf(address));
      });
}

// The rule's metadata as Suricata writes it: lists of values by key.
std::string MetadataJson(const Rule& rule) {
  std::map<std::string, std::vector<std::string>> values;
  for (const std::string& one : rule.metadata) {
    const size_t space = one.find(' ');
    const std::string value =
        space == std::string::npos ? "" : one.substr(space + 1);
    values[one.substr(0, space)].push_back(value);
  }
  std::string json;
  for (const auto& [key, list] : values) {
    Append(json, json.empty() ? "{" : ",", EveQuoted(key), ":[");
    for (size_t i = 0; i < list.size(); ++i) {
      Append(json, i == 0 ? "" : ",", EveQuoted(list[i]));
    }
    json += "]";
  }
  return json.empty() ? "" : json + "}";
}

}  // namespace

std::vector<std::byte> RecordBytes(const IdsAlertRecord& record,
                                   std::span<const std::byte> bits) {
  std::vector<std::byte> bytes(sizeof record + bits.size());
  std::memcpy(bytes.data(), &record, sizeof record);
  std::ranges::copy(bits, bytes.begin() + sizeof record);
  return bytes;
}

bool IdsAlertFilter::Counts(const Threshold& threshold, uint64_t now_ns,
                            Period& period) {
  const bool is_over =
      now_ns >= period.begin_ns + uint64_t{threshold.seconds} * kSecond;
  if (period.is_new || is_over) {
    period = {.begin_ns = now_ns, .count = 0, .is_new = false};
  }
  ++period.count;
  switch (threshold.kind) {
    case Threshold::Kind::kLimit:
      return period.count <= threshold.count;
    case Threshold::Kind::kThreshold:
      if (period.count < threshold.count) return false;
      period.is_new = true;
      return true;
    case Threshold::Kind::kBoth:
      return period.count == threshold.count;
    case Threshold::Kind::kDetectionFilter:
      return period.count > threshold.count;
  }
  return true;
}

bool IdsAlertFilter::Passes(const snort::RuleSet& set, const IdsAlertKey& key) {
  const Rule& rule = set.rules[key.rule];
  if (IsSuppressed(set, rule, key.ends)) return false;
  if (!rule.threshold.has_value()) return true;
  const IpAddress& address =
      rule.threshold->by_destination ? key.ends.destination : key.ends.source;
  return Counts(*rule.threshold, key.time_ns,
                periods_[std::pair(key.rule, address)]);
}

void FilterAlerts(const snort::RuleSet& set, IdsAlerts& alerts) {
  std::ranges::sort(alerts, {}, [](const auto& alert) {
    const IdsAlertKey& key = alert.first;
    return std::tuple(key.time_ns, key.ends, key.packet, key.rule);
  });
  IdsAlertFilter filter;
  std::erase_if(alerts, [&](const auto& alert) {
    return !filter.Passes(set, alert.first);
  });
}

std::string EveLine(const snort::RuleSet& set, const IdsAlertKey& key,
                    const IdsAlert& alert, std::span<const std::byte> bits) {
  const Rule& rule = set.rules[key.rule];
  const FlowKey& ends = key.ends;
  const bool is_dropped = (alert.what & IdsAlert::kDropped) != 0;
  std::string line =
      EveBegin({.type = "alert",
                .time_ns = key.time_ns,
                .begin_ns = alert.begin_ns,
                .ends = ends,
                .icmp = IsIcmp(ends.protocol) ? std::optional(alert.icmp)
                                              : std::nullopt});
  if (const std::string names = FlowbitsJson(set, bits); !names.empty()) {
    Append(line, ",\"metadata\":", names);
  }
  Append(line, ",\"alert\":{\"action\":\"", is_dropped ? "blocked" : "allowed",
         "\",\"gid\":", rule.gid, ",\"signature_id\":", rule.sid,
         ",\"rev\":", rule.revision, ",\"signature\":", EveQuoted(rule.message),
         ",\"category\":", EveQuoted(rule.category),
         ",\"severity\":", rule.priority);
  const std::string metadata = MetadataJson(rule);
  if (!metadata.empty()) Append(line, ",\"metadata\":", metadata);
  if (!rule.references.empty()) {
    line += ",\"references\":[";
    for (size_t i = 0; i < rule.references.size(); ++i) {
      const auto& [system, id] = rule.references[i];
      Append(line, i == 0 ? "" : ",", EveQuoted(snort::Cat(system, ":", id)));
    }
    line += "]";
  }
  line += "}";
  if ((alert.what & IdsAlert::kHttp) != 0) line += ",\"app_proto\":\"http\"";
  Append(line, ",\"direction\":\"",
         (alert.what & IdsAlert::kToServer) != 0 ? "to_server" : "to_client",
         "\",\"flow\":{\"start\":\"", EveTime(alert.begin_ns),
         "\"},\"verdict\":{\"action\":\"", is_dropped ? "drop" : "alert",
         "\"}}\n");
  return line;
}

}  // namespace snf
