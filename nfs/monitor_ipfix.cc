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

uint16_t IpfixWriter::AddTemplate(std::initializer_list<IpfixField> fields) {
  const auto number = static_cast<uint16_t>(kFirstTemplate + templates_.size());
  Template added;
  Append(number, 2, added.bytes);
  Append(fields.size(), 2, added.bytes);
  for (const IpfixField& field : fields) {
    const uint16_t is_foreign = field.enterprise != 0 ? 0x8000 : 0;
    Append(static_cast<uint16_t>(field.element | is_foreign), 2, added.bytes);
    Append(field.bytes, 2, added.bytes);
    if (field.enterprise != 0) Append(field.enterprise, 4, added.bytes);
    added.record_bytes += field.bytes;
  }
  OpenSet(kTemplateSet, added.bytes.size());
  message_ += added.bytes;
  templates_.push_back(std::move(added));
  return number;
}

void IpfixWriter::Begin(uint16_t number) {
  OpenSet(number, templates_[number - kFirstTemplate].record_bytes);
  ++records_;
}

void IpfixWriter::Put(const IpAddress& address, bool as_ipv4) {
  if (as_ipv4) return Put(address.ipv4().host(), 4);
  for (const std::byte byte : address.bytes) {
    message_.push_back(static_cast<char>(byte));
  }
}

std::vector<std::string> IpfixWriter::Take() {
  CloseMessage();
  return std::move(messages_);
}

void IpfixWriter::Append(uint64_t value, uint32_t bytes, std::string& to) {
  for (uint32_t left = bytes; left > 0; --left) {
    to.push_back(static_cast<char>(value >> 8 * (left - 1)));
  }
}

// Opens a set, or continues the open one, with room for `next_bytes` more.
void IpfixWriter::OpenSet(uint16_t id, size_t next_bytes) {
  const bool is_open = set_ != 0 && set_id_ == id;
  const size_t needed = next_bytes + (is_open ? 0 : kSetHeaderBytes);
  if (!message_.empty() && message_.size() + needed > limits_.message_bytes) {
    CloseMessage();
  } else if (is_open) {
    return;
  }
  CloseSet();
  if (message_.empty()) OpenMessage();
  SNF_CHECK(message_.size() + kSetHeaderBytes + next_bytes <=
            limits_.message_bytes);
  set_ = message_.size();
  set_id_ = id;
  Append(id, 2, message_);
  Append(0, 2, message_);  // the length
}

void IpfixWriter::CloseSet() {
  if (set_ != 0) SetLength(set_ + 2, message_.size() - set_);
  set_ = 0;
}

void IpfixWriter::OpenMessage() {
  Append(kVersion, 2, message_);
  Append(0, 2, message_);  // the length
  Append(export_time_s_, 4, message_);
  Append(records_, 4, message_);  // of all messages before
  Append(kObservationDomain, 4, message_);
  if (limits_.templates_each == 0 || messages_.empty() ||
      messages_.size() % limits_.templates_each != 0) {
    return;
  }
  set_ = message_.size();
  Append(kTemplateSet, 2, message_);
  Append(0, 2, message_);
  for (const Template& known : templates_) message_ += known.bytes;
  CloseSet();
}

void IpfixWriter::CloseMessage() {
  CloseSet();
  if (message_.empty()) return;
  SetLength(2, message_.size());
  messages_.push_back(std::exchange(message_, {}));
}

void IpfixWriter::SetLength(size_t at, size_t bytes) {
  message_[at] = static_cast<char>(bytes >> 8);
  message_[at + 1] = static_cast<char>(bytes);
}

}  // namespace snf
