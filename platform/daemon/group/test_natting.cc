// SPDX-License-Identifier: Apache-2.0
#include "platform/daemon/group/test_natting.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <span>
#include <utility>

#include "base/packet/ip_prefix.h"
#include "controller/core/placement.h"
#include "controller/hand_over/hand_over.h"
#include "platform/system_test/test_run.h"
#include "runtime/ring/real_clock.h"

namespace snf {
namespace {

constexpr Instant kBegin{1'700'000'000'000'000'000};
constexpr size_t kSourcePort = 34;  // in an Ethernet frame without options

}  // namespace

Natting::Natting(uint32_t number, uint32_t count, const std::string& nf) {
  RunOptions options = SmallTables();
  options.inside = *ParsePrefixes("10.0.0.0/8");
  options.controller.controller_id = static_cast<uint8_t>(number);
  const RealOptions real = {
      .speed = {.kind = Speed::Kind::kMax, .value = 0},
      .threads = 1,
      .buffers = {.small = 4'096, .medium = 16, .large = 4},
      .unpaced = true,
      .wait_for_room = true,
      .controllers = count};
  auto driver = RealDriver::Start(options, real, *FindPlacementPolicy("snf"),
                                  *NfSpec::Parse(nf), {this});
  EXPECT_TRUE(driver.ok()) << driver.status();
  driver_ = *std::move(driver);
  driver_->Begin(Now());
}

Instant Natting::Now() {
  static const Instant began = RealClock::Monotonic();
  return kBegin + (RealClock::Monotonic() - began);
}

Natting::~Natting() {
  const RunResult result = driver_->Finish();
  EXPECT_THAT(result.violation_messages, testing::IsEmpty());
  EXPECT_TRUE(result.conserved());
}

void Natting::on_release(const ReleasedPacket& packet) {
  port_ = static_cast<uint32_t>(packet.bytes[kSourcePort]) << 8 |
          static_cast<uint32_t>(packet.bytes[kSourcePort + 1]);
}

void Natting::on_drop(const ReleasedPacket& /*packet*/,
                      std::string_view reason) {
  dropped_for_ = reason;
}

uint32_t Natting::PortOf(uint32_t flow, FlowHeirs* heirs,
                         const FlowHeirs::Way& way) {
  const Frame frame = UdpFrame({.flow = flow, .sequence = ++sequence_});
  port_ = 0;
  const CapturedPacket packet = {
      .time = Now(),
      .bytes = frame,
      .original_bytes = static_cast<uint32_t>(frame.size()),
      .side = Side::kInside};
  aside_.reset();
  if (heirs != nullptr) aside_ = heirs->Meet(*driver_, packet, way);
  if (aside_.has_value()) return 0;
  driver_->Offer(packet);
  Rest();
  return port_;
}

void Natting::Rest() {
  do {
    driver_->Poll();
  } while (!driver_->is_idle());
}

StandbyFlow Natting::Copy(uint32_t slot) {
  const Controller& c = driver_->controller();
  shown_.reset();
  driver_->set_on_state(
      [this](const State& state, std::span<const std::byte> record) {
        shown_.emplace();
        shown_->state = state;
        shown_->record.assign(record.begin(), record.end());
      });
  EXPECT_TRUE(driver_->AskState(c.IdOfSlot(slot)));
  while (!shown_.has_value()) driver_->Poll();
  shown_->flow =
      *FlowHandOver::ReadAsOf(c, c.IdOfSlot(slot), shown_->state.applied);
  return *shown_;
}

}  // namespace snf
