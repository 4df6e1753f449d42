// SPDX-License-Identifier: Apache-2.0
#include "platform/commands/nf/remote_state.h"

#include <algorithm>
#include <cstring>

namespace snf {
namespace {

std::string KeyOf(FlowId flow) {
  std::string key(1 + sizeof flow, 'f');
  std::memcpy(&key[1], &flow, sizeof flow);
  return key;
}

std::string BytesOf(std::span<const uint64_t> words) {
  std::string bytes(words.size_bytes(), '\0');
  std::memcpy(bytes.data(), words.data(), bytes.size());
  return bytes;
}

// Zeros where there is nothing.
void WordsOf(const std::string& bytes, std::span<uint64_t> words) {
  std::ranges::fill(words, 0);
  if (bytes.size() == words.size_bytes()) {
    std::memcpy(words.data(), bytes.data(), bytes.size());
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<RemoteState>> RemoteState::Start(
    bool has_flows) {
  std::unique_ptr<RemoteState> state(new RemoteState(has_flows));
  auto values = RedisValues::Start();
  if (!values.ok()) return values.status();
  state->values_ = *std::move(values);
  return state;
}

void RemoteState::NameRecords(std::span<const Record> records) {
  keys_.clear();
  for (const Record& record : records) keys_.push_back(KeyOf(record.flow));
}

absl::Status RemoteState::Load(std::span<const Record> records) {
  if (records.empty()) return absl::OkStatus();
  NameRecords(records);
  if (absl::Status s = values_->Get(keys_, found_); !s.ok()) return s;
  for (size_t i = 0; i < records.size(); ++i) {
    const std::span<std::byte> bytes = records[i].bytes;
    std::ranges::fill(bytes, std::byte{0});
    if (found_[i].size() != bytes.size() || bytes.empty()) continue;
    std::memcpy(bytes.data(), found_[i].data(), bytes.size());
  }
  return absl::OkStatus();
}

absl::Status RemoteState::Save(std::span<const Record> records) {
  if (records.empty()) return absl::OkStatus();
  NameRecords(records);
  found_.clear();
  for (const Record& record : records) {
    found_.emplace_back(reinterpret_cast<const char*>(record.bytes.data()),
                        record.bytes.size());
    std::ranges::fill(record.bytes, std::byte{0});
  }
  return values_->Set(keys_, found_);
}

absl::Status RemoteState::Forget(FlowId flow) {
  return values_->Remove(KeyOf(flow));
}

absl::Status RemoteState::Merge(
    std::span<const std::unique_ptr<TableCopy>> tables) {
  for (size_t i = 0; i < tables.size(); ++i) {
    while (tables[i]->dirty()) {
      if (absl::Status s = MergeTable(i, *tables[i]); !s.ok()) return s;
    }
  }
  return absl::OkStatus();
}

absl::Status RemoteState::MergeTable(size_t index, TableCopy& table) {
  const TableShape& shape = table.shape();
  const uint32_t words = shape.value_words();
  std::vector<uint64_t> entry(shape.entry_words());
  std::vector<uint64_t> taken;  // entries: key and updates
  std::vector<bool> is_rest;
  std::vector<bool> is_erased;
  keys_.clear();
  while (table.dirty() && table.sent() < TableCopy::kMaxSent) {
    std::ranges::fill(entry, 0);
    const auto kind = table.Take(entry.data(), &entry[shape.key_words()]);
    if (kind == TableCopy::Taken::kNothing) continue;
    std::string key = "t" + std::to_string(index);
    if (kind != TableCopy::Taken::kRest) {
      key += ":" + BytesOf(std::span(entry).first(shape.key_words()));
    }
    keys_.push_back(std::move(key));
    is_rest.push_back(kind == TableCopy::Taken::kRest);
    is_erased.push_back(kind == TableCopy::Taken::kErased);
    taken.insert(taken.end(), entry.begin(), entry.end());
  }
  if (keys_.empty()) return absl::OkStatus();
  if (absl::Status s = values_->Get(keys_, found_); !s.ok()) return s;
  ++version_;
  std::vector<uint64_t> total(words);
  for (size_t i = 0; i < keys_.size(); ++i) {
    const uint64_t* const key = &taken[i * entry.size()];
    WordsOf(found_[i], total);
    // The store has no rest, so an erased value is lost.
    if (is_erased[i]) std::ranges::fill(total, 0);
    shape.MergeInto(total.data(), key + shape.key_words());
    table.on_merged(static_cast<uint32_t>(i), key, is_rest[i], version_,
                    total.data());
    found_[i] = BytesOf(total);
  }
  table.EndSent();
  return values_->Set(keys_, found_);
}

}  // namespace snf
