// SPDX-License-Identifier: Apache-2.0
#include "platform/modules/module_stand_ins.h"

#include <fmt/format.h>

#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_split.h"
#include "base/check.h"
#include "platform/modules/described_nf.h"
#include "runtime/sdk/nf_module.h"
#include "runtime/sdk/nf_registry.h"

namespace snf {
namespace {

using Values = std::map<std::string, std::string>;

absl::StatusOr<proto::ModuleAnswer> AskChecked(
    const ModuleAsker& ask, const proto::ModuleQuestion& question) {
  auto answer = ask(question);
  if (!answer.ok()) return answer;
  for (const proto::NfDescription& description : answer->nf()) {
    if (absl::Status s = CheckDescription(description); !s.ok()) return s;
  }
  return answer;
}

// An NF of a module that is not loaded. Lives as long as the program, as its
// registration does.
class StandIn {
 public:
  // `ask` describes it with other options; null: there are no others.
  StandIn(std::string module, ModuleAsker ask)
      : module_(std::move(module)), ask_(std::move(ask)) {}

  // Adds a description. The first one is that of an object without options, or
  // stands for it.
  void Add(proto::NfDescription description) {
    const Values values(description.given().begin(), description.given().end());
    const std::lock_guard lock(mutex_);
    auto& known = known_[values];
    if (known != nullptr) return;
    known = std::make_unique<const HeldDescription>(std::move(description));
    if (first_ == nullptr) first_ = known.get();
  }
  void Register() {
    SNF_CHECK(first_ != nullptr);
    const proto::NfDescription& nf = first_->description;
    registration_ = std::make_unique<const NfRegistration>(
        nf.name(), nf.summary(),
        [this](NfOptions& options) { return Make(options); });
  }

  // Returns the description for these options. Errors: the NF's, for options.
  absl::StatusOr<const HeldDescription*> Find(const Values& values) {
    const HeldDescription* description = FindKnown(values);
    if (description == nullptr) {
      if (absl::Status s = AskFor(values); !s.ok()) return s;
      description = FindKnown(values);
    }
    const std::string& error = description->description.error();
    if (error.empty()) return description;
    return absl::InvalidArgumentError(error);
  }

 private:
  const HeldDescription* FindKnown(const Values& values) {
    const std::lock_guard lock(mutex_);
    const auto found = known_.find(values);
    return found == known_.end() ? nullptr : found->second.get();
  }

  const std::string& name() const { return first_->description.name(); }

  absl::Status AskFor(const Values& values) {
    if (ask_ == nullptr) {
      return absl::InternalError(
          fmt::format("NF \"{}\" was launched with other options", name()));
    }
    proto::ModuleQuestion question;
    question.add_module(module_);
    auto& described = *question.mutable_described();
    described.set_nf(name());
    described.mutable_option()->insert(values.begin(), values.end());
    const NfSpec alone(*FindNf(name()), NfOptions(values));
    for (const NfSpec::InputFile& input : alone.input_files()) {
      for (const std::string& path : PathsOf(input)) question.add_file(path);
    }
    auto answer = AskChecked(ask_, question);
    if (!answer.ok()) return answer.status();
    const bool is_it =
        answer->nf().size() == 1 && answer->nf(0).name() == name() &&
        Values(answer->nf(0).given().begin(), answer->nf(0).given().end()) ==
            values;
    if (!is_it) {
      return absl::InvalidArgumentError(
          fmt::format("{}: it does not describe NF \"{}\"", module_, name()));
    }
    Add(std::move(*answer->mutable_nf(0)));
    return absl::OkStatus();
  }

  std::unique_ptr<NetworkFunction> Make(NfOptions& options) {
    // Only the module knows the options that may change while packets go
    // through.
    options.Changing([this](NfOptions& asked) {
      for (const auto& option : first_->description.option()) {
        asked.Text(option.key(), option.otherwise(), option.values(),
                   option.help());
      }
      return 0;
    });
    const Values values = options.values();
    const auto described = options.Share<const HeldDescription*>(
        "described", [&] { return Find(values); });
    return std::make_unique<DescribedNf>(described == nullptr ? *first_
                                                              : **described);
  }

