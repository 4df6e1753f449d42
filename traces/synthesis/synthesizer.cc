// SPDX-License-Identifier: Apache-2.0
#include "traces/synthesis/synthesizer.h"

#include <algorithm>
#include <utility>

namespace snf {
namespace {

constexpr uint64_t kPacketStream = 1;
constexpr uint64_t kFirstWindowStream = 2;

// A window may be longer than the period by one part in this.
constexpr int64_t kWider = 50;

int64_t WindowsIn(Nanos duration, Nanos period) {
  const Nanos widest =
      Instant{period.ns} + Nanos{period.ns / kWider} - Instant{};
  return (duration.ns - 1) / widest.ns + 1;
}

PacketMaker::Options WithSeed(PacketMaker::Options options, uint64_t seed) {
  options.seed = Rng(seed).Fork(kPacketStream).Next();
  return options;
}

PacketMaker::Place PlaceOf(const Overlay::Packet& packet, bool from_server) {
  if (packet.is_end) return PacketMaker::Place::kEnd;
  if (packet.is_under_way) return PacketMaker::Place::kMiddle;
  if (packet.number == 0) return PacketMaker::Place::kBegin;
  return packet.number == 1 && from_server ? PacketMaker::Place::kAnswer
                                           : PacketMaker::Place::kMiddle;
}

}  // namespace

Synthesizer::Synthesizer(const FlowModel& model, Options options)
    : model_(model),
      options_(std::move(options)),
      windows_(WindowsIn(options_.duration, model_.period())),
      maker_(WithSeed(options_.packets, options_.seed)) {
  NextWindow();
}

Nanos Synthesizer::window() const {
  return {(options_.duration.ns - 1) / windows_ + 1};
}

Nanos Synthesizer::WindowBegin(int64_t number) const {
  return {std::min(number * window().ns, options_.duration.ns)};
}

bool Synthesizer::NextWindow() {
  if (window_ == windows_) return false;
  if (overlay_) copies_before_ += overlay_->total_copies();
  const auto stream = kFirstWindowStream + static_cast<uint64_t>(window_);
  overlay_.emplace(
      model_.conversations(),
      Overlay::Options{
          .rate_bps = options_.rate_bps,
          .duration = {WindowBegin(window_ + 1).ns - WindowBegin(window_).ns},
          .seed = Rng(options_.seed).Fork(stream).Next(),
          .period = period(),
          .bursts = options_.bursts});
  ++window_;
  return true;
}

uint64_t Synthesizer::expected_bytes() const {
  return overlay_->total_bytes() * static_cast<uint64_t>(windows_);
}

bool Synthesizer::Next(CapturedPacket& packet) {
  Overlay::Packet place;
  while (!overlay_->Next(place)) {
    if (!NextWindow()) return false;
  }
  const bool is_burst = place.conversation == Overlay::kBurst;
  if (place.slot >= flows_.size()) flows_.resize(place.slot + size_t{1});
  PacketMaker::Flow& flow = flows_[place.slot];
  if (place.is_first) {
    flow = maker_.Begin(copies_before_ + place.copy,
                        model_.KindOf(place.conversation));
  }
  const uint32_t wire_bytes =
      is_burst
          ? std::max(options_.bursts.packet_bytes, flow.kind.LeastBytes())
          : model_.conversations().WireBytes(place.conversation, place.number);
  const bool from_server =
      !is_burst && model_.FromServer(place.conversation, place.number);
  const auto frame =
      maker_.Make(flow, PlaceOf(place, from_server), from_server, wire_bytes);
  packet = {
      .time = kWindowStart + WindowBegin(window_ - 1) + place.time,
      .bytes = frame.first(std::min<size_t>(frame.size(), options_.snap_bytes)),
      .original_bytes = wire_bytes};
  tally_.Take(place, wire_bytes);
  return true;
}

}  // namespace snf
