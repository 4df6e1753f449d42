// SPDX-License-Identifier: Apache-2.0
#include "platform/replay/live_chain_setter.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>

#include "platform/control/daemon_log.h"
#include "platform/replay/try_chain.h"
#include "platform/text/wording.h"
#include "runtime/sdk/nf_module.h"
#include "runtime/sdk/nf_module_file.h"

namespace snf {
namespace {

namespace fs = std::filesystem;

// What of a run is of the whole process, and cannot be there twice.
absl::Status CheckTwice(const ReplayOptions& options) {
  if (options.real.pin) {
    return absl::FailedPreconditionError(
        "--pin: another chain has threads of its own, and no CPUs for them");
  }
  if (options.run.state == StateMode::kExternal) {
    return absl::FailedPreconditionError(
        "--state=external: two chains in one store would take each other's "
        "flows for theirs");
  }
  return absl::OkStatus();
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
                                 std::string modules)
    : settings_(settings),
      program_(std::move(program)),
      folder_(std::move(modules)) {}

void LiveChainSetter::Begin(LiveChains& chains, Start start,
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
                             .modules = modules});
}

// Returns true if the chain has an NF of the module's name.
absl::StatusOr<bool> LiveChainSetter::Deploy(const std::string& file,
                                             const Texts& texts,
                                             proto::ChainReply& reply) {
  const absl::StatusOr<std::string> copy = CopyModule(file);
  if (!copy.ok()) return copy.status();
  std::vector<std::string> modules = modules_;
  modules.push_back(*copy);
  absl::Status status = Try(texts, modules);
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
  modules_ = std::move(modules);
  reply.set_module_nf(std::string((*nf)->name));
  const auto options = settings_.OptionsWith(texts);
  if (!options.ok()) return options.status();
  return Has(options->config.chains.front().nf, (*nf)->name);
}

absl::Status LiveChainSetter::Put(Mailbox& mailbox, Mailbox::Deadline deadline,
                                  const Texts& texts, Nanos within,
                                  proto::ChainReply& reply) {
  const absl::StatusOr<ReplayOptions> options = settings_.OptionsWith(texts);
  if (!options.ok()) return options.status();
  if (absl::Status s = CheckTwice(*options); !s.ok()) return s;
  auto driver = start_(*options);
  if (!driver.ok()) return driver.status();
  const std::string nf = options->config.chains.front().nf.text();
  absl::Status added;
  const absl::Status asked = mailbox.Ask(
      [&] {
        added = chains_->Add(*driver, nf, within);
        if (!added.ok()) return;
        reply.set_number(chains_->newest_number());
        reply.set_older_flows(chains_->older_flows());
      },
      deadline);
  if (!asked.ok()) return asked;
  if (!added.ok()) return added;
  settings_.AcceptChains(texts, options->run.controller);
  reply.set_nf(nf);
  reply.set_is_new(true);
  LogLine(LogLevel::kInfo,
          fmt::format("chain {}: {}", reply.number(), Printable(nf)));
  return absl::OkStatus();
}

absl::Status LiveChainSetter::Set(Mailbox& mailbox, Mailbox::Deadline deadline,
                                  const proto::ChainRequest& request,
                                  proto::ChainReply& reply) {
  Texts texts = settings_.chains();
  if (!request.text().empty()) texts[request.name()] = request.text();
  if (request.module().empty()) {
    if (absl::Status s = Try(texts, modules_); !s.ok()) return s;
  } else {
    const absl::StatusOr<bool> concerns =
        Deploy(request.module(), texts, reply);
    if (!concerns.ok()) return concerns.status();
    LogLine(LogLevel::kInfo,
            fmt::format("deployed {} as NF {}", Printable(request.module()),
                        reply.module_nf()));
    if (!*concerns) return absl::OkStatus();
  }
  const Nanos within =
      request.has_within_ns() ? Nanos{request.within_ns()} : Nanos::max();
  return Put(mailbox, deadline, texts, within, reply);
}

}  // namespace snf
