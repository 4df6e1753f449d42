// SPDX-License-Identifier: Apache-2.0
#include "platform/ports/capture_port.h"

#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <initializer_list>
#include <string>
#include <vector>

#include "base/packet/test_packets.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "platform/ports/steering.h"
#include "runtime/ring/real_clock.h"
#include "runtime/sdk/nf.h"
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

std::string Refusal(const std::string& file) {
  const auto port = CapturePort::Open(SpecOf(file));
  EXPECT_EQ(port.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(port.status().message());
}

// A pcap of one packet of 20 bytes.
std::string OnePacket(const std::string& name, uint32_t link,
                      uint32_t original_bytes) {
  const std::string file = testing::TempDir() + "/" + name;
  std::ofstream out(file, std::ios::binary);
  for (const uint32_t word :
       {0xa1b2c3d4U, 0x0004'0002U, 0U, 0U, 65'535U, link,  // the header
        1U, 0U, 20U, original_bytes, 0x45U, 0U, 0U, 0U, 0U}) {
    out.write(reinterpret_cast<const char*>(&word), sizeof word);
  }
  return file;
}

TEST(CapturePort, RefusesWhatNoFrameCouldComeFrom) {
  const std::string cut = OnePacket("cut.pcap", 1, 1'500);
  EXPECT_EQ(Refusal(cut),
            "port inside: " + cut +
                ": packet 1 was captured only in part: 20 of 1500 "
                "bytes");
  const std::string raw = OnePacket("raw.pcap", 101, 20);
  EXPECT_EQ(Refusal(raw), "port inside: " + raw +
                              ": packet 1 is not an Ethernet frame, but has "
                              "link type 101");
  EXPECT_TRUE(CapturePort::Open(SpecOf(OnePacket("whole.pcap", 1, 20))).ok());
  const std::string fifo = testing::TempDir() + "/fifo";
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  EXPECT_EQ(Refusal(fifo), "port inside: " + fifo + ": is not a regular file");
  unlink(fifo.c_str());
  EXPECT_EQ(Refusal("/dev/null"),
            "port inside: /dev/null: is not a regular file");
}

// A pcap of frames that were captured at one time.
std::string AtOnce(const std::string& name, const std::vector<Frame>& frames) {
  const std::string file = testing::TempDir() + "/" + name;
  std::ofstream out(file, std::ios::binary);
  const auto write = [&out](std::initializer_list<uint32_t> words) {
    for (const uint32_t word : words) {
      out.write(reinterpret_cast<const char*>(&word), sizeof word);
    }
  };
  write({0xa1b2c3d4U, 0x0004'0002U, 0U, 0U, 65'535U, 1U});
  for (const Frame& frame : frames) {
    const auto bytes = static_cast<uint32_t>(frame.size());
    write({1U, 0U, bytes, bytes});
    out.write(reinterpret_cast<const char*>(frame.data()), bytes);
  }
  return file;
}

class AnyFunction final : public NetworkFunction {
  Verdict process_packet(Packet& /*packet*/, FlowState& /*flow*/) override {
    return Verdict::forward();
  }
};

TEST(CapturePort, GivesEachOfSeveralControllersItsFrames) {
  std::vector<Frame> frames;
  for (uint8_t i = 1; i <= 40; ++i) {
    frames.push_back(
        Ethernet(0x0800, Ipv4({.source = V4(10, 0, 0, i)}, Udp(5'000, 53))));
  }
  PortSpec spec = SpecOf(AtOnce("shared.pcap", frames));
  std::vector<Frame> came;
  for (uint32_t id = 0; id < 3; ++id) {
    spec.steering = *Steering::Of(AnyFunction(), {.id = id, .count = 3});
    const auto port = *CapturePort::Open(spec);
    const size_t before = came.size();
    while (port->Receive([&](const PortFrame& frame) {
      came.emplace_back(frame.bytes.begin(), frame.bytes.end());
    })) {
    }
    EXPECT_GT(came.size(), before);
    EXPECT_EQ(port->figures().received, came.size() - before);
  }
  EXPECT_THAT(came, testing::UnorderedElementsAreArray(frames));
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
    port->Receive([&](const PortFrame& frame) {
      came.emplace_back(frame.bytes.begin(), frame.bytes.end());
      EXPECT_GE(frame.age.ns, 0);
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
  EXPECT_FALSE(port->Receive([](const PortFrame&) {}));
}

}  // namespace
}  // namespace snf
