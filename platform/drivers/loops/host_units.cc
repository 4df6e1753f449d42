// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/byte_order.h"
#include "base/text/stderr_line.h"
#include "base/text/wording.h"
#include "platform/drivers/loops/loop_places.h"
#include "platform/drivers/loops/unit_process.h"
#include "platform/hosts/away_side.h"
#include "platform/hosts/home_side.h"
#include "platform/process/exit_code.h"
#include "platform/process/nf_guard.h"
#include "platform/process/unit_word.h"
#include "platform/run/run_setup.h"
#include "runtime/mirror/loop_mirror.h"
#include "runtime/ring/shared_region.h"

namespace snf {
namespace {

constexpr size_t kMostMemory = size_t{8} << 30;
constexpr uint32_t kMostUnits = 65'535;

absl::StatusOr<MirrorParts> PartsOf(Memory memory,
                                    const LoopRegion::Options& options) {
  RegionCarver carver(memory);
  const LoopPlaces loop(carver, options);
  auto pool = BufferPool::Attach(loop.pool, BufferPool::Party{0});
  if (!pool.ok()) return pool.status();
  return MirrorParts{.rings = {loop.down, loop.from_loops[1], loop.answers,
                               loop.log, loop.kept, loop.to_relay, loop.up},
                     .progress = At<LoopProgress>(loop.progress),
                     .control = At<LoopControl>(loop.control),
                     .controllers = At<ControllerEpoch>(loop.controllers),
                     .clock = At<RealClock>(loop.clock),
                     .units_bell = At<Doorbell>(loop.bell),
                     .controller_bell = At<Doorbell>(loop.controller_bell),
                     .loggers_bell = At<Doorbell>(loop.loggers_bell),
                     .pool = *std::move(pool)};
}

// --- The set-up as a message: the folder in which files have their names, the
// set-up, and the NF (LaunchedNf). ---

std::vector<std::byte> MessageOf(UnitProcessSetup setup,
                                 std::span<const std::byte> nf) {
  setup.hosts = {};
  setup.region.bells = nullptr;
  std::array<char, 4'096> folder{};
  if (getcwd(folder.data(), folder.size()) == nullptr) folder[0] = '\0';
  const auto bytes = static_cast<uint32_t>(std::strlen(folder.data()));
  std::vector<std::byte> message;
  const auto add = [&message](const void* data, size_t size) {
    const auto* const from = static_cast<const std::byte*>(data);
    message.insert(message.end(), from, from + size);
  };
  add(&bytes, sizeof(bytes));
  add(folder.data(), bytes);
  add(&setup, sizeof(setup));
  add(nf.data(), nf.size());
  return message;
}

struct Asked {
  std::string folder;
  UnitProcessSetup setup;
  std::string nf;
};

absl::Status Bad(const char* field, uint64_t value) {
  return absl::InvalidArgumentError(
      fmt::format("a set-up with {} {}", field, value));
}

absl::Status Check(const UnitProcessSetup& setup) {
  const LoopRegion::Options& region = setup.region;
  if (region.loops == 0 || region.loops >= BufferPool::kMaxParties) {
    return Bad("loops", region.loops);
  }
  if (setup.loop.index >= region.loops) return Bad("loop", setup.loop.index);
  if (setup.loop.loops != region.loops) return Bad("loops", setup.loop.loops);
  if (setup.loop.max_units == 0 || setup.loop.max_units > kMostUnits) {
    return Bad("units", setup.loop.max_units);
  }
  if (!region.apart || !region.loggers || !region.recovers) {
    return absl::InvalidArgumentError("a set-up of units without loggers");
  }
  const auto is_ring = [](uint32_t cells) {
    constexpr uint32_t kMostCells = uint32_t{1} << 20;
    return cells <= kMostCells && std::has_single_bit(cells);
  };
  if (!is_ring(region.controller_cells) || !is_ring(region.logger_cells)) {
    return Bad("cells", region.controller_cells);
  }
  constexpr uint32_t kMostRecord = uint32_t{1} << 26;
  if (region.record_bytes > kMostRecord || region.entry_bytes > kMostRecord) {
    return Bad("entry", region.entry_bytes);
  }
  const size_t bytes = LoopPlaces::BytesFor(region);
  if (bytes > kMostMemory) return Bad("bytes of memory", bytes);
  if (setup.isolation == Isolation::kThread ||
      setup.isolation > Isolation::kContainer) {
    return Bad("isolation", static_cast<uint64_t>(setup.isolation));
  }
  const HostStore::Options most = {.max_units = setup.loop.max_units,
                                   .loops = region.loops,
                                   .record_bytes = region.record_bytes};
  if (absl::Status s = CheckHostForm(setup.host_store, most); !s.ok()) return s;
  if (setup.command.back() != '\0') return Bad("command of bytes", 64);
  return absl::OkStatus();
}

absl::StatusOr<Asked> Read(std::span<const std::byte> message) {
  Asked asked;
  uint32_t folder = 0;
  if (message.size() < sizeof(folder)) return Bad("bytes", message.size());
  folder = LoadAs<uint32_t>(message.data());
  const size_t before = sizeof(folder) + size_t{folder};
  if (message.size() < before + sizeof(asked.setup)) {
    return Bad("bytes", message.size());
  }
  const auto* const all = reinterpret_cast<const char*>(message.data());
  asked.folder.assign(all + sizeof(folder), folder);
  std::memcpy(&asked.setup, all + before, sizeof(asked.setup));
  const size_t nf = before + sizeof(asked.setup);
  asked.nf.assign(all + nf, message.size() - nf);
  absl::Status status = Check(asked.setup);
  if (!status.ok()) return status;
  return asked;
}

// --- The session. ---

// Returns descriptors of the memory that units of the same run share here. The
// end of this process closes them.
absl::StatusOr<HostDescriptors> AskForStates(int memories,
                                             const UnitProcessSetup& setup) {
  if (setup.host_store.slots == 0) return HostDescriptors{};
  const auto writable = HostMemories::Ask(memories, {.key = setup.host_key,
                                                     .loop = setup.loop.index,
                                                     .form = setup.host_store});
  if (!writable.ok()) return writable.status();
  const auto readable = OpenReadable(*writable);
  if (!readable.ok()) return readable.status();
  return HostDescriptors{.writable = *writable, .readable = *readable};
}

absl::Status Serve(AwaySide& side, int memories, const Asked& asked) {
  const UnitProcessSetup& setup = asked.setup;
  GuardNfCalls(setup.command.data());
  if (!asked.folder.empty() && chdir(asked.folder.c_str()) != 0) {
    return absl::FailedPreconditionError(fmt::format(
        "folder {}: {}", Printable(asked.folder), std::strerror(errno)));
  }
  const absl::StatusOr<ReadNf> nf = ReadLaunchedNf(asked.nf);
  if (!nf.ok()) return nf.status();
  const auto method = MethodOf(setup.isolation, *nf);
  if (!method.ok()) return method.status();
  auto memory = LoopRegion::CreateApart(setup.region, setup.loop.index);
  if (!memory.ok()) return memory.status();
  const auto host = AskForStates(memories, setup);
  if (!host.ok()) return host.status();
  auto parts = PartsOf(memory->bytes(), setup.region);
  if (!parts.ok()) return parts.status();
  const auto begin = side.AskBegin();
  if (!begin.ok()) return begin.status();
  AwaySide::Units units = {
      .bells = {parts->controller_bell, parts->loggers_bell},
      .progress = parts->progress};
  LoopMirror mirror({.side = LoopMirror::Side::kAway,
                     .ahead = side.ahead(),
                     .longest_entry = setup.region.entry_bytes},
                    *std::move(parts));
  if (absl::Status s = mirror.ReadBegin(*begin); !s.ok()) return s;
  std::array<int, 2> sockets{};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets.data()) != 0) {
    return absl::UnavailableError(
        fmt::format("socketpair: {}", std::strerror(errno)));
  }
  const LaunchMethod::Process process = ProcessOfUnits(
      setup, *nf, setup.loop.index, memory->fd(), sockets[1], *host);
  std::optional<HostPresence> presence(std::in_place, setup.host_store,
                                       setup.loop.index, host->writable);
  // From then on the agent lets the loop's next process in.
  units.before_end = [&presence, memories] {
    presence.reset();
    close(memories);
  };
  const auto pid = (*method)->Start(0, 0, process);
  if (!pid.ok()) return pid.status();
  close(sockets[1]);
  units.pid = *pid;
  units.words = sockets[0];
  absl::Status status = side.Run(mirror, units);
  (*method)->on_ended(0);
  return status;
}

}  // namespace

