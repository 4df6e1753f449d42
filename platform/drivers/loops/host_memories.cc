// SPDX-License-Identifier: Apache-2.0
#include "platform/drivers/loops/host_memories.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <string_view>

#include "absl/status/status.h"
#include "base/keyed_hash.h"
#include "resource_manager/launch/launch_wire.h"
#include "runtime/ring/shared_region.h"

namespace snf {
namespace {

// An answer is this text with a descriptor, or the reason why there is none.
constexpr std::string_view kGiven = "given";
constexpr size_t kMostTextBytes = 512;
constexpr timeval kPatience = {.tv_sec = 2, .tv_usec = 0};

// Names the first field whose value differs.
absl::Status CheckSame(const HostStore::Options& form,
                       const HostStore::Options& wanted,
                       std::string_view whose) {
  const auto check = [whose](std::string_view field, uint64_t value,
                             uint64_t other) {
    if (value == other) return absl::OkStatus();
    return absl::InvalidArgumentError(fmt::format(
        "states with {} {}, where {} has {}", field, value, whose, other));
  };
  absl::Status status = check("units", form.max_units, wanted.max_units);
  status.Update(check("loops", form.loops, wanted.loops));
  status.Update(check("slots", form.slots, wanted.slots));
  status.Update(check("record bytes", form.record_bytes, wanted.record_bytes));
  status.Update(check("spread", form.spread, wanted.spread));
  return status;
}

}  // namespace

absl::Status CheckHostForm(const HostStore::Options& form,
                           const HostStore::Options& most) {
  if (form.slots == 0) return absl::OkStatus();
  HostStore::Options wanted = most;
  wanted.spread = true;
  wanted.slots = form.slots;
  wanted.record_bytes = form.record_bytes;
  absl::Status status = CheckSame(form, wanted, "the set-up");
  if (!status.ok()) return status;
  if (form.record_bytes > most.record_bytes ||
      form.record_bytes % sizeof(uint64_t) != 0) {
    return absl::InvalidArgumentError(
        fmt::format("states with record bytes {}, not a multiple of 8 up to {}",
                    form.record_bytes, most.record_bytes));
  }
  // A slot takes more bytes, so the products below cannot overflow.
  const uint64_t most_slots =
      HostStore::kMostSpreadBytes / (sizeof(uint64_t) + form.record_bytes);
  if (form.slots > most_slots) {
    return absl::InvalidArgumentError(
        fmt::format("states with slots {}, of which {} are possible",
                    form.slots, most_slots));
  }
  const size_t bytes = HostStore::PartBytes(form);
  if (bytes <= HostStore::kMostSpreadBytes) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("states of {} bytes a loop, of which {} are possible", bytes,
                  HostStore::kMostSpreadBytes));
}

HostMemoryKey HostMemoryKey::Draw() { return {{SecretSeed(), SecretSeed()}}; }

absl::StatusOr<int> HostMemories::Open(std::string daemon) {
  std::array<int, 2> ends{};
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    return absl::UnavailableError(
        fmt::format("socketpair: {}", std::strerror(errno)));
  }
  sessions_.push_back({.socket = ends[0], .daemon = std::move(daemon)});
  return ends[1];
}

void HostMemories::AddTo(std::vector<pollfd>& waits) const {
  for (const Session& session : sessions_) {
    waits.push_back({.fd = session.socket, .events = POLLIN, .revents = 0});
  }
}

void HostMemories::Serve(std::span<const pollfd> waits) {
  for (size_t i = 0; i < waits.size(); ++i) {
    if (waits[i].revents == 0 || Hear(sessions_[i])) continue;
    End(sessions_[i]);
  }
  std::erase_if(sessions_, [](const Session& s) { return s.socket < 0; });
}

// Returns false if the session has ended, or asks for what cannot be. Each
// session has one answer, for which its socket has room, so the agent never
// waits for a session that does not read.
bool HostMemories::Hear(Session& session) {
  Request request;
  const ssize_t size =
      recv(session.socket, &request, sizeof(request), MSG_DONTWAIT | MSG_TRUNC);
  if (size < 0 && (errno == EAGAIN || errno == EINTR)) return true;
  if (size != sizeof(request) || std::exchange(session.has_asked, true)) {
    return false;
  }
  const absl::StatusOr<int> fd = Give(session, request);
  const std::string text =
      fd.ok() ? std::string(kGiven) : std::string(fd.status().message());
  const auto bytes = std::as_bytes(std::span(text))
                         .first(std::min(text.size(), kMostTextBytes));
  if (!fd.ok()) return SendWithDescriptors(session.socket, bytes, {});
  return SendWithDescriptors(session.socket, bytes, {&*fd, 1});
}

absl::StatusOr<int> HostMemories::Give(Session& session,
                                       const Request& request) {
  const Key key = {session.daemon, request.key};
  const auto [place, is_new] = memories_.try_emplace(key);
  Memory& memory = place->second;
  if (is_new) {
    const auto fd = SharedRegion::CreateUnmapped(
        "snf host", HostStore::BytesFor(request.form));
    if (!fd.ok()) {
      memories_.erase(place);
      return fd.status();
    }
    memory = {.fd = *fd, .form = request.form};
  } else if (absl::Status s =
                 CheckSame(request.form, memory.form, "the same run");
             !s.ok()) {
    return s;
  }
  if (!memory.loops.insert(request.loop).second) {
    return absl::ResourceExhaustedError(fmt::format(
        "loop {} of the same run has not ended here yet", request.loop));
  }
  session.memory = key;
  session.loop = request.loop;
  return memory.fd;
}

void HostMemories::End(Session& session) {
  close(std::exchange(session.socket, -1));
  if (!session.memory.has_value()) return;
  const auto memory = memories_.find(*session.memory);
  memory->second.loops.erase(session.loop);
  if (!memory->second.loops.empty()) return;
  close(memory->second.fd);
  memories_.erase(memory);
}

void HostMemories::CloseAll() {
  for (Session& session : sessions_) End(session);
  sessions_.clear();
}

absl::StatusOr<int> HostMemories::Ask(int socket, const Request& request) {
  setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &kPatience, sizeof(kPatience));
  std::vector<std::byte> answer(kMostTextBytes);
  std::vector<int> descriptors;
  const auto bytes = std::as_bytes(std::span(&request, 1));
  if (!SendWithDescriptors(socket, bytes, {}) ||
      !ReceiveWithDescriptors(socket, answer, descriptors)) {
    return absl::UnavailableError("the agent gives no memory for states");
  }
  const std::string_view text(reinterpret_cast<const char*>(answer.data()),
                              answer.size());
  if (text == kGiven && descriptors.size() == 1) return descriptors.front();
  return absl::ResourceExhaustedError(
      fmt::format("memory for states: {}", text));
}

}  // namespace snf
