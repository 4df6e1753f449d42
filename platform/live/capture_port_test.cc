// SPDX-License-Identifier: Apache-2.0
#include "platform/live/capture_port.h"

#include <poll.h>

#include <algorithm>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "platform/process/real_clock.h"
#include "traces/capture_reader.h"

namespace snf {
namespace {

PortSpec SpecOf(const std::string& file) {
  return {.side = Side::kInside,
          .kind = PortSpec::Kind::kCapture,
          .interface = file};
}

TEST(CapturePort, NamesThePortAndTheFileThatItCannotRead) {
  const auto port = CapturePort::Open(SpecOf("/nowhere/x.pcap"));
  EXPECT_EQ(port.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(port.status().message()),
              testing::HasSubstr("port inside: /nowhere/x.pcap"));
}

// The bundled capture lasts longer than the test.
TEST(CapturePort, GivesFramesUpOnceTheyAreDue) {
  const std::string file = "traces/small.pcap.zst";
  auto reader = *CaptureReader::Open(file);
  CapturedPacket first;
  ASSERT_EQ(reader->Next(first), ReadResult::kPacket);
  const Instant captured = first.time;
  auto port = *CapturePort::Open(SpecOf(file));
  const Instant begin = RealClock::Monotonic();
  std::vector<std::vector<std::byte>> came;
  for (int turns = 0; came.size() < 20; ++turns) {
    ASSERT_LT(turns, 100'000);
    port->Receive([&](std::span<const std::byte> frame, Nanos age) {
      came.emplace_back(frame.begin(), frame.end());
      EXPECT_GE(age.ns, 0);
    });
    pollfd due = {.fd = port->descriptor(), .events = POLLIN, .revents = 0};
    poll(&due, 1, 1'000);
  }
  // The same frames in the same order, none before its time.
  CapturedPacket packet = first;
  reader = *CaptureReader::Open(file);
  for (const std::vector<std::byte>& frame : came) {
    ASSERT_EQ(reader->Next(packet), ReadResult::kPacket);
    EXPECT_TRUE(std::ranges::equal(packet.bytes, frame));
  }
  EXPECT_GE((RealClock::Monotonic() - begin).ns, (packet.time - captured).ns);
  EXPECT_EQ(port->figures().received, came.size());
  port->Send(came.front());
  EXPECT_EQ(port->figures().sent, 1u);
  port->StopReceiving();
  EXPECT_FALSE(port->Receive([](std::span<const std::byte>, Nanos) {}));
}

}  // namespace
}  // namespace snf
