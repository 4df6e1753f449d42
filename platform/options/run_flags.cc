// SPDX-License-Identifier: Apache-2.0
#include "platform/options/run_flags.h"

namespace snf {
namespace {

// Returns the defaults of a run, which flags then change.
RunRequest DefaultsOf(RunFlags::Input input) {
  RunRequest request;
  request.run.controller.start_timeout = Seconds(10);
  request.run.nf_patience = Seconds(10);
  if (input == RunFlags::Input::kCaptures) return request;
  request.is_real_time = true;
  request.real.unpaced = true;
  request.real.one_of_two_cpus = true;
  // For the frames of several packets that TCP connections have under way. A
  // page that no frame has reached takes no memory.
  request.real.buffers.large = 1'024;
  request.run.check = false;
  return request;
}

}  // namespace

RunFlags::RunFlags(FlagSet& flags, Input input)
    : request_(DefaultsOf(input)),
      set_(flags, request_, input == Input::kCaptures),
      input_(set_),
      output_(set_),
      story_(set_),
      flow_(set_),
      state_(set_),
      fault_(set_),
      lease_(set_),
      unit_(set_),
      real_(set_) {
  flags.Section("");
}

absl::Status RunFlags::TakeConfig(std::vector<std::string>* all_wrong) {
  if (request_.config_file.empty()) return absl::OkStatus();
  if (request_.config_text.empty()) {
    auto text = ReadConfigFile(request_.config_file);
    if (!text.ok()) return text.status();
    request_.config_text = *std::move(text);
  }
  auto settings =
      ConfigSettings::Parse(request_.config_text, request_.config_file);
  std::vector<std::string> wrong;
  if (settings.ok()) {
    settings_ = *std::move(settings);
    wrong = settings_.GiveTo(set_.flags);
  } else {
    wrong = {std::string(settings.status().message())};
  }
  if (wrong.empty()) return absl::OkStatus();
  if (all_wrong != nullptr) *all_wrong = wrong;
  return absl::DataLossError(wrong.front());
}

absl::Status RunFlags::Settle() { return Placed(SettleAll()); }

absl::Status RunFlags::Placed(const absl::Status& status) const {
  if (status.ok()) return status;
  const std::string message(status.message());
  const std::string placed = settings_.Placed(message);
  return placed == message ? status : absl::DataLossError(placed);
}

absl::Status RunFlags::SettleAll() {
  NumberPorts(request_.ports);
  flow_.SettlePolicies(story_.compared());
  if (absl::Status s = Check(); !s.ok()) return s;
  SettleParts();
  if (absl::Status s = input_.SettleChains(); !s.ok()) return s;
  if (absl::Status s = output_.CheckIpfix(); !s.ok()) return s;
  if (absl::Status s = fault_.CheckFaults(); !s.ok()) return s;
  if (absl::Status s = story_.SettleExplain(input_.has_sides()); !s.ok()) {
    return s;
  }
  if (absl::Status s = input_.SettleController(); !s.ok()) return s;
  SettleFlags();
  fault_.Settle();
  return absl::OkStatus();
}

absl::Status RunFlags::Check() const {
  absl::Status status = input_.Check();
  if (status.ok()) status = flow_.Check();
  if (status.ok()) status = unit_.Check();
  if (status.ok()) status = state_.Check();
  if (status.ok()) status = fault_.Check();
  if (status.ok()) status = story_.Check();
  if (status.ok()) status = real_.Check();
  if (status.ok()) status = lease_.Check();
  if (status.ok()) status = output_.Check();
  if (status.ok()) status = story_.CheckReadOnce();
  return status;
}

void RunFlags::SettleParts() {
  input_.SettleCapture();
  flow_.Settle();
  state_.Settle();
  lease_.Settle();
  unit_.Settle();
  real_.Settle();
  output_.Settle();
}

void RunFlags::SettleFlags() {
  const FlagSet& flags = set_.flags;
  request_.arguments = flags.arguments();
  for (auto& [name, value] : flags.values()) {
    const FlagSet::Traits& traits = *flags.Find(name);
    const bool repeat = !traits.is_output &&
                        (flags.given(name) || name == input_.bundled_flag());
    if (traits.section == RunFlagSet::kSection && repeat &&
        !traits.is_repeated && name != "config") {
      request_.given[name] = value;
    }
    if (traits.may_change) request_.changeable[name] = value;
    request_.flags.push_back({.name = name, .value = value, .repeat = repeat});
  }
}

}  // namespace snf
