// SPDX-License-Identifier: Apache-2.0
#include "nfs/monitor_ipfix.h"

#include <utility>

#include "base/check.h"

namespace snf {
namespace {

constexpr uint16_t kVersion = 10;
constexpr uint16_t kTemplateSet = 2;
constexpr uint16_t kFirstTemplate = 256;
constexpr size_t kMessageHeaderBytes = 16;
constexpr size_t kSetHeaderBytes = 4;
constexpr uint32_t kObservationDomain = 1;

}  // namespace

uint16_t IpfixFile::AddTemplate(std::initializer_list<IpfixField> fields) {
  Template added = {
      .number = static_cast<uint16_t>(kFirstTemplate + templates_.size()),
      .record_bytes = 0};
  OpenSet(kTemplateSet, 4 + 8 * fields.size());
  Append(added.number, 2);
  Append(fields.size(), 2);
  for (const IpfixField& field : fields) {
    const uint16_t is_foreign = field.enterprise != 0 ? 0x8000 : 0;
    Append(static_cast<uint16_t>(field.element | is_foreign), 2);
    Append(field.bytes, 2);
    if (field.enterprise != 0) Append(field.enterprise, 4);
    added.record_bytes += field.bytes;
  }
  templates_.push_back(added);
  return added.number;
}

void IpfixFile::Begin(uint16_t number) {
  OpenSet(number, templates_[number - kFirstTemplate].record_bytes);
  ++records_;
}

void IpfixFile::Put(uint64_t value, uint32_t bytes) { Append(value, bytes); }

void IpfixFile::Put(const IpAddress& address, bool as_ipv4) {
  if (as_ipv4) {
    Append(address.ipv4().host(), 4);
    return;
  }
  for (const std::byte byte : address.bytes) {
    bytes_.push_back(static_cast<char>(byte));
  }
}

std::string IpfixFile::Take() {
  CloseMessage();
  return std::move(bytes_);
}

void IpfixFile::Append(uint64_t value, uint32_t bytes) {
  for (uint32_t left = bytes; left > 0; --left) {
    bytes_.push_back(static_cast<char>(value >> 8 * (left - 1)));
  }
}

// Opens a set, or goes on with one, that has room for `next_bytes` more.
void IpfixFile::OpenSet(uint16_t id, size_t next_bytes) {
  const bool is_open = set_ != 0 && set_id_ == id;
  const size_t needed = next_bytes + (is_open ? 0 : kSetHeaderBytes);
  SNF_CHECK(kMessageHeaderBytes + kSetHeaderBytes + next_bytes <=
            kMaxMessageBytes);
  if (bytes_.size() > message_ &&
      bytes_.size() - message_ + needed > kMaxMessageBytes) {
    CloseMessage();
  } else if (is_open) {
    return;
  }
  CloseSet();
  if (bytes_.size() == message_) {
    Append(kVersion, 2);
    Append(0, 2);  // the length
    Append(export_time_s_, 4);
    Append(records_, 4);  // of all messages before
    Append(kObservationDomain, 4);
  }
  set_ = bytes_.size();
  set_id_ = id;
  Append(id, 2);
  Append(0, 2);  // the length
}

void IpfixFile::CloseSet() {
  if (set_ != 0) SetLength(set_ + 2, bytes_.size() - set_);
  set_ = 0;
}

void IpfixFile::CloseMessage() {
  CloseSet();
  if (bytes_.size() > message_) {
    SetLength(message_ + 2, bytes_.size() - message_);
  }
  message_ = bytes_.size();
}

void IpfixFile::SetLength(size_t at, size_t bytes) {
  bytes_[at] = static_cast<char>(bytes >> 8);
  bytes_[at + 1] = static_cast<char>(bytes);
}

}  // namespace snf
