// SPDX-License-Identifier: Apache-2.0
#include "platform/ports/sockets/frame_sender.h"

#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <cstring>

#include "base/time.h"

namespace snf {
namespace {

constexpr auto kPause = std::chrono::microseconds(20);

}  // namespace

FrameSender::FrameSender(FrameOutlet& outlet)
    : outlet_(outlet),
      ring_(new std::byte[kRingBytes]),
      thread_([this] { Run(); }) {}

FrameSender::~FrameSender() {
  Publish();
  ends_.store(true, std::memory_order_seq_cst);
  bell_.Ring();
  thread_.join();
}

void FrameSender::SendMerged(std::span<const std::byte> frame,
                             uint16_t segment_bytes) {
  Flush();
  if (is_idle()) {
    SendOne(frame, segment_bytes);
    Show();
  } else {
    Copy(frame, segment_bytes);
  }
}

void FrameSender::Copy(std::span<const std::byte> frame,
                       uint16_t segment_bytes) {
  const size_t bytes = BytesOf(frame.size());
  std::byte* const at = At(MakeRoom(bytes));
  const Head head = {.frame_bytes = static_cast<uint32_t>(frame.size()),
                     .segment_bytes = segment_bytes};
  std::memcpy(at, &head, sizeof head);
  std::ranges::copy(frame, at + sizeof head);
  written_ += bytes;
  ++unpublished_frames_;
}

// A frame lies in one piece: if the end is near, in front.
uint64_t FrameSender::MakeRoom(size_t bytes) {
  const size_t left = kRingBytes - written_ % kRingBytes;
  const size_t skipped = left < bytes ? left : 0;
  const auto is_room = [&] {
    return written_ + skipped + bytes -
               released_.load(std::memory_order_acquire) <=
           kRingBytes;
  };
  if (!is_room()) Publish();
  while (!is_room()) std::this_thread::sleep_for(kPause);
  if (skipped >= sizeof(Head)) {
    const Head head = {.frame_bytes = kSkip, .segment_bytes = 0};
    std::memcpy(At(written_), &head, sizeof head);
  }
  written_ += skipped;
  return written_;
}

void FrameSender::Flush() {
  if (unpublished_frames_ == 0) return;
  if (unpublished_frames_ >= kWorthFrames || !is_idle()) {
    Publish();
    return;
  }
  // The thread has nothing to send, and never sees these frames.
  const uint64_t published = published_.load(std::memory_order_relaxed);
  uint64_t at = published;
  while (at != written_) at = SendSome(at, written_);
  written_ = published;
  unpublished_frames_ = 0;
}

void FrameSender::Publish() {
  if (unpublished_frames_ == 0) return;
  unpublished_frames_ = 0;
  published_.store(written_, std::memory_order_seq_cst);
  bell_.Ring();
}

void FrameSender::Settle() {
  Flush();
  while (!is_idle()) std::this_thread::sleep_for(kPause);
}

void FrameSender::Run() {
  pthread_setname_np(pthread_self(), "snf-send");
  uint64_t at = 0;
  const auto has_frames = [this, &at] {
    return published_.load(std::memory_order_seq_cst) != at ||
           ends_.load(std::memory_order_seq_cst);
  };
  while (true) {
    // Frames that are published before the end are sent.
    const bool ends = ends_.load(std::memory_order_seq_cst);
    const uint64_t end = published_.load(std::memory_order_seq_cst);
    if (at != end) {
      at = SendSome(at, end);
      released_.store(at, std::memory_order_release);
    } else if (ends) {
      return;
    } else {
      bell_.Wait(has_frames, Nanos::max(), Doorbell::SpinsOnSpareCpus());
    }
  }
}

uint64_t FrameSender::SendSome(uint64_t from, uint64_t end) {
  std::array<std::span<const std::byte>, FrameOutlet::kBatch> frames;
  size_t count = 0;
  while (from != end && count < frames.size()) {
    const size_t left = kRingBytes - from % kRingBytes;
    Head head = {.frame_bytes = kSkip, .segment_bytes = 0};
    if (left >= sizeof head) std::memcpy(&head, At(from), sizeof head);
    if (head.frame_bytes == kSkip) {
      from += left;
      continue;
    }
    const std::span<const std::byte> frame(At(from) + sizeof head,
                                           head.frame_bytes);
    if (head.segment_bytes == 0) {
      frames[count++] = frame;
    } else if (count == 0) {
      SendOne(frame, head.segment_bytes);
    } else {
      break;  // those before it are sent first
    }
    from += BytesOf(head.frame_bytes);
    if (head.segment_bytes != 0) break;
  }
  if (count > 0) outlet_.Send(std::span(frames).first(count), done_);
  Show();
  return from;
}

void FrameSender::SendOne(std::span<const std::byte> frame,
                          uint16_t segment_bytes) {
  if (!outlet_.SendMerged(frame, segment_bytes, done_)) {
    outlet_.SendCut(frame, segment_bytes, done_);
  }
}

void FrameSender::Show() {
  shown_.sent.store(done_.sent, std::memory_order_relaxed);
  shown_.drops.store(done_.drops, std::memory_order_relaxed);
  shown_.too_long.store(done_.too_long, std::memory_order_relaxed);
  shown_.cut.store(done_.cut, std::memory_order_relaxed);
  shown_.lost.store(done_.lost, std::memory_order_relaxed);
}

SentFrames FrameSender::counts() const {
  return {.sent = shown_.sent.load(std::memory_order_relaxed),
          .drops = shown_.drops.load(std::memory_order_relaxed),
          .too_long = shown_.too_long.load(std::memory_order_relaxed),
          .cut = shown_.cut.load(std::memory_order_relaxed),
          .lost = shown_.lost.load(std::memory_order_relaxed)};
}

}  // namespace snf
