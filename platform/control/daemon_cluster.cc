// SPDX-License-Identifier: Apache-2.0
#include "platform/control/daemon_cluster.h"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <memory>
#include <utility>

#include "base/messages/controller_counts.h"
#include "platform/control/call_limit.h"
#include "platform/control/control_client.h"
#include "platform/control/control_figures.h"
#include "platform/run/figures/figures.h"

// In glibc 2.36 the header does not say that its functions are C's.
extern "C" {
#include <sys/pidfd.h>
}

namespace snf {
namespace {

// Asks once. Clients are there until the process ends, as that of
// DaemonCommand.
template <typename Request>
auto AskOnce(const DaemonFiles& files, const Request& request) {
  static auto& clients = *new std::vector<std::unique_ptr<ControlClient>>;
  const Nanos patience = ControlClient::PatienceOf(request);
  const CallLimit limit(
      fmt::format("snf: \"{}\" cannot be asked: this takes too long",
                  files.name),
      Nanos{patience.ns + Seconds(10).ns});
  clients.push_back(ControlClient::Connect(files.socket));
  return clients.back()->Ask(request);
}

// Says whose error it is. An answer that there is none is no input or output
// that failed.
absl::Status OfMember(const ClusterMember& member, const absl::Status& status) {
  const std::string text = fmt::format("\"{}\": {}", member.files.name,
                                       std::string(status.message()));
  const bool is_for_user =
      status.code() == absl::StatusCode::kInvalidArgument ||
      status.code() == absl::StatusCode::kPermissionDenied;
  return {is_for_user ? status.code() : absl::StatusCode::kFailedPrecondition,
          text};
}

// Both list the same settings, in order.
absl::Status CheckSame(const ClusterMember& a, const proto::SetReply& of_a,
                       const ClusterMember& b, const proto::SetReply& of_b) {
  const int settings = std::min(of_a.setting_size(), of_b.setting_size());
  for (int i = 0; i < settings; ++i) {
    const proto::Setting& one = of_a.setting(i);
    const proto::Setting& other = of_b.setting(i);
    if (one.value() == other.value()) continue;
    return absl::FailedPreconditionError(fmt::format(
        "{} is {} of \"{}\", and {} of \"{}\"; --name tells of one of them",
        one.name(), one.value(), a.files.name, other.value(), b.files.name));
  }
  return absl::OkStatus();
}

// Returns the request that takes back a change.
proto::SetRequest ValuesBefore(const proto::SetRequest& change,
                               const proto::SetReply& before) {
  proto::SetRequest back;
  for (const proto::Setting& setting : before.setting()) {
    if (!change.value().contains(setting.name())) continue;
    (*back.mutable_value())[setting.name()] = setting.value();
  }
  return back;
}

template <typename Parts, typename IsSame>
auto& PartLike(Parts& parts, const typename Parts::value_type& like,
               IsSame is_same) {
  const auto at = std::ranges::find_if(
      parts, [&](const auto& part) { return is_same(part, like); });
  if (at != parts.end()) return *at;
  return *parts.Add();
}

void AddPort(const proto::Port& one, proto::StatusReply& sum) {
  proto::Port& port = PartLike(
      *sum.mutable_port(), one,
      [](const auto& a, const auto& b) { return a.name() == b.name(); });
  PortFigures figures = PortOf(one);
  const PortFigures others = PortOf(port);
  AddCounts(figures, others);
  figures.down = std::max(figures.down, others.down);
  SetPort(figures, port);
}

void AddTo(proto::StatusReply& sum, const proto::StatusReply& one) {
  sum.set_version(one.version());
  sum.set_nf(one.nf());
  sum.set_policy(one.policy());
  sum.set_controllers(std::max(sum.controllers(), one.controllers()));
  sum.set_elapsed_ns(std::max(sum.elapsed_ns(), one.elapsed_ns()));
  for (const auto& [key, count] : one.count()) {
    (*sum.mutable_count())[key] += count;
  }
  for (const proto::Drop& drop : one.drop()) {
    proto::Drop& all =
        PartLike(*sum.mutable_drop(), drop, [](const auto& a, const auto& b) {
          return a.reason() == b.reason() && a.by_nf() == b.by_nf();
        });
    all.set_reason(drop.reason());
    all.set_by_nf(drop.by_nf());
    all.set_packets(all.packets() + drop.packets());
  }
  for (const proto::Port& port : one.port()) AddPort(port, sum);
  sum.set_filtered(sum.filtered() + one.filtered());
  sum.set_unrouted(sum.unrouted() + one.unrouted());
  sum.set_copies(sum.copies() + one.copies());
  sum.set_no_chain(sum.no_chain() + one.no_chain());
  sum.set_answer_copies(sum.answer_copies() + one.answer_copies());
}

}  // namespace

std::string ClusterMember::NameOf(const std::string& name, uint32_t id) {
  return fmt::format("{}.{}", name, id);
}

absl::StatusOr<std::vector<ClusterMember>> MembersOf(const std::string& name) {
  std::vector<ClusterMember> members;
  if (name.find('.') != name.npos) return members;  // is one itself
  for (uint32_t id = 0; id < kMostAtPorts; ++id) {
    auto files = DaemonFiles::Of(ClusterMember::NameOf(name, id));
    if (!files.ok()) return files.status();
    const absl::StatusOr<pid_t> pid = PidOf(*files);
    if (!pid.ok()) return pid.status();
    if (*pid != 0) members.push_back({id, *std::move(files), *pid});
  }
  return members;
}

absl::StatusOr<proto::StatusReply> StatusOf(const DaemonFiles& files) {
  return AskOnce(files, proto::StatusRequest());
}

proto::StatusReply StatusOfAll(const std::string& name,
                               const std::vector<ClusterMember>& members) {
  proto::StatusReply sum;
  sum.set_name(name);
  std::vector<proto::StatusReply> told;
  for (const ClusterMember& member : members) {
    auto reply = StatusOf(member.files);
    if (reply.ok()) {
      AddTo(sum, *reply);
      told.push_back(*std::move(reply));
    } else {
      told.emplace_back().set_pid(member.pid);
    }
    told.back().set_controller(member.id);
  }
  const uint32_t last = members.empty() ? 0 : members.back().id;
  sum.set_controllers(std::max(sum.controllers(), last + 1));
  for (uint32_t id = 0; id < sum.controllers(); ++id) {
    const auto at =
        std::ranges::find(told, id, &proto::StatusReply::controller);
    proto::StatusReply& member = *sum.add_member();
    if (at != told.end()) member = std::move(*at);
    member.set_controller(id);
    member.set_name(ClusterMember::NameOf(name, id));
  }
  return sum;
}

absl::StatusOr<std::vector<ClusterMember>> AllMembersOf(
    const std::string& name) {
  auto members = MembersOf(name);
  if (!members.ok() || members->empty()) return members;
  const proto::StatusReply all = StatusOfAll(name, *members);
  for (const proto::StatusReply& member : all.member()) {
    if (!member.version().empty()) continue;
    return absl::FailedPreconditionError(fmt::format(
        "\"{}\" {}, and would be left out; --name={} is one that does",
        member.name(), member.pid() == 0 ? "does not run" : "does not answer",
        members->front().files.name));
  }
  return members;
}

absl::StatusOr<proto::SetReply> SetAll(
    const std::vector<ClusterMember>& members,
    const proto::SetRequest& request) {
  std::vector<proto::SetReply> before;
  for (const ClusterMember& member : members) {
    auto reply = AskOnce(member.files, proto::SetRequest());
    if (!reply.ok()) return OfMember(member, reply.status());
    before.push_back(*std::move(reply));
  }
  if (request.value().empty()) {
    for (size_t i = 1; i < members.size(); ++i) {
      if (absl::Status s =
              CheckSame(members[0], before[0], members[i], before[i]);
          !s.ok()) {
        return s;
      }
    }
    return before[0];
  }
  absl::StatusOr<proto::SetReply> last;
  for (size_t i = 0; i < members.size(); ++i) {
    last = AskOnce(members[i].files, request);
    if (last.ok()) continue;
    absl::Status refused = OfMember(members[i], last.status());
    for (size_t j = 0; j < i; ++j) {
      const auto undone =
          AskOnce(members[j].files, ValuesBefore(request, before[j]));
      if (undone.ok()) continue;
      refused = absl::Status(
          refused.code(),
          fmt::format("{}; \"{}\" has the change, and cannot take it back: {}",
                      std::string(refused.message()), members[j].files.name,
                      std::string(undone.status().message())));
    }
    return refused;
  }
  return last;
}

absl::StatusOr<proto::ChainReply> SetChain(const ClusterMember& member,
                                           const proto::ChainRequest& request) {
  auto reply = AskOnce(member.files, request);
  if (!reply.ok()) return OfMember(member, reply.status());
  return reply;
}

bool IsManager(const proto::StatusReply& reply) {
  return reply.nf().starts_with(kManagerNf);
}

absl::Status EndDaemon(const DaemonFiles& files, pid_t pid, Nanos patience) {
  // From here on the number may become another process's.
  const int process = pidfd_open(pid, 0);
  const absl::StatusOr<pid_t> still = PidOf(files);
  const bool is_it = process >= 0 && still.ok() && *still == pid;
  if (!AskOnce(files, proto::DownRequest()).ok() && is_it) {
    pidfd_send_signal(process, SIGTERM, nullptr, 0);
  }
  const bool has_ended = WaitForEnd(files, patience);
  if (!has_ended && is_it) {
    pidfd_send_signal(process, SIGKILL, nullptr, 0);
    WaitForEnd(files, Seconds(5));
  }
  if (process >= 0) {
    // The lock goes a moment before the process.
    pollfd end = {.fd = process, .events = POLLIN, .revents = 0};
    if (is_it) poll(&end, 1, 1'000);
    close(process);
  }
  if (!has_ended) {
    return absl::InternalError(
        fmt::format("\"{}\" (process {}) did not end in time, and was killed",
                    files.name, pid));
  }
  fmt::print("\"{}\" (process {}) has ended.\n", files.name, pid);
  return absl::OkStatus();
}

}  // namespace snf
