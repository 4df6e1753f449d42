// SPDX-License-Identifier: Apache-2.0
#include "platform/hosts/home_side.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>
#include <vector>

#include "base/text/stderr_line.h"
#include "base/text/wording.h"
#include "platform/hosts/mirror_relay.h"
#include "platform/process/exit_code.h"
#include "runtime/ring/real_clock.h"

namespace snf {
namespace {

constexpr Nanos kConnectPatience = Seconds(1);
// The agent reads the NF's files meanwhile.
constexpr Nanos kSetupPatience = Seconds(10);
constexpr size_t kMostTextBytes = 4'096;

}  // namespace

HomeSide::HomeSide(Options options, MirrorParts parts)
    : options_(std::move(options)),
      progress_(parts.progress),
      units_bell_(parts.units_bell),
      mirror_({.side = LoopMirror::Side::kHome,
               .longest_entry = options_.longest_entry},
              std::move(parts)) {}

absl::Status HomeSide::Named(const absl::Status& status) const {
  return {status.code(),
          fmt::format("host {} ({}): {}", options_.host, options_.address,
                      std::string(status.message()))};
}

absl::StatusOr<HostStream::Received> HomeSide::Expect(HostFrame kind,
                                                      Nanos patience) {
  auto frame = stream_->Receive(patience);
  if (!frame.ok()) return frame.status();
  if (frame->kind == HostFrame::kRefuse) {
    const auto text =
        frame->bytes.first(std::min(frame->bytes.size(), kMostTextBytes));
    return absl::FailedPreconditionError(Printable(
        std::string(reinterpret_cast<const char*>(text.data()), text.size())));
  }
  if (frame->kind != kind && frame->kind != HostFrame::kPing) {
    return absl::InvalidArgumentError(
        fmt::format("a frame of kind {}", static_cast<int>(frame->kind)));
  }
  return frame;
}

// Lets the agent learn by how much this host's clock is ahead.
absl::Status HomeSide::AnswerPings() {
  while (true) {
    const auto frame = Expect(HostFrame::kAskBegin, kSetupPatience);
    if (!frame.ok()) return frame.status();
    if (frame->kind == HostFrame::kAskBegin) return absl::OkStatus();
    std::vector<std::byte> pong(frame->bytes.begin(), frame->bytes.end());
    const int64_t now = RealClock::Monotonic().ns;
    const auto bytes = std::as_bytes(std::span(&now, 1));
    pong.insert(pong.end(), bytes.begin(), bytes.end());
    if (auto s = stream_->Send(HostFrame::kPong, pong); !s.ok()) return s;
  }
}

absl::Status HomeSide::Connect() {
  const auto socket = HostStream::Connect(options_.address, kConnectPatience);
  if (!socket.ok()) return socket.status();
  stream_.emplace(*socket);
  if (options_.tls.empty()) return absl::OkStatus();
  signal(SIGPIPE, SIG_IGN);  // OpenSSL writes to what may be closed
  const auto files = ReadTlsFiles(options_.tls, TlsEnd::kClient);
  if (!files.ok()) return files.status();
  return stream_->Shake(*files, TlsEnd::kClient, options_.address);
}

// Agrees on a key and on ports over TCP, and measures the path.
absl::Status HomeSide::OpenLink() {
  auto link = GeneveLink::Open(stream_->fd());
  if (!link.ok()) return link.status();
  link_ = *std::move(link);
  if (absl::Status s = link_->DrawKey(); !s.ok()) return s;
  GeneveOffer offer = link_->Offer();
  absl::Status status =
      stream_->Send(HostFrame::kOffer, std::as_bytes(std::span(&offer, 1)));
  if (!status.ok()) return status;
  const auto answer = Expect(HostFrame::kOffer, kSetupPatience);
  if (!answer.ok()) return answer.status();
  if (answer->bytes.size() != sizeof(offer)) {
    return absl::InvalidArgumentError("a bad offer");
  }
  std::memcpy(&offer, answer->bytes.data(), sizeof(offer));
  status = link_->Connect(offer);
  return status.ok() ? link_->Measure() : status;
}

absl::Status HomeSide::Begin(std::span<const std::byte> setup) {
  // Reads the whole program, for which the agent would wait.
  const HostHello hello = HelloOfThisProgram();
  if (absl::Status s = Connect(); !s.ok()) return Named(s);
  absl::Status status =
      stream_->Send(HostFrame::kHello, std::as_bytes(std::span(&hello, 1)));
  if (!status.ok()) return Named(status);
  const auto welcome = Expect(HostFrame::kWelcome, kSetupPatience);
  if (!welcome.ok()) return Named(welcome.status());
  if (options_.wire == HostWire::kGeneve) {
    if (absl::Status s = OpenLink(); !s.ok()) return Named(s);
  }
  status = stream_->Send(HostFrame::kSetup, setup);
  if (status.ok()) status = AnswerPings();
  if (!status.ok()) return Named(status);
  std::vector<std::byte> begin;
  mirror_.WriteBegin(begin);
  return Named(stream_->Send(HostFrame::kBegin, begin));
}

void HomeSide::Run() {
  const auto lose = [this](const absl::Status& status) { Lose(status); };
  if (link_ != nullptr) {
    link_->Start(
        LoopMirror::Side::kHome,
        [this](std::span<const std::byte> message) {
          return mirror_.Apply(message);
        },
        lose);
  }
  MirrorRelay relay(mirror_, *stream_, link_.get(), {units_bell_}, lose);
  relay.Start();
  while (true) {
    const auto frame = stream_->Receive(HostStream::kSilence);
    if (!frame.ok()) Lose(frame.status());
    switch (frame->kind) {
      case HostFrame::kBeat:
        break;
      case HostFrame::kUpdate:
        if (link_ != nullptr) {
          Lose(absl::InvalidArgumentError("an update beside GENEVE"));
        }
        if (auto s = mirror_.Apply(frame->bytes); !s.ok()) Lose(s);
        break;
      case HostFrame::kWord:
        TellWord(frame->bytes);
        break;
      case HostFrame::kRefuse:
        Lose(absl::UnavailableError(Printable(
            std::string(reinterpret_cast<const char*>(frame->bytes.data()),
                        std::min(frame->bytes.size(), kMostTextBytes)))));
      case HostFrame::kEnd: {
        HostEnd end;
        if (frame->bytes.size() != sizeof(end)) {
          Lose(absl::InvalidArgumentError("a bad end"));
        }
        std::memcpy(&end, frame->bytes.data(), sizeof(end));
        progress_->in_call.store(PacketHandle{end.in_call});
        TellCounts();
        EndLike(end.status);
      }
      default:
        Lose(absl::InvalidArgumentError(
            fmt::format("a frame of kind {}", static_cast<int>(frame->kind))));
    }
  }
}

void HomeSide::TellCounts() const {
  if (link_ == nullptr) return;
  link_->TellCounts(
      fmt::format("host {} ({})", options_.host, options_.address));
}

// No NF is to blame for that.
void HomeSide::Lose(const absl::Status& status) {
  PrintOnStderr("host {} ({}) is lost: {}\n", options_.host, options_.address,
                std::string(status.message()));
  std::fflush(stderr);
  TellCounts();
  progress_->in_call.store(kNoPacket);
  _exit(kExitUnavailable);
}

// Two threads may be here; the first one decides.
void HomeSide::EndLike(int status) {
  if (WIFEXITED(status)) _exit(WEXITSTATUS(status));
  const int signal_number = WIFSIGNALED(status) ? WTERMSIG(status) : SIGKILL;
  const rlimit no_core = {.rlim_cur = 0, .rlim_max = 0};
  setrlimit(RLIMIT_CORE, &no_core);
  signal(signal_number, SIG_DFL);
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, signal_number);
  pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
  kill(getpid(), signal_number);
  raise(signal_number);
  _exit(kExitInternal);
}

void HomeSide::TellWord(std::span<const std::byte> bytes) const {
  while (!bytes.empty()) {
    const ssize_t sent =
        send(options_.word_socket, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return;  // the daemon has closed its end
    bytes = bytes.subspan(static_cast<size_t>(sent));
  }
}

}  // namespace snf