  const std::string module_;
  const ModuleAsker ask_;
  std::mutex mutex_;
  std::map<Values, std::unique_ptr<const HeldDescription>> known_;
  const HeldDescription* first_ = nullptr;
  std::unique_ptr<const NfRegistration> registration_;
};

// Returns a stand-in that lives as long as the program: chains may use it
// after another NF has taken its name.
StandIn& NewStandIn(const std::string& module, ModuleAsker ask) {
  static auto& all = *new std::vector<std::unique_ptr<StandIn>>;
  all.push_back(std::make_unique<StandIn>(module, std::move(ask)));
  return *all.back();
}

bool confines = false;

// The newest stand-in of each name.
std::map<std::string, StandIn*>& NewestStandIns() {
  static std::map<std::string, StandIn*> newest;
  return newest;
}

absl::Status RegisterStandIns(const std::string& module,
                              const ModuleAsker& ask) {
  proto::ModuleQuestion question;
  question.add_module(module);
  auto answer = AskChecked(ask, question);
  if (!answer.ok()) {
    std::string why(answer.status().message());
    if (why.starts_with(module + ": ")) why.erase(0, module.size() + 2);
    return absl::Status(answer.status().code(), why);
  }
  for (proto::NfDescription& description : *answer->mutable_nf()) {
    StandIn& made = NewStandIn(module, ask);
    NewestStandIns()[description.name()] = &made;
    made.Add(std::move(description));
    made.Register();
  }
  return absl::OkStatus();
}

// Makes stand-ins of the NFs' descriptions known.
absl::Status RegisterLaunched(const proto::LaunchedNf& launched) {
  CaughtNfs caught;
  std::map<std::string, StandIn*> made;
  for (const proto::NfDescription& description : launched.nf()) {
    if (absl::Status s = CheckDescription(description); !s.ok()) return s;
    StandIn*& of_name = made[description.name()];
    const bool is_new = of_name == nullptr;
    if (is_new) of_name = &NewStandIn("", nullptr);
    of_name->Add(description);
    if (is_new) of_name->Register();
  }
  caught.Add();
  return absl::OkStatus();
}

absl::Status LoadModules(const proto::LaunchedNf& launched) {
  for (const std::string& module : launched.module()) {
    const auto loaded = ReplaceByNfModule(module);
    if (!loaded.ok()) return loaded.status();
  }
  return absl::OkStatus();
}

}  // namespace

void ConfineModules(ModuleAsker ask) {
  if (std::exchange(confines, true)) return;
  set_nf_module_stand_ins([ask = std::move(ask)](const std::string& module) {
    return RegisterStandIns(module, ask);
  });
}

std::vector<std::string> PathsOf(const NfSpec::InputFile& input) {
  std::error_code ignored;
  if (std::filesystem::exists(input.file, ignored)) return {input.file};
  return absl::StrSplit(input.file, '+');
}

proto::LaunchedNf LaunchedNfOf(const NfSpec& nf) {
  proto::LaunchedNf launched;
  launched.set_text(nf.text());
  for (const std::string& module : LoadedNfModules()) {
    launched.add_module(module);
  }
  launched.set_is_confined(confines && !launched.module().empty());
  if (!launched.is_confined()) return launched;
  for (const auto& [registration, options] : nf.nfs()) {
    const auto stand_in =
        NewestStandIns().find(std::string(registration->name));
    if (stand_in == NewestStandIns().end()) continue;
    const auto description = stand_in->second->Find(options);
    SNF_CHECK(description.ok());
    *launched.add_nf() = (*description)->description;
    const NfSpec alone(*registration, NfOptions(options));
    for (const NfSpec::InputFile& input : alone.input_files()) {
      for (const std::string& path : PathsOf(input)) launched.add_file(path);
    }
  }
  return launched;
}

absl::StatusOr<ReadNf> ReadLaunchedNf(std::string_view bytes) {
  proto::LaunchedNf launched;
  if (!launched.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return absl::InternalError("an invalid NF");
  }
  return MakeKnown(std::move(launched));
}

absl::StatusOr<ReadNf> MakeKnown(proto::LaunchedNf launched) {
  ReadNf read = {.nf = {}, .launched = std::move(launched)};
  absl::Status known = read.launched.is_confined()
                           ? RegisterLaunched(read.launched)
                           : LoadModules(read.launched);
  if (!known.ok()) return known;
  auto nf = NfSpec::Parse(read.launched.text());
  if (!nf.ok()) return nf.status();
  if (absl::Status s = nf->check(); !s.ok()) return s;
  read.nf = *std::move(nf);
  return read;
}

absl::StatusOr<NfSpec> ReadNf::Load() const {
  if (absl::Status s = LoadModules(launched); !s.ok()) return s;
  NfSpec loaded = nf.WithKnownNfs();
  if (absl::Status s = loaded.check(); !s.ok()) return s;
  if (loaded.create()->schema().hash() != nf.create()->schema().hash()) {
    return absl::InternalError(
        fmt::format("\"{}\": its state differs from what its modules have "
                    "described",
                    launched.text()));
  }
  return loaded;
}

}  // namespace snf
