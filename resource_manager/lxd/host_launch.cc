// SPDX-License-Identifier: Apache-2.0
#include "resource_manager/lxd/host_launch.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <thread>

#include "base/check.h"
#include "base/packet/ip_address_text.h"
#include "base/text/wording.h"

namespace snf {
namespace {

constexpr size_t kMostName = 63;  // as of a host name
constexpr auto kPause = std::chrono::milliseconds(100);

bool IsLetter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}
bool IsDigit(char c) { return c >= '0' && c <= '9'; }

// As LXD wants names of instances.
bool IsInstanceName(const std::string& name) {
  return !name.empty() && name.size() <= kMostName && IsLetter(name.front()) &&
         name.back() != '-' && std::ranges::all_of(name, [](char c) {
           return IsLetter(c) || IsDigit(c) || c == '-';
         });
}

// LXC splits the command at blanks, and knows quotes: words have neither.
bool IsPlainWord(const std::string& word) {
  return !word.empty() && std::ranges::all_of(word, [](char c) {
    return IsLetter(c) || IsDigit(c) ||
           std::string_view("-_.:,/=@+%[]").find(c) != std::string_view::npos;
  });
}

// Returns the configuration that LXD hands to LXC unchanged.
std::string LxcOf(const HostLauncher::Host& host) {
  std::string text = fmt::format(
      "lxc.init.cmd = {}\n"
      "lxc.signal.halt = SIGTERM\n"
      "lxc.net.0.ipv4.address = {}/{}\n",
      fmt::join(host.command, " "), host.address, host.prefix_bits);
  if (!host.gateway.empty()) {
    text += fmt::format("lxc.net.0.ipv4.gateway = {}\n", host.gateway);
  }
  return text;
}

absl::Status Missing(const std::string& text) {
  return absl::FailedPreconditionError(text);
}

// Returns true if another client may have come first: looking again may help.
bool IsOutrun(const absl::Status& status) {
  return absl::IsAlreadyExists(status) || absl::IsNotFound(status);
}

// Returns FailedPrecondition if the image is none of SNF's.
absl::Status CheckImage(LxdClient& client, const std::string& fingerprint,
                        const std::string& name) {
  const auto properties = client.PropertiesOfImage(fingerprint);
  if (!properties.ok()) return properties.status();
  if (properties->contains(HostLauncher::kImageProperty)) {
    return absl::OkStatus();
  }
  return Missing(
      fmt::format("--image: LXD has an image \"{}\" that was not made by snf "
                  "host image: it "
                  "is left as it is",
                  Printable(name)));
}

}  // namespace

absl::StatusOr<bool> HostLauncher::GiveImage(LxdClient& client,
                                             const std::string& file,
                                             const std::string& fingerprint,
                                             const std::string& name) {
  constexpr int kMostTries = 8;
  absl::Status outrun;
  for (int tries = 0; tries < kMostTries; ++tries) {
    const auto before = client.ImageOf(name);
    if (!before.ok()) return before.status();
    const bool is_new = !before->has_value();
    if (!is_new && **before == fingerprint) return false;
    absl::Status status =
        is_new ? absl::OkStatus() : CheckImage(client, **before, name);
    if (status.ok()) status = client.Import(file, fingerprint);
    if (status.ok()) status = client.SetAlias(name, fingerprint, is_new);
    if (status.ok()) return true;
    if (!IsOutrun(status)) return status;
    outrun = status;
  }
  return outrun;
}

absl::Status HostLauncher::Check(const Host& host) {
  if (!IsInstanceName(host.name)) {
    return absl::InvalidArgumentError(fmt::format(
        "\"{}\" is no name of an instance of LXD: at most {} letters, digits "
        "and - are wanted, a letter first and no - last",
        Printable(host.name), kMostName));
  }
  if (!ParseIpv4(host.address) || host.prefix_bits > 32) {
    return absl::InvalidArgumentError(
        fmt::format("{}/{} is no IPv4 address with the bits of its network",
                    Printable(host.address), host.prefix_bits));
  }
  if (!host.gateway.empty() && !ParseIpv4(host.gateway)) {
    return absl::InvalidArgumentError(
        fmt::format("{} is no IPv4 address", Printable(host.gateway)));
  }
  for (const std::string& word : host.command) {
    if (IsPlainWord(word)) continue;
    return absl::InvalidArgumentError(
        fmt::format("{}: has a character that a command in LXD cannot have",
                    Printable(word)));
  }
  return absl::OkStatus();
}

absl::Status HostLauncher::CheckTarget() {
  const std::string& target = options_.target;
  if (target.empty()) return absl::OkStatus();
  const absl::StatusOr<LxdServer> server = client_->Server();
  if (!server.ok()) return server.status();
  if (!server->is_clustered) {
    return Missing(fmt::format("target {}: LXD {} here is no cluster's member",
                               Printable(target), Printable(server->version)));
  }
  const bool is_group = target.starts_with('@');
  const absl::StatusOr<bool> is_here =
      client_->Has(is_group ? "cluster/groups" : "cluster/members",
                   is_group ? target.substr(1) : target);
  if (!is_here.ok()) return is_here.status();
  if (*is_here) return absl::OkStatus();
  return Missing(fmt::format(
      "target {}: LXD's cluster has no {} of that name; lxc cluster {} shows "
      "them",
      Printable(target), is_group ? "group" : "member",
      is_group ? "group list" : "list"));
}

