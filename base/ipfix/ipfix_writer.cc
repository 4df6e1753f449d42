// SPDX-License-Identifier: Apache-2.0
#include "base/ipfix/ipfix_writer.h"

#include <utility>

#include "base/check.h"

namespace snf {
namespace {

constexpr uint16_t kVersion = 10;
constexpr uint16_t kTemplateSet = 2;
constexpr uint16_t kFirstTemplate = 256;
constexpr size_t kMessageHeaderBytes = 16;
constexpr size_t kSetHeaderBytes = 4;

}  // namespace

void AppendIpfix(uint64_t value, uint32_t bytes, std::string& to) {
  for (uint32_t left = bytes; left > 0; --left) {
    to.push_back(static_cast<char>(value >> 8 * (left - 1)));
  }
}

uint16_t IpfixWriter::AddTemplate(std::span<const IpfixField> fields) {
  const auto number = static_cast<uint16_t>(kFirstTemplate + templates_.size());
  Template added;
  AppendIpfix(number, 2, added.bytes);
  AppendIpfix(fields.size(), 2, added.bytes);
  for (const IpfixField& field : fields) {
    const uint16_t is_foreign = field.enterprise != 0 ? 0x8000 : 0;
    AppendIpfix(static_cast<uint16_t>(field.element | is_foreign), 2,
                added.bytes);
    AppendIpfix(field.bytes, 2, added.bytes);
    if (field.enterprise != 0) AppendIpfix(field.enterprise, 4, added.bytes);
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
  return std::exchange(messages_, {});
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
  AppendIpfix(id, 2, message_);
  AppendIpfix(0, 2, message_);  // the length
}

void IpfixWriter::CloseSet() {
  if (set_ != 0) SetLength(set_ + 2, message_.size() - set_);
  set_ = 0;
}

void IpfixWriter::OpenMessage() {
  AppendIpfix(kVersion, 2, message_);
  AppendIpfix(0, 2, message_);  // the length
  AppendIpfix(export_time_s_, 4, message_);
  AppendIpfix(records_, 4, message_);  // of all messages before
  AppendIpfix(limits_.observation_domain, 4, message_);
  const uint64_t before = opened_++;
  if (limits_.templates_each == 0 || before == 0 ||
      before % limits_.templates_each != 0) {
    return;
  }
  set_ = message_.size();
  AppendIpfix(kTemplateSet, 2, message_);
  AppendIpfix(0, 2, message_);
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
