// SPDX-License-Identifier: Apache-2.0
#include "platform/daemon/try_chain.h"

#include <fmt/format.h>

#include <chrono>

#include "platform/modules/module_process.h"
#include "platform/modules/module_stand_ins.h"
#include "platform/process/child_program.h"
#include "runtime/live/rehearsal.h"

namespace snf {
namespace {

// What takes longer is killed. No signal that an NF could ignore is enough.
constexpr std::chrono::seconds kMost(10);

// Adds a flag whose values are collected.
void AddList(FlagSet& flags, const std::string& name,
             std::vector<std::string>& list) {
  flags.Repeated(
      name, "TEXT", "for snf itself",
      [&list](const std::string& text) {
        list.push_back(text);
        return absl::OkStatus();
      },
      [] { return std::string(); });
}

}  // namespace

absl::Status TryChain(const std::string& program, const TriedChain& tried) {
  const std::string name(kTryChainCommand);
  ChildProgram child = {
      .words = {program, name}, .patience = kMost, .stop = tried.stop};
  if (!tried.config_file.empty()) {
    child.words.push_back("--try_config=" + tried.config_file);
    child.input = tried.config_text;
  }
  if (tried.takes_settings) child.words.emplace_back("--try_settings");
  for (const std::string& module : tried.modules) {
    child.words.push_back("--try_module=" + module);
  }
  for (const auto& [chain, text] : tried.chains) {
    child.words.push_back(fmt::format("--try_chain={}={}", chain, text));
  }
  child.words.insert(child.words.end(), tried.command_line.begin(),
                     tried.command_line.end());
  const absl::Status status = RunChildProgram(child).status();
  if (status.ok()) return status;
  if (absl::IsCancelled(status)) {
    return absl::CancelledError("the daemon ends");
  }
  if (absl::IsDeadlineExceeded(status)) {
    return absl::InvalidArgumentError(
        fmt::format("an NF did not return when it was tried: it was killed "
                    "after {} s",
                    kMost.count()));
  }
  std::string why(status.message());
  for (const std::string& before : {program + ": ", name + ": "}) {
    if (why.starts_with(before)) why.erase(0, before.size());
  }
  return absl::InvalidArgumentError(why);
}

TryChainCommand::TryChainCommand()
    : FlagCommand({.summary = "try a chain",
                   .usage = "snf try-chain",
                   .about = "Is started by snf itself."}),
      daemon_(flags()) {
  AddList(flags(), "try_module", modules_);
  AddList(flags(), "try_chain", chains_);
  AddList(flags(), "try_config", config_);
  flags().Switch("try_settings", takes_settings_, "for snf itself");
}

absl::Status TryChainCommand::SettleFlags() {
  if (config_.empty()) return daemon_.run.Settle();
  const absl::Status given = flags().TryGive("config", config_.front());
  if (!given.ok()) return given;
  auto text = ReadConfigFile("/dev/stdin");
  if (!text.ok()) return text.status();
  daemon_.run.UseConfig(*std::move(text));
  if (!takes_settings_) return daemon_.run.Settle();
  absl::Status taken = daemon_.run.TakeConfig();
  return taken.ok() ? daemon_.Settle() : taken;
}

absl::Status TryChainCommand::Run() {
  daemon_.run.TellNoNotes();  // the daemon logs them
  daemon_.run.LoadModules(modules_);
  for (const std::string& chain : chains_) {
    const size_t equals = chain.find('=');
    if (equals == chain.npos) return absl::InvalidArgumentError(chain);
    daemon_.run.ReplaceChain(chain.substr(0, equals), chain.substr(equals + 1));
  }
  if (absl::Status s = SettleFlags(); !s.ok()) return s;
  // A packet that the NF holds back, for a piece of a pool, does not come to an
  // end there.
  const NfSpec& nf = daemon_.run.options().config.chains.front().nf;
  const proto::LaunchedNf launched = LaunchedNfOf(nf);
  if (!launched.is_confined()) {
    Rehearse(nf, {});
    return absl::OkStatus();
  }
  proto::ModuleQuestion question;
  *question.mutable_chain() = launched;
  return AskModuleProcess(question).status();
}

}  // namespace snf