absl::Status HostLauncher::Prepare() {
  if (absl::Status s = CheckTarget(); !s.ok()) return s;
  for (const std::string& profile : options_.profiles) {
    const absl::StatusOr<bool> is_here = client_->Has("profiles", profile);
    if (!is_here.ok()) return is_here.status();
    if (!*is_here) {
      return Missing(fmt::format(
          "profile {}: LXD has none of that name; lxc profile list shows them",
          Printable(profile)));
    }
  }
  const auto image = client_->ImageOf(options_.image);
  if (!image.ok()) return image.status();
  const std::optional<std::string>& fingerprint = *image;
  if (!fingerprint) {
    return Missing(
        fmt::format("image {}: LXD has none of that name; snf host image makes "
                    "it",
                    Printable(options_.image)));
  }
  const auto properties = client_->PropertiesOfImage(*fingerprint);
  if (!properties.ok()) return properties.status();
  if (!properties->contains(kImageProperty)) {
    return Missing(fmt::format("image {}: was not made by snf host image",
                               Printable(options_.image)));
  }
  fingerprint_ = *fingerprint;
  return absl::OkStatus();
}

absl::Status HostLauncher::CheckOwn(const LxdInstance& instance) const {
  const std::string& cluster = instance.At(kClusterKey);
  if (!cluster.empty() && cluster == options_.cluster) return absl::OkStatus();
  return absl::FailedPreconditionError(
      cluster.empty()
          ? fmt::format("instance \"{}\" is there already, and is none of "
                        "SNF's: it is left as it is",
                        Printable(instance.name))
          : fmt::format("instance \"{}\" is of cluster \"{}\", not \"{}\": it "
                        "is left as it is",
                        Printable(instance.name), Printable(cluster),
                        options_.cluster));
}

absl::StatusOr<bool> HostLauncher::AwaitRemoval(const std::string& name) {
  const auto end = std::chrono::steady_clock::now() +
                   std::chrono::nanoseconds(options_.removal.ns);
  while (true) {
    const auto found = client_->Find(name);
    if (!found.ok()) return found.status();
    if (!*found) return true;
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(kPause);
  }
}

absl::Status HostLauncher::Remove(const std::string& name) {
  const absl::Status removed = client_->Delete(name);
  if (removed.ok() || absl::IsNotFound(removed)) return absl::OkStatus();
  // LXD may be removing the instance.
  const absl::StatusOr<bool> is_gone = AwaitRemoval(name);
  if (!is_gone.ok()) return is_gone.status();
  return *is_gone ? absl::OkStatus() : removed;
}

absl::StatusOr<HostLauncher::Launched> HostLauncher::Launch(const Host& host) {
  SNF_CHECK(!fingerprint_.empty());  // prepared
  if (absl::Status s = Check(host); !s.ok()) return s;
  const std::string lxc = LxcOf(host);
  const auto found = client_->Find(host.name);
  if (!found.ok()) return found.status();
  const std::optional<LxdInstance>& before = *found;
  if (before) {
    const LxdInstance& instance = *before;
    if (absl::Status s = CheckOwn(instance); !s.ok()) return s;
    if (instance.is_running()) {
      const char* const other =
          instance.At("raw.lxc") != lxc            ? "other flags"
          : instance.profiles != options_.profiles ? "other profiles"
          : instance.At("volatile.base_image") != fingerprint_ ? "another image"
                                                               : nullptr;
      if (other == nullptr) {
        return Launched{.is_new = false, .location = instance.location};
      }
      return absl::FailedPreconditionError(
          fmt::format("host \"{}\" runs with {}: snf host stop {} ends it",
                      host.name, other, host.name));
    }
    if (instance.status != "Stopped") {
      return absl::FailedPreconditionError(fmt::format(
          "instance \"{}\" on member {} is neither running nor stopped: LXD "
          "says {}",
          host.name, Printable(instance.location), Printable(instance.status)));
    }
    if (absl::Status s = Remove(host.name); !s.ok()) return s;
  }
  absl::Status made =
      client_->Create({.name = host.name,
                       .image = fingerprint_,
                       .target = options_.target,
                       .profiles = options_.profiles,
                       .config = {{"boot.autostart", "false"},
                                  {kClusterKey, options_.cluster},
                                  {kAddressKey, host.address},
                                  {"raw.lxc", lxc}}});
  if (!made.ok()) return made;
  made = client_->Start(host.name);
  if (!made.ok()) {
    // The reason is more than what becomes of the rest.
    [[maybe_unused]] const absl::Status removed = Remove(host.name);
    return made;
  }
  const auto after = client_->Find(host.name);
  if (!after.ok()) return after.status();
  const std::optional<LxdInstance>& instance = *after;
  return Launched{.is_new = true,
                  .location = instance ? instance->location : ""};
}

absl::StatusOr<bool> HostLauncher::Stop(const std::string& name,
                                        Nanos patience) {
  const auto found = client_->Find(name);
  if (!found.ok()) return found.status();
  const std::optional<LxdInstance>& instance = *found;
  if (!instance) return false;
  if (absl::Status s = CheckOwn(*instance); !s.ok()) return s;
  absl::Status ended = absl::OkStatus();
  if (instance->status != "Stopped") {
    ended = client_->Stop(name, patience);
    if (absl::IsFailedPrecondition(ended)) ended = client_->Kill(name);
  }
  // LXD removes an ephemeral instance that has ended, also amid a call.
  const absl::Status removed = Remove(name);
  if (!removed.ok()) return ended.ok() ? removed : ended;
  return true;
}

absl::StatusOr<std::vector<LxdInstance>> HostLauncher::List() {
  auto instances = client_->Instances();
  if (!instances.ok()) return instances.status();
  std::erase_if(*instances, [this](const LxdInstance& instance) {
    return !CheckOwn(instance).ok();
  });
  return instances;
}

}  // namespace snf
