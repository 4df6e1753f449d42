// SPDX-License-Identifier: Apache-2.0
#include "traces/capture_reader.h"

#include <algorithm>

#include "traces/capture_format.h"
#include "traces/empty_capture.h"
#include "traces/pcap_reader.h"
#include "traces/pcapng_reader.h"

namespace snf {
namespace {

constexpr size_t kFormatMagicBytes = 4;

// "FILE: offset N: what", the shape of every message about contents.
std::string AtOffset(const ByteSource& source, const std::string& what) {
  return source.name() + ": offset " + std::to_string(source.offset()) + ": " +
         what;
}

// Returns the failure of `source`, with its code.
absl::Status FailureOf(const ByteSource& source) {
  const absl::string_view text = source.status().message();
  return {source.status().code(),
          AtOffset(source, std::string{text.data(), text.size()})};
}

// Takes `source` when its first word is the magic of a format; else null.
std::unique_ptr<CaptureReader> CreateReader(
    std::unique_ptr<ByteSource>& source) {
  for (const bool swapped : {false, true}) {
    const FieldLoader fields(swapped);
    const uint32_t word = fields.Load32(source->data());
    if (PcapReader::IsMagic(word)) {
      return std::make_unique<PcapReader>(std::move(source), fields, word);
    }
    if (word == kSectionHeaderBlock) {  // reads the same in both orders
      return std::make_unique<PcapngReader>(std::move(source));
    }
  }
  return nullptr;
}

// Marks the status of a whole capture without packets.
constexpr const char* kEmptyCapture = "snf/empty_capture";

}  // namespace

bool IsEmptyCapture(const absl::Status& status) {
  return status.GetPayload(kEmptyCapture).has_value();
}

absl::StatusOr<std::unique_ptr<CaptureReader>> CaptureReader::Open(
    const std::string& path) {
  absl::StatusOr<std::unique_ptr<ByteSource>> opened = ByteSource::Open(path);
  if (!opened.ok()) {
    return opened.status();
  }
  std::unique_ptr<ByteSource> source = *std::move(opened);
  std::unique_ptr<CaptureReader> reader;
  if (source->Require(kFormatMagicBytes)) {
    reader = CreateReader(source);
  }
  if (reader == nullptr) {
    if (!source->status().ok()) {
      return FailureOf(*source);
    }
    const std::span<const std::byte> head(
        source->data(), std::min(source->size(), kFormatMagicBytes));
    return absl::DataLossError(AtOffset(
        *source, head.empty()
                     ? "the file is empty"
                     : "neither pcap nor pcapng, first bytes: " + Hex(head)));
  }
  reader->state_ = reader->ReadFileHeader();
  if (reader->state_ != ReadResult::kPacket) {
    return reader->status_;
  }
  return reader;
}

ReadResult CaptureReader::Next(CapturedPacket& packet) {
  if (state_ != ReadResult::kPacket) [[unlikely]] {
    return state_;
  }
  state_ = mends_ ? ReadMended(packet) : ReadAndCount(packet);
  if (state_ == ReadResult::kPacket) [[likely]] {
    ++packets_read_;
    timestamps_backwards_ += packet.time < last_time_ ? 1 : 0;
    last_time_ = packet.time;
  }
  return state_;
}

ReadResult CaptureReader::ReadAndCount(CapturedPacket& packet) {
  const ReadResult result = Read(packet);
  if (result != ReadResult::kPacket) return result;
  ++packets_found_;
  time_found_ = packet.time;
  return result;
}

ReadResult CaptureReader::ReadMended(CapturedPacket& packet) {
  ReadResult result = ReadResult::kPacket;
  if (ahead_.has_value()) {
    result = *ahead_;
    packet = next_;
    ahead_.reset();
  } else {
    result = ReadAndCount(packet);
  }
  if (result != ReadResult::kPacket) return result;
  const bool may_be_stray =
      packets_read_ == 0 || packet.time - latest_time_ > kFar;
  if (may_be_stray) [[unlikely]] {
    held_bytes_.assign(packet.bytes.begin(), packet.bytes.end());
    packet.bytes = held_bytes_;
    ahead_ = ReadAndCount(next_);
    if (*ahead_ == ReadResult::kPacket && packet.time - next_.time > kFar) {
      packet.time = next_.time;
      ++strays_;
      if (first_stray_ == 0) first_stray_ = packets_read_ + 1;
    }
  }
  latest_time_ = std::max(latest_time_, packet.time);
  return result;
}

void CaptureReader::AddFacts(const CaptureFacts::Interface& interface) {
  std::vector<CaptureFacts::Interface>& known = facts_.interfaces;
  if (known.size() < CaptureFacts::kMaxInterfaces &&
      std::find(known.begin(), known.end(), interface) == known.end()) {
    known.push_back(interface);
  }
}

absl::Status CaptureReader::Error(const std::string& what) const {
  return absl::DataLossError(AtOffset(*source_, what));
}

ReadResult CaptureReader::Fail(const std::string& what) {
  status_ = Error(what);
  return ReadResult::kError;
}

absl::Status CaptureReader::LinkTypeError(const std::string& of,
                                          uint32_t number) const {
  return absl::UnimplementedError(AtOffset(
      *source_,
      "link type" + of + " is not supported: " + std::to_string(number)));
}

ReadResult CaptureReader::FailLinkType(const std::string& of, uint32_t number) {
  status_ = LinkTypeError(of, number);
  return ReadResult::kError;
}

void CaptureReader::CountOdd(const std::string& what) {
  auto odd = std::ranges::find(odd_, what, &Odd::what);
  if (odd == odd_.end()) {
    if (odd_.size() == kMaxOdd) return;
    odd = odd_.insert(odd, {what, source_->offset(), 0});
  }
  ++odd->packets;
}

void CaptureReader::CountUnread(const std::string& what,
                                const absl::Status& alone) {
  if (unread_alone_.ok()) unread_alone_ = alone;
  CountOdd(what);
}

void CaptureReader::WarnOfOdd() {
  for (const Odd& odd : odd_) {
    warnings_.push_back(source_->name() + ": offset " +
                        std::to_string(odd.first_offset) + ": " + odd.what +
                        ", packets: " + std::to_string(odd.packets));
  }
}

ReadResult CaptureReader::EndOfSource(const char* record,
                                      uint64_t wanted_bytes) {
  if (!source_->status().ok()) {
    status_ = FailureOf(*source_);
    return ReadResult::kError;
  }
  std::string what;
  if (source_->size() > 0) {
    what = std::string(record) +
           " cut short, bytes: " + std::to_string(source_->size()) + " of " +
           std::to_string(wanted_bytes);
  }
  if (!source_->odd_end().empty()) {
    what += (what.empty() ? "" : "; ") + source_->odd_end();
  }
  WarnOfOdd();
  if (packets_found_ == 0 && !unread_alone_.ok()) {
    status_ = unread_alone_;
    return ReadResult::kError;
  }
  if (packets_found_ == 0) {
    Fail("contains no packets" + (what.empty() ? "" : ": " + what));
    if (what.empty()) status_.SetPayload(kEmptyCapture, absl::Cord());
    return ReadResult::kError;
  }
  if (!what.empty()) {
    Warn(what);
  }
  return ReadResult::kEnd;
}

void CaptureReader::Warn(const std::string& what) {
  warnings_.push_back(AtOffset(*source_, what));
}

}  // namespace snf
