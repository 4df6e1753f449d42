// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_OPTIONS_CONFIG_H_
#define SNF_PLATFORM_OPTIONS_CONFIG_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/rules/packet_rules.h"
#include "platform/run/run.h"
#include "runtime/sdk/nf_spec.h"

namespace snf {

// The configuration of --config, in the format of proto/config.proto. It has
// been checked: every chain can be made, every rule names a chain that exists.
struct Config {
  struct Chain {
    std::string name;
    NfSpec nf;
    std::optional<uint32_t> max_units = std::nullopt;
    std::optional<int64_t> unit_capacity_bps = std::nullopt;
  };
  std::vector<Chain> chains;        // at least one, at most kMaxChains
  std::vector<PacketRule> rules;    // the first that matches decides
  std::vector<size_t> rule_chains;  // of each rule, its index in `chains`
  // The index of the chain that takes packets which no rule matches; without
  // it they take none. A single chain without rules is its own default.
  std::optional<size_t> default_chain;
  bool has_settings = false;  // ports or flags, of live traffic
  // A line, with its place, for each rule that no packet reaches, since an
  // earlier rule matches all of its packets (shadowed_rules.h).
  std::vector<std::string> notes;

  static constexpr size_t kMaxChains = 64;
};

// Parses a configuration: JSON if `text` begins with a brace, else protobuf's
// text format. Unknown fields are errors. Errors: DataLoss, whose message
// begins with `name` and the place as far as protobuf tells it: line and column
// in the text format ("sites.conf:12:1: …"), the path of the field in JSON
// ("sites.conf: (chain[0].text): …").
// Chains that `replaced` names have these texts instead of those in the file.
// Error: InvalidArgument, there is no chain of that name; the only one may be
// named "".
// If `all_wrong` is given, it gets a line for each error. Ports and settings
// are not looked at (ConfigSettings).
absl::StatusOr<Config> ParseConfig(
    const std::string& text, const std::string& name,
    const std::map<std::string, std::string>& replaced = {},
    std::vector<std::string>* all_wrong = nullptr);

// Returns the text of a file of at most 16 MiB. Errors: DataLoss
// if it is larger; other errors of ReadTextFile.
absl::StatusOr<std::string> ReadConfigFile(const std::string& file);

// Returns `options` with the sizes that the chain gives itself.
RunOptions OptionsOf(const Config::Chain& chain, RunOptions options);

}  // namespace snf

#endif  // SNF_PLATFORM_OPTIONS_CONFIG_H_
