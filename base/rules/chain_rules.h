// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_BASE_RULES_CHAIN_RULES_H_
#define SNF_BASE_RULES_CHAIN_RULES_H_

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "base/packet/classifier.h"
#include "base/packet/link_type.h"
#include "base/rules/packet_rules.h"
#include "base/rules/rule_table.h"
#include "base/time.h"

namespace snf {

// Chooses the chain of a packet: that of the first rule that matches the packet
// or its opposite, the packet that would answer it. So all packets of a
// connection, its fragments and the ICMP errors about it take one chain. Frames
// without IP take the default chain, or else the first: they pass through.
//
// Owner-thread only.
class ChainRules {
 public:
  // Rule i names the chain chains[i]. Error: InvalidArgument, the rules are too
  // many for a table.
  static absl::StatusOr<std::unique_ptr<ChainRules>> Make(
      std::span<const PacketRule> rules, std::vector<size_t> chains,
      std::optional<size_t> default_chain,
      const FragmentTable::Options& fragments);

  // Returns the chain; nothing if neither a rule nor a default names one.
  std::optional<size_t> ChainOf(Instant time, LinkType link,
                                std::span<const std::byte> frame);

 private:
  ChainRules(RuleTable table, std::vector<size_t> chains,
             std::optional<size_t> default_chain,
             const FragmentTable::Options& fragments);

  FlowClassifier classifier_;
  RuleTable table_;
  std::vector<size_t> chains_;
  std::optional<size_t> default_chain_;
};

}  // namespace snf

#endif  // SNF_BASE_RULES_CHAIN_RULES_H_
