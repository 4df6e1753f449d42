// SPDX-License-Identifier: Apache-2.0
#include "platform/daemon/planned_daemon.h"

#include <fmt/format.h>

#include <map>
#include <utility>

#include "absl/strings/escaping.h"
#include "base/quantity.h"
#include "base/text/wording.h"
#include "platform/daemon/live_run.h"
#include "platform/daemon/live_settings.h"
#include "runtime/sdk/nf_module.h"

namespace snf {
namespace {

std::string Quoted(const std::string& text) {
  return fmt::format("\"{}\"", absl::Utf8SafeCEscape(text));
}

// Names the files of modules, which another daemon has not loaded.
std::string TextOf(const NfSpec& spec) {
  std::map<std::string, std::string> files;
  for (const auto& [nf, options] : spec.nfs()) {
    const std::string file = FileOfNf(*nf);
    if (!file.empty()) files[std::string(nf->name)] = file;
  }
  return WithNfFiles(spec.text(), files);
}

std::string TextOf(const Config::Chain& chain, const std::string& name) {
  std::string text = fmt::format("chain {{\n  name: {}\n  text: {}\n",
                                 Quoted(name), Quoted(TextOf(chain.nf)));
  if (chain.max_units.has_value()) {
    text += fmt::format("  max_units: {}\n", *chain.max_units);
  }
  if (chain.unit_capacity_bps.has_value()) {
    const std::string rate =
        FormatBitRate(*chain.unit_capacity_bps, Precision::kExact);
    text += fmt::format("  unit_capacity: {}\n", Quoted(FlagText(rate)));
  }
  return text + "}\n";
}

}  // namespace

absl::Status PlannedDaemon::Parse(const Input& input,
                                  std::vector<std::string>* all_wrong) {
  const auto parsed = set_.ParseCommandLine(input.command_line);
  if (!parsed.ok()) return parsed.status();
  if (!input.file.empty()) {
    if (absl::Status s = set_.TryGive("config", input.file); !s.ok()) return s;
  }
  if (input.text.has_value()) flags_.run.UseConfig(*input.text);
  if (absl::Status s = flags_.run.TakeConfig(all_wrong); !s.ok()) return s;
  for (const auto& [name, value] : input.set) {
    if (absl::Status s = set_.TryGive(name, value); !s.ok()) return s;
  }
  for (const auto& [name, text] : input.chains) {
    flags_.run.ReplaceChain(name, text);
  }
  return absl::OkStatus();
}

std::string PlannedDaemon::ports() const { return ListOf(options().ports); }

std::string PlannedDaemon::rules() const {
  const Config& config = options().config;
  if (options().has_one_chain()) return "";
  std::string text;
  for (size_t i = 0; i < config.rules.size(); ++i) {
    text += fmt::format("rule {{ match: {} chain: {} }}\n",
                        Quoted(ToString(config.rules[i])),
                        Quoted(config.chains[config.rule_chains[i]].name));
  }
  if (config.default_chain.has_value()) {
    text += fmt::format("default_chain: {}\n",
                        Quoted(config.chains[*config.default_chain].name));
  }
  return text;
}

std::vector<std::pair<std::string, std::string>> PlannedDaemon::settings()
    const {
  std::vector<std::pair<std::string, std::string>> found;
  for (auto& [name, value] : set_.values()) {
    const FlagSet::Traits& traits = *set_.Find(name);
    if (traits.is_of_command || traits.is_repeated) continue;
    found.emplace_back(name, std::move(value));
  }
  return found;
}

bool PlannedDaemon::may_change(const std::string& setting) const {
  return LiveSettings::MayChange(setting, set_);
}

std::string PlannedDaemon::Text() const {
  std::string text;
  for (const PortSpec& port : options().ports) {
    text += fmt::format("port: {}\n", Quoted(port.text()));
  }
  // A chain of --nf has no name.
  const bool has_name = !options().config_file.empty();
  for (const Config::Chain& one : options().config.chains) {
    text += TextOf(one, has_name ? one.name : "main");
  }
  text += rules();
  std::string defaults;
  for (const auto& [name, value] : settings()) {
    const std::string line = fmt::format("setting {{ name: {} value: {} }}\n",
                                         Quoted(name), Quoted(value));
    if (set_.given(name)) {
      text += line;
    } else {
      defaults += "# " + line;
    }
  }
  return text + "\n# By default, or as the chain says:\n" + defaults;
}

}  // namespace snf
