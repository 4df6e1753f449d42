// SPDX-License-Identifier: Apache-2.0
#include "platform/daemon/live_chain_setter.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/check.h"
#include "base/difference.h"
#include "base/text/wording.h"
#include "platform/daemon/try_chain.h"
#include "platform/modules/file_versions.h"
#include "platform/modules/nf_warnings.h"
#include "platform/service/daemon_log.h"
#include "resource_manager/launch/launcher.h"
#include "runtime/ring/real_clock.h"
#include "runtime/sdk/nf_module.h"
#include "runtime/sdk/nf_module_file.h"

namespace snf {
namespace {

namespace fs = std::filesystem;

// Returns the index of the chain of this name; a single one has any name.
size_t IndexOf(const RunRequest& options, const std::string& name) {
  if (options.has_one_chain()) return 0;
  const auto& chains = options.config.chains;
  const auto found = std::ranges::find(chains, name, &Config::Chain::name);
  SNF_CHECK(found != chains.end());
  return static_cast<size_t>(found - chains.begin());
}

// Returns true if there is an NF of that name in the chain, where a second one
// is told apart by a number.
bool Has(const NfSpec& spec, std::string_view name) {
  const auto nf = spec.create();
  const auto parts = nf->parts();
  if (parts.size() == 1) {
    const std::string text = spec.text();
    return text == name || text.starts_with(std::string(name) + "(");
  }
  return std::ranges::any_of(parts, [name](const auto& part) {
    return part.name.substr(0, part.name.find('#')) == name;
  });
}

}  // namespace

LiveChainSetter::LiveChainSetter(LiveSettings& settings, std::string program,
                                 std::string modules,
                                 const std::atomic<bool>& ends)
    : settings_(settings),
      program_(std::move(program)),
      folder_(std::move(modules)),
      ends_(ends) {}

void LiveChainSetter::Begin(ChainSet& chains, Start start,
                            LivePredecessor& upgrade) {
  upgrade_ = &upgrade;
  chains_ = &chains;
  start_ = std::move(start);
}

absl::StatusOr<std::string> LiveChainSetter::CopyModule(
    const std::string& file) {
  const auto bad = [&file](const std::string& what) {
    return absl::InvalidArgumentError(
        fmt::format("{}: {}", Printable(file), what));
  };
  if (copies_ == kMostModules) {
    return absl::FailedPreconditionError(fmt::format(
        "{} modules were deployed already, which all stay in memory; start the "
        "daemon anew",
        kMostModules));
  }
  std::error_code error;
  const uintmax_t bytes = fs::file_size(file, error);
  if (error) return bad(error.message());
  if (bytes > NfModuleFile::kMaxBytes) return bad("too large for a module");
  fs::create_directory(folder_, error);
  if (error) return bad(fmt::format("{}: {}", folder_, error.message()));
  // A daemon whose place this one has may have some of its own there.
  fs::path copy;
  do {
    copy = fs::path(folder_) / fmt::format("{}", ++copies_);
  } while (!fs::create_directory(copy, error) && !error &&
           copies_ < kMostModules);
  const fs::path to = copy / fs::path(file).filename();
  if (!error) fs::copy_file(file, to, error);
  if (error) return bad(fmt::format("{}: {}", to.string(), error.message()));
  return to.string();
}

absl::Status LiveChainSetter::Try(
    const Texts& texts, const std::vector<std::string>& modules) const {
  return TryChain(program_, {.command_line = settings_.CommandLine(),
                             .chains = texts,
                             .modules = modules,
                             .config_file = settings_.config_file(),
                             .config_text = settings_.config_text(),
                             .stop = &ends_});
}

absl::Status LiveChainSetter::TryConfig(const std::string& file,
                                        const std::string& text) const {
  absl::Status status =
      TryChain(program_, {.command_line = settings_.arguments(),
                          .chains = {},
                          .modules = LoadedNfModules(),
                          .config_file = file,
                          .config_text = text,
                          .takes_settings = true,
                          .stop = &ends_});
  if (!absl::IsInvalidArgument(status)) return status;
  return absl::DataLossError(status.message());
}

absl::Status LiveChainSetter::CheckAnother() const {
  if (!why_not_.empty()) return absl::FailedPreconditionError(why_not_);
  return absl::OkStatus();
}

void LiveChainSetter::BeginFrom(const LiveSettings::Values& flags) {
  if (!keep_.has_value()) return;
  began_ = flags;
  for (auto chain = noted_.begin(); chain != noted_.end(); ++chain) {
    chain->began = flags;
    const bool is_newest =
        std::ranges::find(chain + 1, noted_.end(), chain->name,
                          &KeptChain::name) == noted_.end();
    if (is_newest) chain->flags = flags;
  }
  const absl::Status noted = notes_->Begin(noted_);
  if (!noted.ok()) LogLine(LogLevel::kWarning, std::string(noted.message()));
}

// Returns the texts of chains with names of NFs for files of modules, for
// another file may have the name next.
absl::StatusOr<LiveChainSetter::Texts> LiveChainSetter::ByNames(
    const Texts& texts) const {
  const absl::StatusOr<RunRequest> options = settings_.OptionsWith(texts);
  if (!options.ok()) return options.status();
  Texts named;
  for (const Config::Chain& chain : options->config.chains) {
    const std::string name = options->config_file.empty() ? "" : chain.name;
    named[name] = chain.nf.text();
  }
  return named;
}

// Returns the members of the chains that have an NF of the module's name.
absl::StatusOr<std::vector<std::string>> LiveChainSetter::Deploy(
    const std::string& file, const Texts& texts, proto::ChainReply& reply) {
  const absl::StatusOr<std::string> copy = CopyModule(file);
  if (!copy.ok()) return copy.status();
  std::vector<std::string> tried = LoadedNfModules();
  tried.push_back(*copy);
  absl::Status status = Try(texts, tried);
  // From here on it is known not to crash where it is loaded.
  absl::StatusOr<const NfRegistration*> nf = nullptr;
  if (status.ok()) {
    nf = ReplaceByNfModule(*copy);
    status = nf.status();
  }
  if (!status.ok()) {
    std::error_code ignored;
    fs::remove_all(fs::path(*copy).parent_path(), ignored);
    // Whoever asked knows the file by its own name.
    std::string why(status.message());
    const size_t at = why.find(*copy);
    if (at != why.npos) why.replace(at, copy->size(), file);
    return absl::Status(status.code(), why);
  }
  set_nf_module_origin(*copy, file);
  modules_.push_back(*copy);
  reply.set_module_nf(std::string((*nf)->name));
  const auto options = settings_.OptionsWith(texts);
  if (!options.ok()) return options.status();
  std::vector<std::string> having;
  for (const Config::Chain& chain : options->config.chains) {
    if (!Has(chain.nf, (*nf)->name)) continue;
    having.push_back(options->has_one_chain() ? "" : chain.name);
  }
  return having;
}

RealOptions::Keep LiveChainSetter::KeepAt(const RealOptions::Keep& keep,
                                          uint32_t place) {
  RealOptions::Keep at = keep;
  if (place > 0) at.socket = fmt::format("{}.{}", keep.socket, place);
  return at;
}

// Returns the chains whose processes wait, and the newest of each name,
// whatever became of its processes: it has the flows that begin. Nothing, if
// none wait, or the daemon was started otherwise, which ends them.
std::vector<KeptChain> LiveChainSetter::WhatWaits(
    const std::vector<KeptChain>& noted,
    const std::vector<std::string>& names) const {
  std::vector<KeptChain> going_on;
  bool do_some_wait = false;
  for (auto chain = noted.begin(); chain != noted.end(); ++chain) {
    const std::string socket = KeepAt(*keep_, chain->place).socket;
    const bool is_newest =
        std::ranges::find(chain + 1, noted.end(), chain->name,
                          &KeptChain::name) == noted.end();
    const bool is_known = std::ranges::find(names, chain->name) != names.end();
    bool waits = Launcher::LookAt(socket).has_value();
    if (waits && (chain->began != began_ || !is_known)) {
      LogLine(LogLevel::kWarning,
              fmt::format(
                  "begins anew: chain {} was kept for {}", chain->number,
                  is_known ? Printable(DifferenceOf(chain->began, began_, "--"))
                           : "a chain \"" + Printable(chain->name) +
                                 "\", which is not there any more"));
      Launcher::EndWaiting(socket);
      waits = false;
    }
    do_some_wait |= waits;
    if (!waits && !(is_newest && is_known)) continue;
    KeptChain& kept = going_on.emplace_back(*chain);
    std::erase_if(kept.texts, [&names](const auto& text) {
      return names.size() > 1 &&
             std::ranges::find(names, text.first) == names.end();
    });
  }
  if (!do_some_wait) going_on.clear();
  return going_on;
}

absl::Status LiveChainSetter::Keep(const RealOptions::Keep& keep,
                                   const std::string& file,
                                   const std::vector<std::string>& names) {
  keep_ = keep;
  notes_.emplace(file);
  began_ = settings_.flags();
  const std::vector<KeptChain> noted = notes_->Read();
  // That the first chain is alone, its launcher tells better.
  const bool has_others =
      noted.size() > 1 || (!noted.empty() && noted[0].place > 0);
  if (has_others) noted_ = WhatWaits(noted, names);
  // A name without a chain is new in the file of --config.
  for (const std::string& name : names) {
    if (noted_.empty() ||
        std::ranges::count(noted_, name, &KeptChain::name) > 0) {
      continue;
    }
    const KeptChain& last = noted_.back();
    noted_.push_back({.number = last.number + 1,
                      .name = name,
                      .began = began_,
                      .place = last.place + 1,
                      .flags = last.flags,
                      .texts = last.texts,
                      .modules = last.modules});
  }
  before_.assign(noted_.begin(), noted_.end());
  if (noted_.empty()) {
    for (uint32_t place = 0; place < names.size(); ++place) {
      noted_.push_back({.number = place + 1,
                        .name = names[place],
                        .began = began_,
                        .place = place,
                        .flags = began_});
    }
  }
  return notes_->Begin(noted_);
}

absl::StatusOr<std::optional<LiveChainSetter::Kept>>
LiveChainSetter::NextKept() {
  if (before_.empty()) return std::nullopt;
  const KeptChain chain = std::move(before_.front());
  before_.pop_front();
  for (const std::string& module : chain.modules) {
    if (std::ranges::count(modules_, module) > 0) continue;
    const auto loaded = ReplaceByNfModule(module);
    if (!loaded.ok()) return loaded.status();
    modules_.push_back(module);
  }
  settings_.set_flags(chain.flags);
  auto options = settings_.OptionsWith(chain.texts);
  if (!options.ok()) return options.status();
  RunRequest alone = Alone(*options, IndexOf(*options, chain.name));
  settings_.AcceptChains(chain.texts, chain.name, alone.run.controller,
                         FileVersionsOf(alone.config.chains.front().nf));
  alone.real.KeepBy(KeepAt(*keep_, chain.place));
  return Kept{.options = std::move(alone),
              .number = chain.number,
              .name = chain.name,
              .is_newest = std::ranges::count(before_, chain.name,
                                              &KeptChain::name) == 0,
              .end_of_older = chain.end_of_older};
}

// Before the chain is in place: if the daemon is killed then, it just has no
// flows.
absl::Status LiveChainSetter::Note(const std::string& name, const Texts& texts,
                                   Nanos within, uint32_t place) {
  const Instant now = RealClock::Monotonic();
  noted_.push_back(
      {.number = noted_.back().number + 1,
       .name = has_rules() ? name : "",
       .began = began_,
       .place = place,
       .end_of_older = within == Nanos::max() ? Instant::max() : now + within,
       .flags = settings_.flags(),
       .texts = texts,
       .modules = modules_});
  return notes_->Add(noted_.back());
}

absl::Status LiveChainSetter::SetTried(Mailbox& mailbox,
                                       Mailbox::Deadline deadline,
                                       const std::string& name,
                                       const std::string& text,
                                       proto::ChainReply& reply) {
  Texts texts = {{"", text}};
  if (has_rules()) {
    texts = settings_.chains();
    texts[name] = text;
  }
  return Put(mailbox, deadline, name, texts, Nanos::max(), reply);
}

absl::Status LiveChainSetter::SetRules(Mailbox& mailbox,
                                       Mailbox::Deadline deadline,
                                       const RunRequest& options) {
  auto rules = options.MakeRules();
  if (!rules.ok()) return rules.status();
  return mailbox.Ask([&] { chains_->SetRules(*std::move(rules)); }, deadline);
}

absl::Status LiveChainSetter::Put(Mailbox& mailbox, Mailbox::Deadline deadline,
                                  const std::string& name, const Texts& texts,
                                  Nanos within, proto::ChainReply& reply) {
  const absl::StatusOr<RunRequest> options = settings_.OptionsWith(texts);
  if (!options.ok()) return options.status();
  RunRequest of_chain = Alone(*options, IndexOf(*options, name));
  const NfSpec& spec = of_chain.config.chains.front().nf;
  FileVersions files = FileVersionsOf(spec);
  const uint32_t place = noted_.empty() ? 0 : noted_.back().place + 1;
  if (keep_.has_value()) {
    of_chain.real.KeepBy(KeepAt(*keep_, place));
  }
  auto driver = start_(of_chain);
  if (!driver.ok()) return driver.status();
  const std::string nf = of_chain.nf;
  ChainSet::Member& member = **chains_->Find(name);
  absl::Status added;
  if (keep_.has_value()) added = Note(name, texts, within, place);
  const absl::Status asked = mailbox.Ask(
      [&] {
        if (added.ok()) added = chains_->Add(member, *driver, nf, within);
        if (!added.ok()) return;
        reply.set_number(member.chains->newest_number());
        reply.set_older_flows(member.chains->older_flows());
      },
      deadline);
  added.Update(asked);
  if (!added.ok()) {
    if (!keep_.has_value()) return added;
    noted_.pop_back();
    added.Update(notes_->Begin(noted_));
    return added;
  }
  settings_.AcceptChains(texts, has_rules() ? name : "",
                         of_chain.run.controller, std::move(files));
  reply.set_nf(nf);
  reply.set_is_new(true);
  LogLine(
      LogLevel::kInfo,
      fmt::format("chain {}{}: {}", reply.number(),
                  has_rules() ? ", " + Printable(name) : "", Printable(nf)));
  for (const std::string& warning : WarningsOf(spec)) {
    LogLine(LogLevel::kWarning, warning);
  }
  return absl::OkStatus();
}

absl::Status LiveChainSetter::Set(Mailbox& mailbox, Mailbox::Deadline deadline,
                                  const proto::ChainRequest& request,
                                  proto::ChainReply& reply) {
  if (!why_not_.empty()) return absl::FailedPreconditionError(why_not_);
  Texts texts = settings_.chains();
  const bool names_one = !request.text().empty() || !request.name().empty();
  if (has_rules() && names_one) {
    const auto member = chains_->Find(request.name());
    if (!member.ok()) {
      return absl::InvalidArgumentError(member.status().message());
    }
  }
  if (!request.text().empty()) {
    // A single chain has this text, whatever its name was when it was set.
    if (!has_rules()) texts.clear();
    texts[request.name()] = request.text();
  }
  std::vector<std::string> concerned = {has_rules() ? request.name() : ""};
  if (request.module().empty()) {
    if (absl::Status s = Try(texts, LoadedNfModules()); !s.ok()) return s;
  } else {
    if (request.text().empty()) {
      auto named = ByNames(texts);
      if (!named.ok()) return named.status();
      texts = *std::move(named);
    }
    auto having = Deploy(request.module(), texts, reply);
    if (!having.ok()) return having.status();
    LogLine(LogLevel::kInfo,
            fmt::format("deployed {} as NF {}", Printable(request.module()),
                        reply.module_nf()));
    concerned = *std::move(having);
  }
  const Nanos within =
      request.has_within_ns() ? Nanos{request.within_ns()} : Nanos::max();
  for (const std::string& name : concerned) {
    if (has_rules() && names_one && name != request.name()) continue;
    absl::Status status = Put(mailbox, deadline, name, texts, within, reply);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace snf
