// SPDX-License-Identifier: Apache-2.0
#include "runtime/ring/thread_link.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"

namespace snf {

LinkRing LinkRing::Make(RegionCarver& carver, uint32_t cells,
                        Doorbell* receiver) {
  const std::span<std::byte> memory = carver.Take(CellRing::BytesFor(cells));
  SNF_CHECK(CellRing::Format(memory, cells).ok());
  auto producer = CellRing::Producer::Attach(memory, receiver);
  auto consumer = CellRing::Consumer::Attach(memory);
  SNF_CHECK(producer.ok() && consumer.ok());
  return {*producer, *consumer};
}

LinkOut::LinkOut(CellRing::Producer ring, size_t reserve) : ring_(ring) {
  staged_.reserve(reserve);
}

void LinkOut::AppendPayload(std::span<const std::byte> payload) {
  const size_t at = staged_.size();
  staged_.resize(at + Cell::CountFor(payload.size()));
  if (!payload.empty()) {
    std::memcpy(&staged_[at], payload.data(), payload.size());
  }
}

// Hands over as many of the first `cells` as there is room for.
bool LinkOut::Push(size_t cells) {
  const size_t pushed = ring_.Push(std::span(staged_).first(cells));
  staged_.erase(staged_.begin(),
                staged_.begin() + static_cast<std::ptrdiff_t>(pushed));
  return staged_.empty();
}

LinkIn::LinkIn(CellRing::Consumer ring, size_t max_payload_bytes)
    : ring_(ring),
      max_payload_bytes_(max_payload_bytes),
      cells_(kBurst + 1 + Cell::CountFor(max_payload_bytes)) {}

void LinkIn::Join(LinkOut& out) {
  SNF_CHECK(out.sent_ == 0 && received_ == 0);
  joined_ = &out;
  out.joined_ = true;
  cells_.reserve(out.staged_.capacity());
}

// The two ends swap their memory.
void LinkIn::ReceiveJoined() {
  if (begin_ != end_) return;  // the link resumes after a pause
  cells_.clear();
  cells_.swap(joined_->staged_);
  begin_ = 0;
  end_ = cells_.size();
}

void LinkIn::Receive() {
  if (is_closed_) return;
  if (joined_ != nullptr) {
    ReceiveJoined();
    return;
  }
  end_ += ring_.Pop(Room());
}

void LinkIn::ReceiveKept() {
  if (!is_closed_) end_ += ring_.Read(Room());
}

void LinkIn::Release(Doorbell& sender) {
  if (is_closed_ || handled() == ring_.released()) return;
  ring_.Release(handled() - ring_.released(), sender);
}

void LinkIn::Release() {
  if (is_closed_ || joined_ != nullptr || handled() == ring_.released()) return;
  ring_.Release(handled() - ring_.released());
}

std::span<Cell> LinkIn::Room() {
  // Only the beginning of one message can be left.
  if (begin_ > 0) {
    std::copy(cells_.begin() + static_cast<std::ptrdiff_t>(begin_),
              cells_.begin() + static_cast<std::ptrdiff_t>(end_),
              cells_.begin());
    end_ -= begin_;
    begin_ = 0;
  }
  SNF_CHECK(end_ < cells_.size());
  const size_t room = end_ == 0 ? kBurst : cells_.size() - end_;
  return std::span(cells_).subspan(end_, room);
}

}  // namespace snf
