// SPDX-License-Identifier: Apache-2.0
#include "platform/drivers/virtual_network/state_network.h"

#include <algorithm>

#include "base/check.h"

namespace snf {
namespace {

Nanos TransferTime(uint32_t bytes, int64_t bandwidth_bps) {
  const uint64_t work = uint64_t{bytes} * 8'000'000'000;
  const auto rate = static_cast<uint64_t>(bandwidth_bps);
  return {static_cast<int64_t>((work + rate - 1) / rate)};
}

}  // namespace

StateNetwork::StateNetwork(const RunOptions& options, uint32_t record_bytes,
                           uint64_t stream)
    : chaos_(options.chaos),
      hop_delay_(options.hop_delay),
      state_delay_(options.state_delay),
      state_bandwidth_bps_(options.state_bandwidth_bps),
      local_handover_(options.local_handover),
      rng_(Rng(options.controller.seed).Fork(stream)),
      record_bytes_(record_bytes) {
  SNF_CHECK(chaos_.state_delay_min <= chaos_.state_delay_max);
}

std::span<const Nanos> StateNetwork::SendState(uint32_t bytes) {
  const Nanos transfer = TransferTime(bytes, state_bandwidth_bps_);
  return Fates({state_delay_.ns + transfer.ns});
}

std::span<const Nanos> StateNetwork::Fates(Nanos delay) {
  delays_[0] = delay;
  if (!chaos_.any()) return {delays_.data(), 1};
  // All numbers are drawn, so that one fate leaves the next ones where they
  // were.
  const bool lost = rng_.Chance(chaos_.state_loss_65536);
  const bool twice = rng_.Chance(chaos_.state_duplicate_65536);
  for (Nanos& copy : delays_) copy = WithChaos(delay);
  if (lost) {
    ++lost_;
    return {};
  }
  duplicated_ += twice ? 1 : 0;
  return {delays_.data(), twice ? size_t{2} : size_t{1}};
}

Nanos StateNetwork::WithChaos(Nanos delay) {
  return {delay.ns +
          rng_.Uniform(chaos_.state_delay_min.ns, chaos_.state_delay_max.ns)};
}

uint32_t StateNetwork::Keep(std::span<const std::byte> record) {
  SNF_CHECK(record.size() <= record_bytes_);
  uint32_t kept = 0;
  if (!free_.empty()) {
    kept = free_.back();
    free_.pop_back();
  } else if (records_.size() * uint64_t{record_bytes_} < kMaxRecordBytes) {
    kept = static_cast<uint32_t>(records_.size());
    records_.push_back({std::make_unique<std::byte[]>(record_bytes_)});
  } else {
    ++lost_;
    return kNoRecord;
  }
  std::ranges::copy(record, records_[kept].bytes.get());
  records_[kept].used = record.size();
  return kept;
}

std::span<const std::byte> StateNetwork::record(uint32_t kept) const {
  return {records_[kept].bytes.get(), records_[kept].used};
}

void StateNetwork::Free(uint32_t kept) { free_.push_back(kept); }

}  // namespace snf
