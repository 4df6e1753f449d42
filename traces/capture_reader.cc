// SPDX-License-Identifier: Apache-2.0
#include "traces/capture_reader.h"

#include <algorithm>

#include "traces/capture_format.h"
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

// What made `source` fail, with its code.
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

}  // namespace

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
  state_ = Read(packet);
  if (state_ == ReadResult::kPacket) [[likely]] {
    ++packets_read_;
    timestamps_backwards_ += packet.time < last_time_ ? 1 : 0;
    last_time_ = packet.time;
  }
  return state_;
}

void CaptureReader::AddFacts(const CaptureFacts::Interface& interface) {
  std::vector<CaptureFacts::Interface>& known = facts_.interfaces;
  if (known.size() < CaptureFacts::kMaxInterfaces &&
      std::find(known.begin(), known.end(), interface) == known.end()) {
    known.push_back(interface);
  }
}

ReadResult CaptureReader::Fail(const std::string& what) {
  status_ = absl::DataLossError(AtOffset(*source_, what));
  return ReadResult::kError;
}

ReadResult CaptureReader::FailLinkType(const std::string& of, uint32_t number) {
  status_ = absl::UnimplementedError(AtOffset(
      *source_,
      "link type" + of + " is not supported: " + std::to_string(number)));
  return ReadResult::kError;
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
  if (packets_read_ == 0) {
    return Fail("contains no packets" + (what.empty() ? "" : ": " + what));
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
