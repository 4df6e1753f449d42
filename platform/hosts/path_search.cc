// SPDX-License-Identifier: Apache-2.0
#include "platform/hosts/path_search.h"

#include <algorithm>
#include <initializer_list>

namespace snf {
namespace {

// Below the longest one: jumbo frames, Ethernet, tunnels, IPv6's least.
constexpr std::initializer_list<size_t> kUsual = {
    9'000, 4'000, 1'500, 1'400, PathSearch::kBlackHole, PathSearch::kLeast};
constexpr std::initializer_list<size_t> kShort = {PathSearch::kBlackHole,
                                                  PathSearch::kLeast};

}  // namespace

void PathSearch::Begin(Instant now) {
  begun_ = now;
  std::ranges::fill(channels_, Channel());
}

PathSearch::Outcome PathSearch::Look(Instant now) {
  if (!begun_) return Outcome::kFound;
  const Nanos took = now - *begun_;
  size_t least = kMost;
  bool is_complete = true;
  for (const Channel& of : channels_) {
    least = std::min(least, of.confirmed);
    is_complete = is_complete && of.asked && of.confirmed == of.longest;
  }
  const bool is_found = is_complete || (least > 0 && took > kAnswerTime);
  if (!is_found && took <= kPatience) return Outcome::kPending;
  begun_.reset();
  std::ranges::fill(channels_, Channel());
  if (!is_found) return Outcome::kSilent;
  bytes_ = std::max(least, kLeast);
  return Outcome::kFound;
}

bool PathSearch::is_due(Instant now, size_t channel) const {
  const Channel& of = channels_[channel];
  return asks(of) && (!of.asked || now - *of.asked >= kPause);
}

std::vector<size_t> PathSearch::Ask(Instant now, size_t channel, size_t limit) {
  if (!is_due(now, channel)) return {};
  Channel& of = channels_[channel];
  of.asked = now;
  of.longest = of.is_suspect ? bytes_ : std::clamp(limit, kLeast, kMost);
  // The kernel's path may have become shorter meanwhile.
  of.confirmed = std::min(of.confirmed, of.longest);
  std::vector<size_t> sizes = {of.longest};
  for (const size_t size : of.is_suspect ? kShort : kUsual) {
    if (size < of.longest) sizes.push_back(size);
  }
  return sizes;
}

void PathSearch::on_answer(Instant now, size_t channel, size_t bytes) {
  Channel& of = channels_[channel];
  if (!asks(of) || !of.asked) return;
  of.confirmed = std::max(of.confirmed, std::min(bytes, of.longest));
  if (!of.answered) of.answered = now;
}

bool PathSearch::Limit(size_t bytes) {
  bytes = std::max(bytes, kLeast);
  if (bytes >= bytes_) return false;
  bytes_ = bytes;
  return true;
}

bool PathSearch::Suspect(Instant now, size_t channel) {
  Channel& of = channels_[channel];
  if (!of.is_suspect) of = {.is_suspect = true};
  if (of.confirmed >= bytes_) {
    of = {};
    return false;
  }
  if (!of.answered || now - *of.answered < kAnswerTime) return false;
  bytes_ = std::max(of.confirmed, kLeast);
  of = {};
  return true;
}

void PathSearch::Trust(size_t channel) {
  if (channels_[channel].is_suspect) channels_[channel] = {};
}

Instant PathSearch::due() const {
  Instant due = Instant::max();
  for (const Channel& of : channels_) {
    if (!asks(of)) continue;
    due = std::min(due, of.asked ? *of.asked + kPause : Instant());
    if (of.is_suspect && of.answered) {
      due = std::min(due, *of.answered + kAnswerTime);
    }
  }
  return due;
}

}  // namespace snf
