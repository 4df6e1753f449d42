// SPDX-License-Identifier: Apache-2.0
#include "base/rules/chain_rules.h"

#include <algorithm>
#include <utility>

#include "base/packet/flow_key.h"
#include "base/packet/packet_parser.h"

namespace snf {
namespace {

PacketFields FieldsOf(const FlowKey& key, const ParsedPacket& packet) {
  const bool is_fragment = key.form == FlowKeyForm::kIpv4Fragment ||
                           key.form == FlowKeyForm::kIpv6Fragment;
  const bool is_ipv4 =
      key.form == FlowKeyForm::kIpv4 || key.form == FlowKeyForm::kIpv4Fragment;
  return {.source = key.source,
          .destination = key.destination,
          .source_port = key.source_port.host(),
          .destination_port = key.destination_port.host(),
          .vlan = packet.outer_vlan,
          .protocol = key.protocol,
          .l3 = is_ipv4 ? L3::kIpv4 : L3::kIpv6,
          .has_ports = HasPorts(key.protocol) && !is_fragment};
}

PacketFields Opposite(PacketFields fields) {
  std::swap(fields.source, fields.destination);
  std::swap(fields.source_port, fields.destination_port);
  return fields;
}

}  // namespace

absl::StatusOr<std::unique_ptr<ChainRules>> ChainRules::Make(
    std::span<const PacketRule> rules, std::vector<size_t> chains,
    std::optional<size_t> default_chain,
    const FragmentTable::Options& fragments) {
  absl::StatusOr<RuleTable> table = RuleTable::Build(rules);
  if (!table.ok()) return table.status();
  return std::unique_ptr<ChainRules>(new ChainRules(
      *std::move(table), std::move(chains), default_chain, fragments));
}

ChainRules::ChainRules(RuleTable table, std::vector<size_t> chains,
                       std::optional<size_t> default_chain,
                       const FragmentTable::Options& fragments)
    : classifier_({.fragments = fragments}),
      table_(std::move(table)),
      chains_(std::move(chains)),
      default_chain_(default_chain) {}

std::optional<size_t> ChainRules::ChainOf(Instant time, LinkType link,
                                          std::span<const std::byte> frame) {
  ParsedPacket headers;
  FlowKey key;
  if (classifier_.Classify(time, link, frame, headers, key) ==
      Direction::kNone) {
    return default_chain_.value_or(0);
  }
  const PacketFields fields = FieldsOf(key, headers);
  const uint32_t rule =
      std::min(table_.Find(fields), table_.Find(Opposite(fields)));
  if (rule == RuleTable::kNoRule) return default_chain_;
  return chains_[rule];
}

}  // namespace snf
