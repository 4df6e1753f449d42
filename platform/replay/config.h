// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_REPLAY_CONFIG_H_
#define SNF_PLATFORM_REPLAY_CONFIG_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/rules/packet_rules.h"
#include "runtime/sdk/nf_spec.h"

namespace snf {

// What --config says (proto/config.proto has the format), checked: every chain
// can be made, every rule names a chain that there is.
struct Config {
  struct Chain {
    std::string name;
    NfSpec nf;
    std::optional<uint32_t> max_units = std::nullopt;
    std::optional<int64_t> unit_capacity_bps = std::nullopt;
  };
  std::vector<Chain> chains;  // at least one, at most kMaxChains
  // In order; the first that matches decides.
  std::vector<PacketRule> rules;
  std::vector<size_t> rule_chains;  // of each rule, in `chains`
  // Of what no rule matches: the default, or the only chain where there are no
  // rules.
  std::optional<size_t> default_chain;

  static constexpr size_t kMaxChains = 64;
};

// `text` is in JSON if it begins with a brace, else in protobuf's text format.
// DataLoss, beginning with `name` and, as far as it is known, line and column:
// "sites.conf:12:1: …"; unknown fields are errors.
absl::StatusOr<Config> ParseConfig(const std::string& text,
                                   const std::string& name);
// Of a file of at most 16 MiB. NotFound and the like where it cannot be read.
absl::StatusOr<Config> LoadConfig(const std::string& file);

}  // namespace snf

#endif  // SNF_PLATFORM_REPLAY_CONFIG_H_
