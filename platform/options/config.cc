// SPDX-License-Identifier: Apache-2.0
#include "platform/options/config.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "base/quantity.h"
#include "base/rules/rule_table.h"
#include "base/rules/shadowed_rules.h"
#include "base/text/wording.h"
#include "base/text_file.h"
#include "platform/options/config_message.h"
#include "proto/config.pb.h"

namespace snf {
namespace {

namespace pb = google::protobuf;

constexpr size_t kMaxFileBytes = 16 * 1024 * 1024;
constexpr uint32_t kMostUnits = 65'535;

std::string Message(const absl::Status& status) {
  return std::string(status.message());
}

std::string Quoted(const std::string& value) {
  std::string quoted = "\"";
  for (const char c : value) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return quoted + '"';
}

std::string TextOf(const proto::NetworkFunction& nf) {
  const std::map<std::string, std::string> options(nf.options().begin(),
                                                   nf.options().end());
  std::string text;
  for (const auto& [key, value] : options) {
    text += fmt::format("{}{}={}", text.empty() ? "" : ",", key, Quoted(value));
  }
  return fmt::format("{}({})", nf.type(), text);
}

std::string TextOf(const pb::RepeatedPtrField<proto::Stage>& stages) {
  std::string text;
  for (const proto::Stage& stage : stages) {
    text += (text.empty() ? "" : " | ") + stage.nf();
    if (stage.arm().empty()) continue;
    std::string arms;
    for (const proto::Arm& arm : stage.arm()) {
      arms += fmt::format("{}{}: {}", arms.empty() ? "" : ", ", arm.label(),
                          TextOf(arm.stage()));
    }
    text += fmt::format(" | {{{}}}", arms);
  }
  return text;
}

// The names of a configuration, each made when it is first asked for.
class Names final : public NfSpec::NameTable {
 public:
  // False where the name is taken. Only chains are made of other names.
  bool Add(const std::string& name, bool is_chain, std::string text) {
    return texts_.emplace(name, Text{std::move(text), is_chain}).second;
  }
  absl::StatusOr<const NfSpec*> Find(std::string_view name) const override {
    const auto made = made_.find(name);
    if (made != made_.end()) return &made->second;
    const auto text = texts_.find(name);
    if (text == texts_.end()) return nullptr;
    absl::StatusOr<NfSpec> spec = NfSpec::Parse(
        text->second.text, text->second.is_chain ? this : nullptr);
    if (!spec.ok()) return spec.status();
    return &made_.emplace(text->first, *std::move(spec)).first->second;
  }

 private:
  struct Text {
    std::string text;
    bool is_chain;
  };
  std::map<std::string, Text, std::less<>> texts_;
  mutable std::map<std::string, NfSpec, std::less<>> made_;
};

bool IsName(const std::string& name) {
  return !name.empty() && std::ranges::all_of(name, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           (c >= '0' && c <= '9') || c == '_' || c == '-';
  });
}

constexpr std::string_view kNameRule = "a name is letters, digits, _ and -";

// Collects what is wrong in a file.
class Wrong {
 public:
  void Add(const std::string& where, std::string_view what) {
    lines_.push_back(fmt::format("{}: {}", where, what));
  }
  bool is_empty() const { return lines_.empty(); }
  std::vector<std::string> TakeLines() { return std::move(lines_); }

