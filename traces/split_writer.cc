// SPDX-License-Identifier: Apache-2.0
#include "traces/split_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <string_view>
#include <utility>

#include "traces/file_status.h"

namespace snf {
namespace {

// Returns the offset of the name's ending (.pcap.gz), or the name's length if
// it has none.
size_t EndingOf(const std::string& path) {
  size_t end = path.size();
  for (const std::string_view suffix : {".gz", ".zst", ".pcap", ".pcapng"}) {
    if (std::string_view(path).substr(0, end).ends_with(suffix)) {
      end -= suffix.size();
    }
  }
  return end;
}

}  // namespace

SplitWriter::SplitWriter(std::string path, const Options& options)
    : path_(std::move(path)),
      options_(options),
      classifier_(FlowClassifier::Options{}),
      writers_(std::max(options.flow_parts, 1u)) {}

std::string SplitWriter::PathOf(uint64_t part) const {
  if (!options_.splits()) return path_;
  const size_t end = EndingOf(path_);
  return fmt::format("{}-{:04}{}", path_.substr(0, end), part + 1,
                     path_.substr(end));
}

std::vector<std::string> SplitWriter::PartsThere() const {
  std::vector<std::string> parts;
  if (!options_.splits()) return parts;
  namespace fs = std::filesystem;
  const size_t end = EndingOf(path_);
  const std::string begin = path_.substr(0, end) + "-";
  const fs::path folder = fs::path(path_).parent_path();
  std::vector<uint64_t> numbers;
  std::error_code ignored;
  for (const fs::directory_entry& entry :
       fs::directory_iterator(folder.empty() ? "." : folder, ignored)) {
    if (!entry.is_regular_file(ignored)) continue;
    const std::string name = (folder / entry.path().filename()).string();
    uint64_t number = 0;
    if (!name.starts_with(begin)) continue;
    std::from_chars(name.data() + begin.size(), name.data() + name.size(),
                    number);
    if (number > 0 && name == PathOf(number - 1)) numbers.push_back(number);
  }
  std::ranges::sort(numbers);
  for (const uint64_t number : numbers) parts.push_back(PathOf(number - 1));
  return parts;
}

absl::Status SplitWriter::CheckAbsent(const std::string& path, bool force) {
  std::error_code ignored;
  if (force || path == "-" ||
      !std::filesystem::is_regular_file(path, ignored)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      fmt::format("{} is there already; --force replaces it", path));
}

uint64_t SplitWriter::PartOf(const CapturedPacket& packet) {
  if (options_.packets > 0) return packets_written_ / options_.packets;
  if (options_.time.ns > 0) {
    first_ = std::min(first_, packet.time);
    // One out of order goes with those before it.
    const auto part =
        static_cast<uint64_t>((packet.time - first_).ns / options_.time.ns);
    return std::max(part, part_);
  }
  if (options_.flow_parts == 0) return 0;
  ParsedPacket parsed;
  FlowKey key;
  const Direction direction =
      classifier_.Classify(packet.time, packet.link, packet.bytes, parsed, key);
  return direction == Direction::kNone ? 0 : Hash(key) % options_.flow_parts;
}

absl::Status SplitWriter::Write(const CapturedPacket& packet) {
  const uint64_t part = PartOf(packet);
  if (options_.flow_parts == 0 && part != part_) {
    if (absl::Status s = CloseAll(); !s.ok()) return s;
    part_ = part;
  }
  auto& writer = writers_[options_.flow_parts > 0 ? part : 0];
  if (writer == nullptr) {
    if (absl::Status s = OpenPart(part); !s.ok()) return s;
  }
  if (!writer->Write(packet)) return writer->status();
  ++packets_written_;
  return absl::OkStatus();
}

absl::Status SplitWriter::OpenPart(uint64_t part) {
  if (parts_written() == kMaxParts) {
    return absl::InvalidArgumentError(fmt::format(
        "--split would make more than {} files, which are made", kMaxParts));
  }
  const std::string path = PathOf(part);
  absl::Status status = CheckAbsent(path, options_.force);
  if (!status.ok()) return status;
  auto opened = CaptureWriter::Open(path, options_.writer);
  if (!opened.ok()) return opened.status();
  writers_[options_.flow_parts > 0 ? part : 0] = *std::move(opened);
  opened_.push_back(path);
  return absl::OkStatus();
}

absl::Status SplitWriter::CloseAll() {
  for (auto& writer : writers_) {
    if (writer == nullptr) continue;
    if (absl::Status s = writer->Close(); !s.ok()) return s;
    writer = nullptr;
  }
  written_.insert(opened_.begin(), opened_.end());
  opened_.clear();
  return absl::OkStatus();
}

absl::Status SplitWriter::RemoveOlderParts() {
  for (const std::string& part : PartsThere()) {
    if (written_.contains(part)) continue;
    std::error_code error;
    if (std::filesystem::remove(part, error)) ++parts_removed_;
    if (error) {
      return FileStatus(part + ": cannot remove", error.value());
    }
  }
  return absl::OkStatus();
}

absl::Status SplitWriter::Close() {
  if (packets_written_ == 0 && !options_.splits()) {
    if (absl::Status s = OpenPart(0); !s.ok()) return s;
  }
  absl::Status status = CloseAll();
  if (!status.ok() || !options_.force) return status;
  return RemoveOlderParts();
}

}  // namespace snf
