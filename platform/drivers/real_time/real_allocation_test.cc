// SPDX-License-Identifier: Apache-2.0
//
// What a run in real time does not do once it is running: it allocates nothing,
// and makes no system call for a packet: those are counted by tracing a child.
#include <gtest/gtest.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string_view>
#include <vector>

#include "base/packet/ip_prefix.h"
#include "base/test_allocations.h"
#include "base/test_seeds.h"
#include "controller/core/placement.h"
#include "platform/drivers/real_time/real_driver.h"
#include "platform/system_test/test_run.h"

namespace snf {
namespace {

constexpr uint32_t kFlows = 200;

std::vector<Frame> Frames() {
  std::vector<Frame> frames;
  for (uint32_t i = 0; i < kFlows; ++i) {
    frames.push_back(UdpFrame({.flow = i}));
    frames.push_back(UdpFrame({.flow = i, .from_responder = true}));
  }
  return frames;
}

std::unique_ptr<RealDriver> Start(uint32_t threads, const NfSpec& nf,
                                  std::string_view policy) {
  RunOptions options = SmallTables();
  options.controller.max_units = 8;
  options.inside = *ParsePrefixes("10.0.0.0/8");
  options.check = false;
  const RealOptions real = {
      .speed = {.kind = Speed::Kind::kMax, .value = 0},
      .threads = threads,
      .buffers = {.small = 2'048, .medium = 16, .large = 4},
      .unpaced = true,
      .wait_for_room = true};
  auto driver =
      RealDriver::Start(options, real, *FindPlacementPolicy(policy), nf, {});
  EXPECT_TRUE(driver.ok()) << driver.status();
  return *std::move(driver);
}

void Offer(RealDriver& driver, const std::vector<Frame>& frames,
           uint32_t packets) {
  for (uint32_t i = 0; i < packets; ++i) {
    const Frame& frame = frames[i % frames.size()];
    driver.Offer({.time = Instant{1'000},
                  .bytes = frame,
                  .original_bytes = static_cast<uint32_t>(frame.size())});
  }
}

void ExpectNoAllocation(uint32_t threads, const NfSpec& nf,
                        std::string_view policy) {
  const std::vector<Frame> frames = Frames();
  const auto driver = Start(threads, nf, policy);
  Offer(*driver, frames, 20'000);
  const uint64_t before = Allocations();
  constexpr uint32_t kMeasured = TestSeeds::kSanitized ? 5'000 : 40'000;
  Offer(*driver, frames, kMeasured);
  EXPECT_EQ(Allocations(), before);
  const RunResult result = driver->Finish();
  EXPECT_EQ(result.packets_released, 20'000 + kMeasured);
}

TEST(RealAllocation, AllocatesNothingOnceItRuns) {
  for (const uint32_t threads : {1, 3}) {
    SCOPED_TRACE(threads);
    ExpectNoAllocation(threads, ForwardingNf(), "snf");
    ExpectNoAllocation(
        threads, *NfSpec::Parse("firewall | monitor | nat(ip=203.0.113.1)"),
        "snf");
  }
}

// Messages between units that do not fit into a link's ring yet stay beside it,
// in what was reserved.
TEST(RealAllocation, AllocatesNothingWhileFlowsMove) {
  ExpectNoAllocation(3, *NfSpec::Parse("monitor"), "rotate");
  ExpectNoAllocation(3, *NfSpec::Parse("nat(ip=203.0.113.1)"), "rotate");
}

// In a child of its own, which it may trace.
long CallsOf(uint32_t packets) {
  const pid_t child = fork();
  if (child == 0) {
    ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
    raise(SIGSTOP);
    const auto driver = Start(
        1, *NfSpec::Parse("firewall | monitor | nat(ip=203.0.113.1)"), "snf");
    Offer(*driver, Frames(), packets);
    _exit(0);
  }
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  long stops = 0;
  while (WIFSTOPPED(status)) {
    if (ptrace(PTRACE_SYSCALL, child, nullptr, nullptr) != 0) return -1;
    if (waitpid(child, &status, 0) != child) return -1;
    ++stops;
  }
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  return stops / 2;
}

TEST(RealSystemCalls, AreNotMadeForEachPacket) {
  const long few = CallsOf(20'000);
  const long many = CallsOf(120'000);
  ASSERT_GT(few, 0);
  EXPECT_LE(many - few, 100'000 / 1'000) << few << " and then " << many;
}

}  // namespace
}  // namespace snf
