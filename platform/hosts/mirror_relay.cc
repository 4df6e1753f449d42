// SPDX-License-Identifier: Apache-2.0
#include "platform/hosts/mirror_relay.h"

#include <utility>

#include "runtime/ring/real_clock.h"

namespace snf {

MirrorRelay::MirrorRelay(LoopMirror& mirror, HostStream& stream,
                         MirrorLink* link, std::vector<Doorbell*> bells,
                         std::function<void(const absl::Status&)> lost)
    : mirror_(mirror),
      stream_(stream),
      link_(link),
      bells_(std::move(bells)),
      lost_(std::move(lost)) {}

void MirrorRelay::Start() {
  thread_ = std::thread([this] { Run(); });
}

void MirrorRelay::Stop() {
  if (!thread_.joinable()) return;
  stops_.store(true);
  bells_.front()->Ring();
  thread_.join();
}

absl::Status MirrorRelay::Turn(bool& did) {
  frame_.clear();
  did = mirror_.Collect(frame_);
  if (did && link_ == nullptr) {
    return stream_.Send(HostFrame::kUpdate, frame_);
  }
  if (did) {
    if (absl::Status s = AwaitRoom(); !s.ok()) return s;
    if (absl::Status s = link_->Send(frame_); !s.ok()) return s;
  }
  return Beat();
}

absl::Status MirrorRelay::Beat() {
  return stream_.is_beat_due() ? stream_.Send(HostFrame::kBeat, {})
                               : absl::OkStatus();
}

// Beats meanwhile: the connection is not silent while the link is full.
absl::Status MirrorRelay::AwaitRoom() {
  while (true) {
    const auto waiting = link_->Await(MirrorLink::kMostWaiting, kIdle);
    if (!waiting.ok()) return waiting.status();
    if (*waiting <= MirrorLink::kMostWaiting) return absl::OkStatus();
    if (absl::Status s = Beat(); !s.ok()) return s;
  }
}

absl::Status MirrorRelay::Flush() {
  uint64_t before = ~uint64_t{0};
  Instant progress;
  while (true) {
    const auto waiting = link_->Await(0, kIdle);
    if (!waiting.ok()) return waiting.status();
    if (*waiting == 0) return absl::OkStatus();
    const Instant now = RealClock::Monotonic();
    if (*waiting < before) {
      before = *waiting;
      progress = now;
    } else if (now - progress > kFlush) {
      return absl::UnavailableError("the last messages were not acknowledged");
    }
    if (absl::Status s = Beat(); !s.ok()) return s;
  }
}

absl::Status MirrorRelay::SendRest() {
  for (bool did = true; did || mirror_.has_news();) {
    if (absl::Status s = Turn(did); !s.ok()) return s;
  }
  return link_ == nullptr ? absl::OkStatus() : Flush();
}

void MirrorRelay::Run() {
  const auto ready = [this] { return stops_.load() || mirror_.has_news(); };
  while (!stops_.load()) {
    bool did = false;
    if (const absl::Status status = Turn(did); !status.ok()) {
      lost_(status);
      return;
    }
    if (did) continue;
    const Nanos timeout = mirror_.awaits_release() ? kExpecting : kIdle;
    Doorbell::WaitAtAll(bells_, ready, timeout, RealClock::Monotonic(), kSpins);
  }
}

}  // namespace snf