uint32_t PlacedLoops(uint32_t loops, uint32_t max_units) {
  return std::min(loops, max_units - std::min(kSpareUnits, max_units));
}

int RunUnitsOnHost(const UnitProcessSetup& setup, const HostPlace& host,
                   std::span<const std::byte> nf, int region, int socket) {
  BeginTelling(socket, "snf-host", setup.command.data());
  const auto refuse = [](const absl::Status& status, int code) {
    TellFault(std::string(status.message()));
    return code;
  };
  const auto memory =
      SharedRegion::Map(region, LoopRegion::InAdvance(setup.region));
  if (!memory.ok()) return refuse(memory.status(), kExitUnavailable);
  auto parts = PartsOf(memory->bytes(), setup.region);
  if (!parts.ok()) return refuse(parts.status(), kExitInternal);
  HomeSide side({.host = host.name.data(),
                 .address = host.address.data(),
                 .wire = host.wire,
                 .tls = setup.hosts.tls(),
                 .word_socket = socket,
                 .longest_entry = setup.region.entry_bytes},
                *std::move(parts));
  const absl::Status status = side.Begin(MessageOf(setup, nf));
  if (!status.ok()) {
    const std::string why(status.message());
    TellWord(UnitWord::Kind::kRefused, why.data(), why.size());
    return kExitUnavailable;
  }
  side.Run();
}

int ServeHostSession(int socket, int memories, const TlsFiles* files,
                     bool takes_geneve) {
  AwaySide side(socket);
  const std::string peer = HostStream::AddressOf(socket, true);
  const auto tell = [&peer](const absl::Status& status) {
    PrintOnStderr("daemon at {}: {}\n", peer, std::string(status.message()));
    return kExitUnavailable;
  };
  if (files != nullptr) {
    if (absl::Status s = side.Shake(*files); !s.ok()) return tell(s);
  }
  const auto message = side.Greet(HelloOfThisProgram(), takes_geneve);
  if (!message.ok()) return tell(message.status());
  const auto asked = Read(*message);
  absl::Status status =
      asked.ok() ? Serve(side, memories, *asked) : asked.status();
  if (status.ok()) return kExitOk;
  side.Refuse(status);
  return tell(status);
}

}  // namespace snf
