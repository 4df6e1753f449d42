// SPDX-License-Identifier: Apache-2.0
#include "base/ipfix/ipfix_writer.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "base/ipfix/ipfix_collector.h"

namespace snf {
namespace {

uint64_t NumberAt(const std::string& bytes, size_t at, size_t count) {
  uint64_t value = 0;
  for (size_t i = at; i < at + count; ++i) {
    value = value << 8 | static_cast<uint8_t>(bytes.at(i));
  }
  return value;
}

// Takes a record by itself, as the first of its messages.
std::string OneRecord(IpfixWriter& writer, uint16_t number, uint64_t value) {
  writer.Begin(number);
  writer.Put(value, 8);
  const std::vector<std::string> messages = writer.Take();
  EXPECT_EQ(messages.size(), 1u);
  return messages.front();
}

TEST(IpfixWriter, GoesOnAfterItsMessagesAreTaken) {
  IpfixWriter writer(100);
  const std::array fields = {kIpfixPackets};
  const uint16_t number = writer.AddTemplate(fields);
  const std::string first = OneRecord(writer, number, 1);
  writer.set_export_time(107);
  const std::string second = OneRecord(writer, number, 2);
  EXPECT_EQ(NumberAt(first, 4, 4), 100u);
  EXPECT_EQ(NumberAt(second, 4, 4), 107u);
  EXPECT_EQ(NumberAt(first, 8, 4), 0u);  // records before
  EXPECT_EQ(NumberAt(second, 8, 4), 1u);
  // The template stands in the first message alone.
  EXPECT_EQ(NumberAt(first, 16, 2), 2u);
  EXPECT_EQ(NumberAt(second, 16, 2), number);
  EXPECT_TRUE(writer.Take().empty());
}

TEST(IpfixWriter, RepeatsTemplatesInEachMessageIfAskedTo) {
  IpfixWriter writer(0, {.message_bytes = 512, .templates_each = 1});
  const uint16_t number = writer.AddTemplate({kIpfixPackets});
  for (uint64_t i = 0; i < 3; ++i) {
    const std::string message = OneRecord(writer, number, i);
    EXPECT_EQ(NumberAt(message, 16, 2), 2u) << i;
    EXPECT_EQ(message.size(), 16 + 4 + 8 + 4 + 8u) << i;
  }
}

TEST(IpfixCollector, IsReadFromItsText) {
  const auto text = [](const std::string& of) {
    const auto parsed = IpfixCollector::Parse(of);
    return parsed.has_value() ? parsed->text() : "no";
  };
  EXPECT_EQ(text("udp://192.0.2.9"), "udp://192.0.2.9:4739");
  EXPECT_EQ(text("tcp://[2001:db8::9]:99"), "tcp://[2001:db8::9]:99");
  for (const std::string wrong :
       {"udp://", "udp://:1", "udp://a:", "udp://a:0", "udp://a:70000",
        "udp://a:1x", "udp://[::1"}) {
    EXPECT_EQ(text(wrong), "no") << wrong;
  }
  EXPECT_FALSE(IpfixCollector::IsMeantBy("a.ipfix"));
}

}  // namespace
}  // namespace snf
