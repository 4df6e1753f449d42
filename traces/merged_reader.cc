// SPDX-License-Identifier: Apache-2.0
#include "traces/merged_reader.h"

#include <algorithm>

#include "traces/empty_capture.h"

namespace snf {

absl::StatusOr<std::unique_ptr<MergedReader>> MergedReader::Open(
    const std::vector<std::string>& paths, bool mends_strays) {
  if (paths.empty() || paths.size() > kMaxMergedFiles) {
    return absl::InvalidArgumentError("captures to read must be from 1 to " +
                                      std::to_string(kMaxMergedFiles) +
                                      ", not: " + std::to_string(paths.size()));
  }
  if (std::count(paths.begin(), paths.end(), "-") > 1) {
    return absl::InvalidArgumentError("stdin is named twice: -");
  }
  std::vector<File> files;
  for (const std::string& path : paths) {
    absl::StatusOr<std::unique_ptr<CaptureReader>> reader =
        CaptureReader::Open(path);
    if (!reader.ok()) {
      return reader.status();
    }
    if (mends_strays) (*reader)->MendStrayTimes();
    files.push_back({.reader = *std::move(reader), .next = {}});
  }
  std::unique_ptr<MergedReader> merged(new MergedReader(std::move(files)));
  merged->waiting_.reserve(paths.size());
  for (uint32_t file = 0; file < paths.size(); ++file) {
    // A capture has a packet or is an error: it cannot end here.
    if (merged->Advance(file) == ReadResult::kPacket) {
      merged->Push(file);
    } else if (!IsEmptyCapture(merged->status_)) {
      return merged->status_;
    }
  }
  if (merged->waiting_.empty()) return merged->status_;
  merged->status_ = absl::OkStatus();
  return merged;
}

ReadResult MergedReader::Next(CapturedPacket& packet) {
  if (current_.has_value()) {
    const ReadResult result = Advance(*current_);
    if (result == ReadResult::kError) [[unlikely]] {
      return result;
    }
    if (result == ReadResult::kEnd) {
      current_.reset();
    } else if (!waiting_.empty() && ComesAfter(*current_, waiting_.front())) {
      Push(*current_);
      current_.reset();
    }
  }
  if (!current_.has_value()) {
    if (waiting_.empty()) {
      return ReadResult::kEnd;
    }
    current_ = Pop();
  }
  packet = files_[*current_].next;
  packet.number = ++packets_read_;
  return ReadResult::kPacket;
}

ReadResult MergedReader::Advance(uint32_t file) {
  CapturedPacket& next = files_[file].next;
  const ReadResult result = files_[file].reader->Next(next);
  next.file = file;
  if (result == ReadResult::kError) [[unlikely]] {
    status_ = files_[file].reader->status();
  }
  return result;
}

bool MergedReader::ComesAfter(uint32_t a, uint32_t b) const {
  const Instant time_a = files_[a].next.time;
  const Instant time_b = files_[b].next.time;
  return time_a != time_b ? time_a > time_b : a > b;
}

void MergedReader::Push(uint32_t file) {
  waiting_.push_back(file);
  std::push_heap(waiting_.begin(), waiting_.end(),
                 [this](uint32_t a, uint32_t b) { return ComesAfter(a, b); });
}

uint32_t MergedReader::Pop() {
  std::pop_heap(waiting_.begin(), waiting_.end(),
                [this](uint32_t a, uint32_t b) { return ComesAfter(a, b); });
  const uint32_t file = waiting_.back();
  waiting_.pop_back();
  return file;
}

std::vector<std::string> MergedReader::warnings() const {
  std::vector<std::string> warnings;
  for (const File& file : files_) {
    const std::vector<std::string>& more = file.reader->warnings();
    warnings.insert(warnings.end(), more.begin(), more.end());
    if (IsEmptyCapture(file.reader->status())) {
      warnings.emplace_back(file.reader->status().message());
    }
    if (file.reader->strays() == 0) continue;
    warnings.push_back(
        std::to_string(file.reader->strays()) + " stray " +
        (file.reader->strays() == 1 ? "time" : "times") + ", first packet " +
        std::to_string(file.reader->first_stray()) +
        ": more than 1 s later than the packets before and after; taken at the "
        "time of the next packet.");
  }
  return warnings;
}

uint64_t MergedReader::timestamps_backwards() const {
  uint64_t packets = 0;
  for (const File& file : files_) {
    packets += file.reader->timestamps_backwards();
  }
  return packets;
}

uint64_t MergedReader::bytes_read() const {
  uint64_t bytes = 0;
  for (const File& file : files_) {
    bytes += file.reader->bytes_read();
  }
  return bytes;
}

uint64_t MergedReader::total_bytes() const {
  uint64_t bytes = 0;
  for (const File& file : files_) {
    if (file.reader->total_bytes() == 0) {
      return 0;
    }
    bytes += file.reader->total_bytes();
  }
  return bytes;
}

}  // namespace snf
