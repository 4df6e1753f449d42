// SPDX-License-Identifier: Apache-2.0
#include "platform/hosts/channel_sender.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace snf {

void ChannelSender::Write(std::span<const std::byte> bytes) {
  if (head_ > bytes_.size() / 2) {
    bytes_.erase(bytes_.begin(),
                 bytes_.begin() + static_cast<std::ptrdiff_t>(head_));
    head_ = 0;
  }
  bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
  written_ += bytes.size();
}

std::optional<ChannelSender::Piece> ChannelSender::Cut(Instant now,
                                                       uint64_t offset,
                                                       size_t bytes) {
  if (open_.empty()) last_progress_ = now;
  const Piece piece = {
      .number = next_number_++,
      .offset = offset,
      .bytes = std::span(bytes_).subspan(head_ + (offset - freed_), bytes)};
  open_.push_back(
      {.number = piece.number, .offset = offset, .bytes = bytes, .at = now});
  under_way_ += bytes;
  last_sent_ = now;
  ++counts_.datagrams;
  return piece;
}

std::optional<ChannelSender::Piece> ChannelSender::Next(Instant now,
                                                        size_t most) {
  size_ = most;
  window_ = std::max<uint64_t>(window_, kLeastWindow * size_);
  if (is_probe_due_) {
    is_probe_due_ = false;
    // A question has no bytes; the pieces behind may be lost, too.
    const auto oldest = std::ranges::find_if(open_, [this](const Sent& sent) {
      return sent.is_open && sent.offset + sent.bytes > freed_;
    });
    if (oldest != open_.end()) {
      ++counts_.probes;
      const uint64_t from = std::max(oldest->offset, freed_);
      const size_t left = oldest->offset + oldest->bytes - from;
      return Cut(now, from, std::min(left, most));
    }
  }
  if (is_question_due_) {
    is_question_due_ = false;
    return Cut(now, sent_, 0);
  }
  if (under_way_ + most > window_) {
    was_full_ = !lost_.empty() || sent_ < written_;
    return std::nullopt;
  }
  while (!lost_.empty()) {
    const uint64_t end = lost_.begin()->first + lost_.begin()->second;
    const uint64_t offset = std::max(lost_.begin()->first, freed_);
    lost_.erase(lost_.begin());
    if (end <= offset) continue;
    const size_t bytes = std::min<size_t>(end - offset, most);
    if (offset + bytes < end) {
      size_t& rest = lost_[offset + bytes];
      rest = std::max<size_t>(rest, end - offset - bytes);
    }
    return Cut(now, offset, bytes);
  }
  const uint64_t limit = std::min(written_, consumed_ + kChannelWindow);
  if (sent_ >= limit) return std::nullopt;
  const uint64_t from = sent_;
  const size_t bytes = std::min<size_t>(limit - from, most);
  sent_ += bytes;
  return Cut(now, from, bytes);
}

void ChannelSender::Close(Sent& sent) {
  if (!sent.is_open) return;
  sent.is_open = false;
  under_way_ -= sent.bytes;
}

void ChannelSender::DropClosed() {
  while (!open_.empty() && !open_.front().is_open) open_.pop_front();
}

void ChannelSender::TakeBack(uint64_t number) {
  while (!open_.empty() && open_.back().number >= number) {
    const Sent& sent = open_.back();
    if (sent.is_open && sent.bytes > 0) {
      under_way_ -= sent.bytes;
      size_t& bytes = lost_[sent.offset];
      bytes = std::max(bytes, sent.bytes);
    }
    open_.pop_back();
    --counts_.datagrams;
  }
  DropClosed();
}

void ChannelSender::TakeShorterPath(Instant now) {
  last_progress_ = now;
  timeouts_ = 0;
}

// Returns true if a datagram of the range was open.
bool ChannelSender::TakeRange(const NumberRange& range, Instant& newest,
                              uint64_t& acknowledged) {
  bool did = false;
  auto at = std::ranges::lower_bound(open_, range.first, {}, &Sent::number);
  for (; at != open_.end() && at->number <= range.last; ++at) {
    if (!at->is_open) continue;
    Close(*at);
    did = true;
    newest = at->at;
    if (at->number >= recovery_) acknowledged += at->bytes;
  }
  return did;
}

