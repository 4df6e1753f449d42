// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_NFS_SNORT_TEST_INSPECTION_H_
#define SNF_NFS_SNORT_TEST_INSPECTION_H_

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "base/packet/test_packet_text.h"
#include "nfs/snort/matcher.h"
#include "nfs/snort/test_rules.h"

namespace snf::snort {

// Rules, and what is needed to inspect packets in prose
// (base/packet/test_packet_text.h), each by itself.
class TestInspection {
 public:
  explicit TestInspection(const std::string& rules)
      : matcher_(*RuleMatcher::Create(RulesOf(rules), DatabaseCache(""))),
        inspector_(*Inspector::Create(matcher_, {})),
        bits_(matcher_.set().flowbits / 8 + 1) {}

  struct How {
    bool to_server = true;
    bool is_established = true;
  };
  // Returns the sids of the rules that alert, in order.
  std::vector<uint32_t> Send(const std::string& packet, How how) {
    const auto parsed = ParsePacket(packet);
    EXPECT_TRUE(parsed.ok()) << parsed.status();
    if (!parsed.ok()) return {};
    return Send(*parsed, how);
  }
  std::vector<uint32_t> Send(const std::string& packet) {
    return Send(packet, How{});
  }
  std::vector<uint32_t> Send(const TestPacket& packet, How how) {
    const auto frame = std::span<const std::byte>(packet.bytes);
    const ParsedPacket headers = Parse(packet.link, frame);
    Inspected inspected;
    inspected.facts = PacketFacts::Of(frame, headers);
    inspected.facts.to_server = how.to_server;
    inspected.facts.is_established = how.is_established;
    inspected.payload = {
        reinterpret_cast<const char*>(frame.data()) + headers.payload_offset,
        headers.payload_bytes()};
    inspected.stream = inspected.payload;
    Flowbits bits(bits_);
    std::vector<uint32_t> sids;
    for (const uint32_t rule : inspector_->Inspect(inspected, bits)) {
      sids.push_back(matcher_.rules()[rule].sid);
    }
    return sids;
  }
  const RuleMatcher& matcher() const { return matcher_; }
  const Inspector& inspector() const { return *inspector_; }

 private:
  RuleMatcher matcher_;
  std::unique_ptr<Inspector> inspector_;
  std::vector<std::byte> bits_;
};

}  // namespace snf::snort

#endif  // SNF_NFS_SNORT_TEST_INSPECTION_H_
