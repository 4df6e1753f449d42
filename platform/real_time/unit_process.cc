// SPDX-License-Identifier: Apache-2.0
#include "platform/real_time/unit_process.h"

#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <optional>
#include <span>
#include <utility>

#include "platform/process/exit_code.h"
#include "platform/process/nf_guard.h"
#include "platform/real_time/loop_results.h"
#include "platform/run/nf_watchdog.h"
#include "resource_manager/live/container_method.h"
#include "resource_manager/live/launch_server.h"
#include "runtime/live/rehearsal.h"
#include "runtime/ring/shared_region.h"
#include "runtime/sdk/nf_call.h"
#include "runtime/sdk/nf_module.h"
#include "runtime/sdk/nf_spec.h"

namespace snf {
namespace {

int told_socket = -1;  // static, for signal handlers

void SendAll(int socket, const void* data, size_t bytes) {
  const char* from = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t sent = send(socket, from, bytes, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return;  // nobody listens any more
    from += sent;
    bytes -= static_cast<size_t>(sent);
  }
}

void Tell(int socket, UnitWord::Kind kind, const void* data, size_t bytes) {
  const UnitWord word = {.kind = kind, .bytes = static_cast<uint32_t>(bytes)};
  SendAll(socket, &word, sizeof(word));
  SendAll(socket, data, bytes);
}

// Needs no memory.
void TellNfFailure(const NfCall& call, std::string_view text) {
  static UnitWord::NfFailure failure;
  const bool is_made = call.hook == NfCall::Hook::kConstructor;
  const PacketMeta* const meta = is_made ? nullptr : call.meta;
  failure.flow = meta != nullptr ? meta->flow : kNoFlow;
  failure.clock = meta != nullptr ? value(meta->clock) : 0;
  failure.packet = meta != nullptr ? call.packet : kNoPacket;
  const size_t size = std::min(text.size(), failure.text.size() - 1);
  std::memcpy(failure.text.data(), text.data(), size);
  failure.text[size] = '\0';
  Tell(told_socket, UnitWord::Kind::kNfFailed, &failure, sizeof(failure));
}

void TellFault(const std::string& text) {
  Tell(told_socket, UnitWord::Kind::kFault, text.data(), text.size());
}

// Runs a loop of units until it is stopped.
int RunUnits(const UnitProcessSetup& setup, const NfSpec& nf, int region,
             int socket) {
  told_socket = socket;
  prctl(PR_SET_NAME, "snf-unit");
  GuardNfCalls(setup.command.data());
  TellNfFailuresTo(TellNfFailure);
  const auto memory = SharedRegion::Map(region);
  if (!memory.ok()) {
    TellFault(std::string(memory.status().message()));
    return kExitUnavailable;
  }
  WireFaults faults([](const WireFault& fault) {
    TellFault(ToString(fault));
    _exit(kExitInternal);
  });
  auto side = LoopRegion::Attach(memory->bytes(), setup.region,
                                 setup.loop.index, faults);
  if (!side.ok()) {
    TellFault(std::string(side.status().message()));
    return kExitInternal;
  }
  if (setup.rehearses) Rehearse(nf, setup.loop.unit);
  UnitLoop loop(setup.loop, nf, *side->clock, std::move(side->links));
  const NfWatchdog watchdog({.nf = nf.text(),
                             .patience = setup.nf_patience,
                             .marks = {&loop.call_mark()},
                             .describe = [&loop](PacketHandle packet) {
                               return Describe(loop.buffers(), packet);
                             }});
  Tell(socket, UnitWord::Kind::kReady, nullptr, 0);
  loop.Run();
  const std::vector<uint64_t> words =
      LoopResults::Of(loop, setup.loop).ToWords();
  Tell(socket, UnitWord::Kind::kResults, words.data(),
       words.size() * sizeof(uint64_t));
  return kExitOk;
}

absl::StatusOr<NfSpec> ParseNf(std::string_view text) {
  for (size_t end = 0; (end = text.find('\0')) != std::string_view::npos;) {
    const auto module = LoadNfModule(std::string(text.substr(0, end)));
    if (!module.ok()) return module.status();
    text.remove_prefix(end + 1);
  }
  absl::StatusOr<NfSpec> nf = NfSpec::Parse(text);
  if (!nf.ok()) return nf;
  if (absl::Status s = nf->check(); !s.ok()) return s;
  return nf;
}

absl::StatusOr<std::unique_ptr<LaunchMethod>> MethodOf(Isolation isolation) {
  if (isolation != Isolation::kContainer) return std::make_unique<ForkMethod>();
  return ContainerMethod::Make({});
}

// Starts what the launch asks for, and returns when that is over.
absl::Status Serve(int socket, const Launch& launch) {
  UnitProcessSetup setup;
  if (launch.setup.size() < sizeof(setup) ||
      (std::memcpy(&setup, launch.setup.data(), sizeof(setup)),
       launch.descriptors.size() != 1 + setup.region.loops)) {
    return absl::InternalError("a set-up that cannot be");
  }
  if (absl::Status s = LeaveStandardStreams(); !s.ok()) return s;
  // Each process gets the NF from here: its file is loaded, its options read.
  GuardNfCalls(setup.command.data());
  const std::span text = std::span(launch.setup).subspan(sizeof(setup));
  const absl::StatusOr<NfSpec> nf =
      ParseNf({reinterpret_cast<const char*>(text.data()), text.size()});
  if (!nf.ok()) return nf.status();
  const auto method = MethodOf(setup.isolation);
  if (!method.ok()) return method.status();
  std::vector<LaunchMethod::Process> processes;
  const int region = launch.descriptors[0];
  for (uint32_t i = 0; i < setup.region.loops; ++i) {
    const int own = launch.descriptors[1 + i];
    setup.loop.index = i;
    processes.push_back({.body =
                             [setup, &nf, region, own](uint32_t starts) {
                               UnitProcessSetup of_start = setup;
                               of_start.loop.incarnation += starts;
                               return RunUnits(of_start, *nf, region, own);
                             },
                         .descriptors = {region, own}});
  }
  ServeLaunch(socket, **method, processes, setup.at_once);
  return absl::OkStatus();
}

}  // namespace

std::vector<std::byte> UnitProcessSetup::WithNf(const std::string& nf) const {
  std::string text;
  for (const std::string& module : LoadedNfModules()) text += module + '\0';
  text += nf;
  std::vector<std::byte> bytes(sizeof(*this) + text.size());
  std::memcpy(bytes.data(), this, sizeof(*this));
  std::memcpy(&bytes[sizeof(*this)], text.data(), text.size());
  return bytes;
}

int UnitProcessMain(int socket) {
  const absl::StatusOr<Launch> launch = ReceiveLaunch(socket);
  if (!launch.ok()) {
    fmt::print(stderr, "snf {}: {}\n", kUnitProcessCommand,
               std::string(launch.status().message()));
    return kExitUsage;
  }
  const absl::Status status = Serve(socket, *launch);
  if (!status.ok()) RefuseLaunch(socket, status);
  return kExitOk;
}

}  // namespace snf
