// SPDX-License-Identifier: Apache-2.0
#include "platform/system_test/test_failover_tables.h"

#include <algorithm>

namespace snf {
namespace {

constexpr TableOptions kOptions = {.period = Microseconds(200),
                                   .retry_after = Milliseconds(1)};

}  // namespace

FailoverTables::FailoverTables(const TableShape& shape, uint32_t units,
                               bool numbers)
    : numbers_(numbers), home_(0, shape, units, kOptions) {
  for (uint32_t i = 0; i < units; ++i) {
    senders_.emplace_back(UnitId{static_cast<uint16_t>(i)}, kOptions, 1);
  }
}

void FailoverTables::on_done(const FailoverNf::Did& did) {
  for (size_t key = 0; key < sums_.size(); ++key) sums_[key] += did.counts[key];
}

void FailoverTables::Send(const TableMessage& message, Rng& rng) {
  const uint64_t copies = rng.Below(3);
  for (uint64_t i = 0; i < copies; ++i) messages_.push_back(message);
}

bool FailoverTables::Step(Instant now, UnitId unit, UpdateLog* log, Rng& rng) {
  std::vector<size_t> here;
  for (size_t i = 0; i < messages_.size(); ++i) {
    if (messages_[i].unit == unit) here.push_back(i);
  }
  if (!here.empty() && (log == nullptr || rng.Chance(32'768))) {
    Deliver(now, here[rng.Below(here.size())], log, rng);
    return true;
  }
  TableMessage out;
  UpdateSender& sender = senders_[value(unit)];
  if (log == nullptr || !sender.on_timers(now, *log, out)) return false;
  Send(out, rng);
  return true;
}

void FailoverTables::Deliver(Instant now, size_t which, UpdateLog* log,
                             Rng& rng) {
  TableMessage in = messages_[which];
  messages_.erase(messages_.begin() + static_cast<std::ptrdiff_t>(which));
  TableMessage out;
  if (in.kind == TableMessage::Kind::kLogged) {
    const uint64_t before = home_.logged(in.unit);
    refused_ += in.merged != before && in.seq > before ? 1 : 0;
    if (!numbers_) in.merged = before;
    if (home_.on_message(now, in, out)) Send(out, rng);
    return;
  }
  if (log == nullptr) return;
  if (senders_[value(in.unit)].on_message(now, in, *log, out)) Send(out, rng);
}

bool FailoverTables::IsQuiet(UnitId unit) const {
  return std::ranges::none_of(messages_, [&](const TableMessage& message) {
    return message.unit == unit;
  });
}

std::string FailoverTables::End() const {
  uint64_t rest = 0;
  for (size_t i = 0; i < sums_.size(); ++i) {
    const uint64_t key = i;
    const uint64_t* const total = home_.Find(&key);
    if (total == nullptr) {
      rest += sums_[i];
    } else if (key == FailoverNf::kErasedKey && *total <= sums_[i]) {
      rest += sums_[i] - *total;
    } else if (*total != sums_[i]) {
      return "T: the total of key " + std::to_string(i) + " is " +
             std::to_string(*total) + ", and should be " +
             std::to_string(sums_[i]);
    }
  }
  if (*home_.rest() == rest) return "";
  return "T: the rest is " + std::to_string(*home_.rest()) +
         ", and should be " + std::to_string(rest);
}

}  // namespace snf
