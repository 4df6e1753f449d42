// SPDX-License-Identifier: Apache-2.0
#include "platform/ports/address_table.h"

#include <utility>

#include "base/byte_order.h"
#include "base/check.h"

namespace snf {
namespace {

constexpr size_t kSenderAt = 6;
constexpr size_t kTypeAt = 12;
constexpr uint16_t kCustomerTag = 0x8100;  // IEEE 802.1Q
constexpr uint16_t kServiceTag = 0x88A8;   // IEEE 802.1ad
constexpr uint16_t kVlanMask = 0x0FFF;

}  // namespace

// 0 for an address of a group, and for a frame that is too short.
AddressTable::Key AddressTable::KeyOf(std::span<const std::byte> frame,
                                      size_t at) {
  if (frame.size() < kTypeAt) return 0;
  const auto is_group = frame[at] & std::byte{1};
  if (is_group != std::byte{}) return 0;
  const Key address =
      Key{LoadBe16(&frame[at]).host()} << 32 | LoadBe32(&frame[at + 2]).host();
  if (frame.size() < kTypeAt + 4) return address;
  const uint16_t type = LoadBe16(&frame[kTypeAt]).host();
  if (type != kCustomerTag && type != kServiceTag) return address;
  const uint16_t tag = LoadBe16(&frame[kTypeAt + 2]).host();
  return Key{static_cast<uint16_t>(tag & kVlanMask)} << 48 | address;
}

void AddressTable::Learn(std::span<const std::byte> frame, size_t port) {
  SNF_CHECK(port < kMostPorts);
  const Key sender = KeyOf(frame, kSenderAt);
  if (sender == 0 || sender == last_[port]) return;
  for (Key& last : last_) {
    if (last == sender) last = 0;
  }
  last_[port] = sender;
  if (const auto known = young_.find(sender); known != young_.end()) {
    known->second = static_cast<uint8_t>(port);
    return;
  }
  if (young_.size() == kGeneration) {
    old_ = std::move(young_);
    young_ = Ports();
    last_ = {};  // hosts that still send are learned again
    last_[port] = sender;
  }
  young_.emplace(sender, static_cast<uint8_t>(port));
}

std::optional<size_t> AddressTable::PortOf(Key key) const {
  if (key == 0) return std::nullopt;
  for (size_t port = 0; port < kMostPorts; ++port) {
    if (last_[port] == key) return port;
  }
  for (const Ports* ports : {&young_, &old_}) {
    if (const auto known = ports->find(key); known != ports->end()) {
      return known->second;
    }
  }
  return std::nullopt;
}

std::optional<size_t> AddressTable::PortOfReceiver(
    std::span<const std::byte> frame) const {
  return PortOf(KeyOf(frame, 0));
}

std::optional<size_t> AddressTable::PortOfSender(
    std::span<const std::byte> frame) const {
  return PortOf(KeyOf(frame, kSenderAt));
}

}  // namespace snf
