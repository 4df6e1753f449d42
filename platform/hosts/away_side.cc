// SPDX-License-Identifier: Apache-2.0
#include "platform/hosts/away_side.h"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <thread>

#include "base/byte_order.h"
#include "platform/hosts/mirror_relay.h"
#include "runtime/ring/real_clock.h"

namespace snf {
namespace {

constexpr Nanos kGreetPatience = Seconds(2);

int WaitFor(pid_t pid) {
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return status;
}

}  // namespace

absl::StatusOr<HostStream::Received> AwaySide::Expect(HostFrame kind,
                                                      size_t most) {
  auto frame = stream_.Receive(kGreetPatience, most);
  if (!frame.ok() || frame->kind == kind) return frame;
  return absl::InvalidArgumentError(
      fmt::format("a frame of kind {} in place of {}",
                  static_cast<int>(frame->kind), static_cast<int>(kind)));
}

void AwaySide::Refuse(const absl::Status& why) {
  const std::string text(why.message());
  [[maybe_unused]] const absl::Status told =
      stream_.Send(HostFrame::kRefuse, std::as_bytes(std::span(text)));
}

absl::Status AwaySide::Shake(const TlsFiles& files) {
  signal(SIGPIPE, SIG_IGN);  // OpenSSL writes to what may be closed
  return stream_.Shake(files, TlsEnd::kServer, "");
}

absl::Status AwaySide::OpenLink(std::span<const std::byte> offered) {
  GeneveOffer offer;
  if (offered.size() != sizeof(offer)) {
    return absl::InvalidArgumentError("a bad offer");
  }
  std::memcpy(&offer, offered.data(), sizeof(offer));
  auto link = GeneveLink::Open(stream_.fd());
  if (!link.ok()) return link.status();
  link_ = *std::move(link);
  link_->SetKey(offer.key);
  absl::Status status = link_->Connect(offer);
  if (!status.ok()) return status;
  const GeneveOffer own = link_->Offer();
  status = stream_.Send(HostFrame::kOffer, std::as_bytes(std::span(&own, 1)));
  return status.ok() ? link_->Measure() : status;
}

absl::StatusOr<std::vector<std::byte>> AwaySide::TakeSetup(bool takes_geneve) {
  auto frame = stream_.Receive(kGreetPatience, kMostSetupBytes);
  if (frame.ok() && frame->kind == HostFrame::kOffer) {
    if (!takes_geneve) {
      return absl::FailedPreconditionError(
          "wire=geneve: the agent runs without --geneve");
    }
    if (absl::Status s = OpenLink(frame->bytes); !s.ok()) return s;
    frame = stream_.Receive(kGreetPatience, kMostSetupBytes);
    // The daemon has measured the path. The units are started without threads.
    link_->Stop();
  }
  if (!frame.ok()) return frame.status();
  if (frame->kind != HostFrame::kSetup) {
    return absl::InvalidArgumentError(
        fmt::format("a frame of kind {} in place of the set-up",
                    static_cast<int>(frame->kind)));
  }
  return std::vector<std::byte>(frame->bytes.begin(), frame->bytes.end());
}

absl::StatusOr<std::vector<std::byte>> AwaySide::Greet(const HostHello& own,
                                                       bool takes_geneve) {
  const auto hello = Expect(HostFrame::kHello, sizeof(HostHello));
  absl::Status status =
      hello.ok() ? CheckHello(hello->bytes, own) : hello.status();
  if (status.ok()) {
    status =
        stream_.Send(HostFrame::kWelcome, std::as_bytes(std::span(&own, 1)));
  }
  if (status.ok()) {
    auto setup = TakeSetup(takes_geneve);
    if (setup.ok()) return setup;
    status = setup.status();
  }
  Refuse(status);
  return status;
}

absl::StatusOr<std::vector<std::byte>> AwaySide::AskBegin() {
  int64_t shortest = INT64_MAX;
  for (int i = 0; i < kPings; ++i) {
    const int64_t sent = RealClock::Monotonic().ns;
    absl::Status status =
        stream_.Send(HostFrame::kPing, std::as_bytes(std::span(&sent, 1)));
    if (!status.ok()) return status;
    const auto pong = Expect(HostFrame::kPong, 2 * sizeof(sent));
    if (!pong.ok()) return pong.status();
    if (pong->bytes.size() != 2 * sizeof(sent) ||
        LoadAs<int64_t>(pong->bytes.data()) != sent) {
      return absl::InvalidArgumentError("a bad pong");
    }
    const int64_t now = RealClock::Monotonic().ns;
    if (now - sent >= shortest) continue;
    shortest = now - sent;
    ahead_.ns =
        LoadAs<int64_t>(&pong->bytes[sizeof(sent)]) - (sent + shortest / 2);
  }
  absl::Status status = stream_.Send(HostFrame::kAskBegin, {});
  if (!status.ok()) return status;
  const auto begin = Expect(HostFrame::kBegin, HostStream::kMostBytes);
  if (!begin.ok()) return begin.status();
  return std::vector<std::byte>(begin->bytes.begin(), begin->bytes.end());
}

// Returns why no more frames come.
absl::Status AwaySide::Listen(LoopMirror& mirror) {
  while (true) {
    const auto frame = stream_.Receive(HostStream::kSilence);
    if (!frame.ok()) return frame.status();
    if (frame->kind == HostFrame::kBeat) continue;
    if (frame->kind != HostFrame::kUpdate || link_ != nullptr) {
      return absl::InvalidArgumentError(
          fmt::format("a frame of kind {}", static_cast<int>(frame->kind)));
    }
    if (absl::Status s = mirror.Apply(frame->bytes); !s.ok()) return s;
  }
}

// Returns false if no more words come.
bool AwaySide::CarryWords(int words) {
  std::array<std::byte, 16'384> bytes;
  const ssize_t size = recv(words, bytes.data(), bytes.size(), 0);
  if (size < 0) return errno == EINTR;
  if (size == 0) return false;
  return stream_
      .Send(HostFrame::kWord, std::span(bytes).first(static_cast<size_t>(size)))
      .ok();
}

void AwaySide::CloseLink() {
  if (link_ == nullptr) return;
  link_->Stop();
  link_->TellCounts(fmt::format("the daemon at {}",
                                HostStream::AddressOf(stream_.fd(), true)));
  link_.reset();
}

absl::Status AwaySide::Run(LoopMirror& mirror, const Units& units) {
  const auto pidfd = static_cast<int>(syscall(SYS_pidfd_open, units.pid, 0));
  std::atomic<bool> is_lost = false;
  absl::Status why;
  const auto lose = [&](const absl::Status& status) {
    if (is_lost.exchange(true)) return;
    why = status;
    syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, nullptr, 0);
  };
  if (link_ != nullptr) {
    link_->Start(
        LoopMirror::Side::kAway,
        [&mirror](std::span<const std::byte> message) {
          return mirror.Apply(message);
        },
        lose);
  }
  MirrorRelay relay(mirror, stream_, link_.get(), units.bells, lose);
  relay.Start();
  std::thread listener([&] { lose(Listen(mirror)); });
  bool has_words = true;
  while (true) {
    std::array<pollfd, 2> waits = {
        pollfd{.fd = pidfd, .events = POLLIN, .revents = 0},
        pollfd{.fd = has_words ? units.words : -1,
               .events = POLLIN,
               .revents = 0}};
    if (poll(waits.data(), waits.size(), -1) < 0) continue;
    if (waits[1].revents != 0) has_words = CarryWords(units.words);
    if (waits[0].revents != 0) break;
  }
  HostEnd end = {.status = WaitFor(units.pid)};
  if (units.before_end) units.before_end();
  relay.Stop();
  const bool was_lost = is_lost.exchange(true);
  stream_.StopReceiving();
  listener.join();
  if (was_lost) {
    CloseLink();
    close(pidfd);
    return why;
  }
  const absl::Status rest_sent = relay.SendRest();
  CloseLink();
  close(pidfd);
  if (!rest_sent.ok()) return rest_sent;
  // A container's monitor may have the other end open for longer.
  pollfd rest = {.fd = units.words, .events = POLLIN, .revents = 0};
  while (has_words && poll(&rest, 1, 0) > 0) {
    has_words = CarryWords(units.words);
  }
  end.in_call = value(units.progress->in_call.load());
  return stream_.Send(HostFrame::kEnd, std::as_bytes(std::span(&end, 1)));
}

}  // namespace snf
