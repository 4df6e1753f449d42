// SPDX-License-Identifier: Apache-2.0
#include "platform/daemon/manager_membership.h"

#include <fmt/format.h>

#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

#include "absl/strings/str_split.h"
#include "base/quantity.h"
#include "base/text/wording.h"
#include "platform/daemon/lease_member.h"
#include "platform/service/daemon_files.h"
#include "platform/service/daemon_log.h"
#include "platform/service/tls_endpoint.h"
#include "platform/service/tls_files.h"
#include "resource_manager/live/lease_words.h"
#include "resource_manager/live/manager_look.h"
#include "resource_manager/live/member_file.h"
#include "resource_manager/live/process_watch.h"

namespace snf {
namespace {

constexpr std::string_view kTcp = "tcp:";
// For each of several managers to say which units it has.
constexpr Nanos kOfLook = Seconds(2);

std::vector<std::string> PartsOf(const std::string& managers) {
  return absl::StrSplit(managers, ',');
}

}  // namespace

absl::Status ManagerMembership::Refuse(const std::string& why) const {
  return absl::InvalidArgumentError(
      fmt::format("--manager={}: {}", Printable(options_.manager), why));
}

absl::Status ManagerMembership::CheckFlags(const FlagSet& flags,
                                           bool upgrade) const {
  bool has_address = false;
  for (const std::string& part : PartsOf(options_.manager)) {
    if (part == options_.daemon) {
      return Refuse("the daemon wants a name of its own, by --name");
    }
    if (part.starts_with(kTcp)) {
      has_address = true;
      const auto address = ParseTcpAddress(part);
      if (!address.ok()) return Refuse(std::string(address.status().message()));
    } else if (part.find_first_of(":/") != part.npos) {
      return Refuse(
          "wants the name of a resource manager of this machine, or "
          "tcp:HOST:PORT");
    }
  }
  if (has_address && options_.tls.empty()) {
    return Refuse(
        "over TCP both ends need certificates: add --manager_tls=DIRECTORY, "
        "made by snf cert");
  }
  if (!has_address && !options_.tls.empty()) {
    return absl::InvalidArgumentError(
        "--manager_tls: wants --manager=tcp:HOST:PORT");
  }
  for (const char* const flag :
       {"max_units", "unit_capacity", "warm_pool", "warm_units"}) {
    if (!flags.given(flag)) continue;
    return Refuse(
        fmt::format("--{}: the resource manager has the units", flag));
  }
  if (upgrade) return Refuse("is not for --upgrade");
  return absl::OkStatus();
}

absl::Status ManagerMembership::Settle(FlagSet& flags, bool upgrade) const {
  if (absl::Status s = CheckFlags(flags, upgrade); !s.ok()) return s;
  auto units = UnitsByFiles();
  if (units.ok() && !units->has_value()) units = UnitsByAddress();
  if (!units.ok()) return units.status();
  const std::vector<std::string> parts = PartsOf(options_.manager);
  if (!units->has_value()) {
    return absl::FailedPreconditionError(fmt::format(
        "no resource manager \"{0}\" runs{1}; snf manager --name={2} starts "
        "one",
        options_.manager, parts.size() > 1 ? ", or none of them leads" : "",
        parts.front()));
  }
  if ((*units)->follow_hosts != options_.follows_hosts) {
    return absl::FailedPreconditionError(fmt::format(
        "--manager={}: {}", Printable(options_.manager),
        options_.follows_hosts
            ? "has units of its own machine, and --etcd says that units run on "
              "the hosts of a cluster; snf manager --hosts has such units"
            : "has units on the hosts of a cluster: add --etcd, with the "
              "cluster's servers"));
  }
  flags.Give("max_units", {std::to_string((*units)->count)});
  flags.Give("unit_capacity",
             {FormatBitRate((*units)->capacity_bps, Precision::kExact)});
  return absl::OkStatus();
}

// Managers that have led agree on their units.
absl::StatusOr<std::optional<ManagerMembership::Units>>
ManagerMembership::UnitsByFiles() const {
  for (const std::string& part : PartsOf(options_.manager)) {
    if (part.starts_with(kTcp)) continue;
    const absl::StatusOr<DaemonFiles> of = DaemonFiles::Of(part);
    if (!of.ok()) return of.status();
    const absl::StatusOr<pid_t> pid = PidOf(*of);
    if (!pid.ok()) return pid.status();
    const auto noted = MemberFile::Read(of->members);
    if (!noted.ok()) return noted.status();
    if (*pid == 0 || !noted->has_value()) continue;
    return Units{.count = (*noted)->units,
                 .capacity_bps = (*noted)->unit_capacity_bps,
                 .follow_hosts = (*noted)->follows_hosts};
  }
  return std::nullopt;
}

absl::StatusOr<std::optional<ManagerMembership::Units>>
ManagerMembership::UnitsByAddress() const {
  auto addresses = Addresses();
  if (!addresses.ok()) return addresses.status();
  std::erase_if(*addresses, [](const LeaseAddress& address) {
    return !address.tls.has_value();
  });
  if (addresses->empty()) return std::nullopt;
  const auto reply = LookAtManagers(*addresses, kOfLook);
  if (!reply.ok()) {
    std::string why;
    for (const LeaseAddress& address : *addresses) {
      why += (why.empty() ? "" : "; ") +
             LeaseMember::WhyNoManager(address, reply.status());
    }
    return absl::FailedPreconditionError(fmt::format(
        "no resource manager \"{}\" answers: {}", options_.manager, why));
  }
  return Units{.count = reply->units(),
               .capacity_bps = reply->unit_capacity_bps(),
               .follow_hosts = reply->follows_hosts()};
}

absl::StatusOr<std::vector<LeaseAddress>> ManagerMembership::Addresses() const {
  std::optional<LeaseTls> tls;
  if (!options_.tls.empty()) {
    auto files = ReadTlsFiles(options_.tls, TlsEnd::kClient);
    if (!files.ok()) return files.status();
    tls = LeaseTls{.authority = std::move(files->authority),
                   .certificate = std::move(files->certificate),
                   .key = std::move(files->key)};
  }
  std::vector<LeaseAddress> addresses;
  for (const std::string& part : PartsOf(options_.manager)) {
    if (part.starts_with(kTcp)) {
      const absl::StatusOr<TcpAddress> address = ParseTcpAddress(part);
      if (!address.ok()) return address.status();
      addresses.push_back({.target = address->text(), .tls = tls});
      continue;
    }
    const absl::StatusOr<DaemonFiles> of = DaemonFiles::Of(part);
    if (!of.ok()) return of.status();
    addresses.push_back(LeaseAddress::OfSocket(of->leases));
  }
  return addresses;
}

absl::Status ManagerMembership::CheckChains(const RunRequest& options) const {
  for (const Config::Chain& chain : options.config.chains) {
    const size_t bytes = MemberNameOf(chain).size();
    if (!options.has_one_chain() && bytes > kMostOfMemberName) {
      return absl::InvalidArgumentError(fmt::format(
          "--manager={}: chain \"{}\": the resource manager would know it as "
          "{}, of {} bytes; at most {} are possible",
          Printable(options_.manager), Printable(chain.name),
          Printable(MemberNameOf(chain)), bytes, kMostOfMemberName));
    }
    if (!chain.max_units.has_value() && !chain.unit_capacity_bps.has_value()) {
      continue;
    }
    return absl::InvalidArgumentError(fmt::format(
        "--manager={}: chain \"{}\" has {}: the resource manager has the units",
        Printable(options_.manager), Printable(chain.name),
        chain.max_units.has_value() ? "max_units" : "unit_capacity"));
  }
  return absl::OkStatus();
}

std::string ManagerMembership::MemberNameOf(const Config::Chain& chain) const {
  return options_.daemon + "." + chain.name;
}

absl::StatusOr<std::vector<std::unique_ptr<DaemonLeases>>>
ManagerMembership::Join(const RunRequest& options) const {
  std::vector<std::unique_ptr<DaemonLeases>> all;
  const auto join = [&](const std::string& name, const RunRequest& of) {
    auto joined = JoinAs(name, of);
    if (joined.ok()) all.push_back(*std::move(joined));
    return joined.status();
  };
  if (options.has_one_chain()) {
    if (absl::Status s = join(options_.daemon, options); !s.ok()) return s;
    return all;
  }
  for (size_t i = 0; i < options.config.chains.size(); ++i) {
    const std::string name = MemberNameOf(options.config.chains[i]);
    if (absl::Status s = join(name, Alone(options, i)); !s.ok()) return s;
  }
  return all;
}

absl::StatusOr<std::unique_ptr<DaemonLeases>> ManagerMembership::JoinAs(
    const std::string& name, const RunRequest& options) const {
  constexpr Nanos kOfJoin = Seconds(10);
  auto addresses = Addresses();
  if (!addresses.ok()) return addresses.status();
  const ControllerOptions& controller = options.run.controller;
  std::optional<ControllerId> id;
  if (options.controller.count > 1) {
    id = ControllerId{static_cast<uint8_t>(options.controller.id)};
  }
  auto member = LeaseMember::Join(
      {.addresses = *std::move(addresses),
       .manager = options_.manager,
       .process = OwnProcessId(),
       .name = name,
       .controller = id,
       .units = controller.max_units,
       .unit_capacity_bps = controller.unit_capacity_bps,
       .follows_hosts = options_.follows_hosts,
       .notice =
           [](bool is_warning, const std::string& line) {
             LogLine(is_warning ? LogLevel::kWarning : LogLevel::kInfo, line);
           }},
      kOfJoin);
  if (!member.ok()) return member.status();
  return std::make_unique<DaemonLeases>(*std::move(member), options.run);
}

}  // namespace snf