 private:
  std::vector<std::string> lines_;
};

void AddNfNames(const proto::Config& from, const ConfigPlaces& places,
                Names& names, Wrong& wrong) {
  for (int i = 0; i < from.nf_size(); ++i) {
    const proto::NetworkFunction& nf = from.nf(i);
    if (!IsName(nf.name())) {
      wrong.Add(places.Of("nf", i),
                fmt::format("nf \"{}\": {}", nf.name(), kNameRule));
    } else if (nf.type().empty()) {
      wrong.Add(places.Of("nf", i),
                fmt::format("nf \"{}\" has no type", nf.name()));
    } else if (!names.Add(nf.name(), false, TextOf(nf))) {
      wrong.Add(places.Of("nf", i),
                fmt::format("\"{}\" is there twice", nf.name()));
    }
  }
}

void AddChainNames(const proto::Config& from, const ConfigPlaces& places,
                   Names& names, Wrong& wrong) {
  for (int i = 0; i < from.chain_size(); ++i) {
    const proto::Chain& chain = from.chain(i);
    const std::string where = places.Of("chain", i);
    if (!IsName(chain.name())) {
      wrong.Add(where,
                fmt::format("chain \"{}\": {}", chain.name(), kNameRule));
    } else if (chain.text().empty() == chain.stage().empty()) {
      wrong.Add(where, fmt::format("chain \"{}\" needs either text or stages",
                                   chain.name()));
    } else if (!names.Add(chain.name(), true,
                          chain.text().empty() ? TextOf(chain.stage())
                                               : chain.text())) {
      wrong.Add(where, fmt::format("\"{}\" is there twice", chain.name()));
    }
  }
}

absl::Status CheckNf(const proto::NetworkFunction& from, const Names& names) {
  const absl::StatusOr<const NfSpec*> spec = names.Find(from.name());
  return spec.ok() ? (*spec)->check() : spec.status();
}

absl::Status AddChain(const proto::Chain& from, const Names& names,
                      Config& config) {
  const absl::StatusOr<const NfSpec*> spec = names.Find(from.name());
  if (!spec.ok()) return spec.status();
  if (absl::Status s = (*spec)->check(); !s.ok()) return s;
  Config::Chain chain = {.name = from.name(), .nf = **spec};
  if (from.max_units() > kMostUnits) {
    return absl::InvalidArgumentError(fmt::format(
        "max_units {} is more than {}", from.max_units(), kMostUnits));
  }
  if (from.max_units() > 0) chain.max_units = from.max_units();
  if (!from.unit_capacity().empty()) {
    const absl::StatusOr<int64_t> rate = ParseBitRate(from.unit_capacity());
    if (!rate.ok()) return rate.status();
    if (*rate < 1'000 || *rate > 1'000'000'000'000) {
      return absl::InvalidArgumentError(
          fmt::format("unit_capacity \"{}\" is not from 1 kbit/s to 1 Tbit/s",
                      from.unit_capacity()));
    }
    chain.unit_capacity_bps = *rate;
  }
  config.chains.push_back(std::move(chain));
  return absl::OkStatus();
}

// The index of the chain of that name.
std::optional<size_t> ChainOf(const proto::Config& from,
                              const std::string& name) {
  for (int i = 0; i < from.chain_size(); ++i) {
    if (from.chain(i).name() == name) return static_cast<size_t>(i);
  }
  return std::nullopt;
}

absl::Status AddRule(const proto::Rule& from, const proto::Config& all,
                     Config& config) {
  absl::StatusOr<PacketRule> rule = ParsePacketRule(from.match());
  if (!rule.ok()) return rule.status();
  if (rule->flags.has_value()) {
    return absl::InvalidArgumentError(
        fmt::format("\"{}\": flags are of packets; a connection takes one "
                    "chain with all of them",
                    from.match()));
  }
  const std::optional<size_t> chain = ChainOf(all, from.chain());
  if (!chain.has_value()) {
    return absl::InvalidArgumentError(
        fmt::format("there is no chain \"{}\"", from.chain()));
  }
  config.rules.push_back(*std::move(rule));
  config.rule_chains.push_back(*chain);
  return absl::OkStatus();
}

void AddChains(const proto::Config& from, const ConfigPlaces& places,
               const Names& names, Config& config, Wrong& wrong) {
  for (int i = 0; i < from.nf_size(); ++i) {
    const absl::Status status = CheckNf(from.nf(i), names);
    if (status.ok()) continue;
    wrong.Add(places.Of("nf", i),
              fmt::format("nf \"{}\": {}", from.nf(i).name(), Message(status)));
  }
  for (int i = 0; i < from.chain_size(); ++i) {
    const absl::Status status = AddChain(from.chain(i), names, config);
    if (status.ok()) continue;
    wrong.Add(
        places.Of("chain", i),
        fmt::format("chain \"{}\": {}", from.chain(i).name(), Message(status)));
  }
}

// Says who takes the packets that no rule matches.
void AddDefault(const proto::Config& from, const ConfigPlaces& places,
                Config& config, Wrong& wrong) {
  if (!from.default_chain().empty()) {
    config.default_chain = ChainOf(from, from.default_chain());
    if (config.default_chain.has_value()) return;
    wrong.Add(places.Of("default_chain", -1),
              fmt::format("default_chain: there is no chain \"{}\"",
                          from.default_chain()));
  } else if (from.chain_size() == 1 && from.rule_size() == 0) {
    config.default_chain = 0;
  } else if (from.rule_size() == 0) {
    wrong.Add(places.name(),
              "several chains, but neither a rule nor a default_chain "
              "says which packets take which");
  }
}

void Fill(const proto::Config& from, const ConfigPlaces& places, Config& config,
          Wrong& wrong) {
  if (from.chain().empty()) wrong.Add(places.name(), "there is no chain");
  if (static_cast<size_t>(from.chain_size()) > Config::kMaxChains) {
    wrong.Add(places.Of("chain", Config::kMaxChains),
              fmt::format("more than {} chains", Config::kMaxChains));
  }
  if (static_cast<size_t>(from.rule_size()) > kMaxRules) {
    wrong.Add(places.Of("rule", kMaxRules),
              fmt::format("more than {} rules", kMaxRules));
  }
  if (!wrong.is_empty()) return;
  Names names;
  AddNfNames(from, places, names, wrong);
  AddChainNames(from, places, names, wrong);
  // A wrong name makes chains wrong that use it.
  if (wrong.is_empty()) AddChains(from, places, names, config, wrong);
  for (int i = 0; i < from.rule_size(); ++i) {
    const absl::Status status = AddRule(from.rule(i), from, config);
    if (!status.ok()) wrong.Add(places.Of("rule", i), Message(status));
  }
  AddDefault(from, places, config, wrong);
}

// Notes rules that no packet reaches. A rule that covers another covers it in
// the opposite direction too.
void AddNotes(const ConfigPlaces& places, Config& config) {
  const auto table = RuleTable::Build(config.rules);
  if (!table.ok()) return;  // told where the table is needed
  RuleList list;
  list.rules = config.rules;
  for (const ShadowedRule& found : FindShadowedRules(list, *table)) {
    config.notes.push_back(fmt::format(
        "{}: no packet comes to this rule: that at {} matches all of them",
        places.Of("rule", static_cast<int>(found.rule)),
        places.Of("rule", static_cast<int>(found.by))));
  }
}

// Gives a chain another text.
absl::Status Replace(const std::string& name, const std::string& text,
                     proto::Config& config) {
  for (proto::Chain& chain : *config.mutable_chain()) {
    const bool is_it =
        chain.name() == name || (name.empty() && config.chain_size() == 1);
    if (!is_it) continue;
    chain.clear_stage();
    chain.set_text(text);
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(fmt::format(
      "there is no chain \"{}\" in the file of --config", Printable(name)));
}

}  // namespace

absl::StatusOr<Config> ParseConfig(
    const std::string& text, const std::string& name,
    const std::map<std::string, std::string>& replaced,
    std::vector<std::string>* all_wrong) {
  ConfigPlaces places(name);
  proto::Config parsed;
  if (absl::Status s = ParseConfigMessage(text, places, parsed); !s.ok()) {
    if (all_wrong != nullptr) *all_wrong = {Message(s)};
    return s;
  }
  for (const auto& [chain, with] : replaced) {
    if (absl::Status s = Replace(chain, with, parsed); !s.ok()) return s;
  }
  Config config;
  config.has_settings = parsed.port_size() > 0 || parsed.setting_size() > 0;
  Wrong wrong;
  Fill(parsed, places, config, wrong);
  if (wrong.is_empty()) {
    AddNotes(places, config);
    return config;
  }
  const std::vector<std::string> lines = wrong.TakeLines();
  if (all_wrong != nullptr) *all_wrong = lines;
  return absl::DataLossError(lines.front());
}

absl::StatusOr<std::string> ReadConfigFile(const std::string& file) {
  auto text = ReadTextFile(file, kMaxFileBytes);
  if (!absl::IsOutOfRange(text.status())) return text;
  return absl::DataLossError(text.status().message());
}

RunOptions OptionsOf(const Config::Chain& chain, RunOptions options) {
  ControllerOptions& c = options.controller;
  if (chain.unit_capacity_bps.has_value()) {
    c.unit_capacity_bps = *chain.unit_capacity_bps;
  }
  if (chain.max_units.has_value()) {
    c.max_units = *chain.max_units + c.spare_units;
    c.replicas = std::min(c.replicas, *chain.max_units - 1);
    c.warm_units = std::min(c.warm_units, *chain.max_units);
  }
  return options;
}

}  // namespace snf