absl::Status ChannelSender::TakeAck(Instant now, const ChannelAck& ack) {
  const auto refuse = [](const char* what, uint64_t value) {
    return absl::InvalidArgumentError(
        absl::StrCat("an acknowledgement of ", what, " ", value));
  };
  if (ack.received > sent_) return refuse("byte", ack.received);
  if (ack.consumed > ack.received) return refuse("use", ack.consumed);
  for (const NumberRange& range : ack.ranges) {
    if (range.first > range.last || range.last >= next_number_) {
      return refuse("number", range.last);
    }
  }
  // An older one than the last may come later.
  consumed_ = std::max(consumed_, ack.consumed);
  uint64_t acknowledged = 0;
  bool did = false;
  for (const NumberRange& range : ack.ranges) {
    Instant newest;
    if (!TakeRange(range, newest, acknowledged)) continue;
    did = true;
    if (!largest_.has_value() || range.last > *largest_) {
      largest_ = range.last;
      TakeRoundTrip(now - newest);
    }
  }
  if (ack.received > freed_) {
    head_ += ack.received - freed_;
    freed_ = ack.received;
    for (Sent& sent : open_) {  // whose range is no longer told
      if (sent.offset + sent.bytes <= freed_) Close(sent);
    }
  }
  if (did) {
    timeouts_ = 0;
    last_progress_ = now;
  }
  const uint64_t recovery = recovery_;
  FindLost(now);
  if (did && recovery == recovery_) Grow(acknowledged);
  DropClosed();
  // A question need not be answered once all is consumed.
  if (waiting() == 0 && under_way_ == 0) {
    open_.clear();
    loss_due_ = Instant::max();
    is_question_due_ = false;
  }
  while (!lost_.empty() &&
         lost_.begin()->first + lost_.begin()->second <= freed_) {
    lost_.erase(lost_.begin());
  }
  return absl::OkStatus();
}

void ChannelSender::TakeRoundTrip(Nanos took) {
  if (!has_round_trip_) {
    has_round_trip_ = true;
    smooth_ = took;
    variance_.ns = took.ns / 2;
    return;
  }
  const int64_t apart =
      smooth_.ns > took.ns ? smooth_.ns - took.ns : took.ns - smooth_.ns;
  variance_.ns = (3 * variance_.ns + apart) / 4;
  smooth_.ns = (7 * smooth_.ns + took.ns) / 8;
}

void ChannelSender::Grow(uint64_t acknowledged) {
  // A sender that has nothing to send has not tried the window.
  if (!was_full_) return;
  was_full_ = false;
  window_ +=
      window_ < threshold_ ? acknowledged : size_ * acknowledged / window_;
  window_ = std::min(window_, kChannelWindow);
}

Nanos ChannelSender::LossTime() const {
  return std::max(Nanos{smooth_.ns + smooth_.ns / 8}, kGranularity);
}

void ChannelSender::FindLost(Instant now) {
  loss_due_ = Instant::max();
  if (!largest_.has_value()) return;
  for (Sent& sent : open_) {
    if (sent.number > *largest_) break;
    if (!sent.is_open) continue;
    if (sent.number + kReordering <= *largest_ || sent.at + LossTime() <= now) {
      Lose(sent);
    } else {
      loss_due_ = std::min(loss_due_, sent.at + LossTime());
    }
  }
}

void ChannelSender::Lose(Sent& sent) {
  Close(sent);
  if (sent.offset + sent.bytes <= freed_) return;
  ++counts_.lost;
  size_t& bytes = lost_[sent.offset];
  bytes = std::max(bytes, sent.bytes);
  if (sent.number < recovery_) return;
  recovery_ = next_number_;
  window_ = std::max<uint64_t>(window_ / 2, kLeastWindow * size_);
  threshold_ = window_;
}

Nanos ChannelSender::ProbeTime() const {
  Nanos time{smooth_.ns + std::max(4 * variance_.ns, kGranularity.ns)};
  for (int i = 0; i < timeouts_ && time < kLongestProbe; ++i) time.ns *= 2;
  return std::min(time, std::max(kLongestProbe, smooth_));
}

Instant ChannelSender::due() const {
  if (loss_due_ != Instant::max()) return loss_due_;
  if (under_way_ > 0) return last_sent_ + ProbeTime();
  return waiting() > 0 ? last_sent_ + kQuestionTime : Instant::max();
}

void ChannelSender::OnDue(Instant now) {
  if (now < due()) return;
  if (loss_due_ != Instant::max()) {
    FindLost(now);
    DropClosed();
    return;
  }
  if (under_way_ == 0) {
    is_question_due_ = true;
    return;
  }
  ++timeouts_;
  is_probe_due_ = true;
  if (timeouts_ == kPersistent) {
    window_ = kLeastWindow * size_;
    recovery_ = next_number_;
  }
}

}  // namespace snf
