// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RUNTIME_SDK_NF_TEST_H_
#define SNF_RUNTIME_SDK_NF_TEST_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "base/messages/messages.h"
#include "base/packet/test_packet_text.h"
#include "base/time.h"
#include "runtime/sdk/nf.h"

// What the test of an NF includes; link snf_nf_test. nfs/README.md is its
// tutorial. Packets are written in prose (base/packet/test_packet_text.h):
//
//     TEST(UdpWhitelister, LetsInWhatWasAskedFor) {
//       NfTest nf("udp_whitelister:timeout=5s");
//       const std::string query = "udp 10.0.0.1:5000 > 192.0.2.9:53 \"q\"";
//       EXPECT_EQ(nf.Send(query), query);
//       EXPECT_EQ(nf.Send("udp 192.0.2.9:53 > 10.0.0.1:80"),
//                 "drop unsolicited");
//       EXPECT_EQ(nf.count("connections"), 1u);
//       EXPECT_TRUE(RunEverywhere("udp_whitelister", Packets({query})));
//     }

namespace snf {

// What became of a packet. As text:
//
//   udp 10.0.0.1:5000 > 192.0.2.9:53 "q"   forwarded; the packet as it leaves
//   over: udp 10.0.0.1:5000 > …            … by a label other than the first
//   drop denied                            for a reason of the NF, or of the
//                                          platform
//                                          (base/messages/drop_reason.h)
//   consume
//
// Equal to a text that says the same in other words.
struct NfResult {
  std::string text;
  TestPacket packet;  // as the NF left it
};
bool operator==(const NfResult& result, const std::string& expected);
std::ostream& operator<<(std::ostream& out, const NfResult& result);

// Where an NF of scope kInsideEndpoint has its inside, unless told otherwise:
// prefixes, or "" for wherever the first packet of a connection comes from.
inline constexpr char kPrivateAddresses[] =
    "10.0.0.0/8,172.16.0.0/12,192.168.0.0/16,fc00::/7";

// One NF, or a chain, with a platform around it that is one unit: flows are
// told apart, timers fire, flows end, pieces of pools and aliases are granted.
// What comes to an NF of scope kInsideEndpoint from the outside may be sent to
// the alias or, as it stands in a capture of the inside, to the inside end.
//
// What an NF must not do fails the test: to change anything before
// Verdict::wait, to keep a piece in on_end, to set a timer without has_timer();
// and so does a name that is misspelt.
class NfTest {
 public:
  // `nf` as --nf takes it; `inside` as --inside does.
  explicit NfTest(const std::string& nf,
                  const std::string& inside = kPrivateAddresses);
  ~NfTest();
  NfTest(const NfTest&) = delete;
  NfTest& operator=(const NfTest&) = delete;

  // Time passes for the packet's gap; then the NF gets it.
  NfResult Send(const std::string& packet);
  NfResult Send(const TestPacket& packet);
  // Time passes: what is due happens in order of time.
  void Pass(Nanos time);
  // The flow of such a packet is over; or all are.
  void EndFlow(const std::string& packet);
  void EndFlows();

  // The packets emitted since it was asked last, as text.
  std::vector<std::string> TakeEmitted();
  // What the NF counted; in a chain "NF.COUNTER".
  uint64_t count(const std::string& counter) const;

  size_t flows() const;
  // The value of a slot of that packet's flow; none where there is no value, or
  // no such flow.
  template <typename T>
  std::optional<T> slot(const std::string& name,
                        const std::string& packet) const {
    const auto bytes = SlotBytes(name, packet);
    if (!bytes.has_value()) return std::nullopt;
    EXPECT_EQ(bytes->size(), sizeof(T)) << "of slot " << name;
    T value{};
    std::memcpy(&value, bytes->data(), std::min(bytes->size(), sizeof(T)));
    return value;
  }
  // The same as bytes, of a blob too.
  std::optional<std::vector<std::byte>> SlotBytes(
      const std::string& name, const std::string& packet) const;

  // Where the pieces of a pool are that are not in use.
  enum class Supply : uint8_t {
    kHere,
    kComing,     // elsewhere: they come when the NF waits for them
    kExhausted,  // nowhere
  };
  void set_supply(const std::string& pool, Supply supply);
  uint32_t pieces_in_use(const std::string& pool) const;

  // The alias of such a packet's flow, as flow_key_text.h writes it; or "".
  std::string alias(const std::string& packet) const;
  // What the next alias that is set is to meet; otherwise it is granted unless
  // another flow has it or its group is full.
  void RefuseNextAlias(AliasResult why);

  NetworkFunction& nf();

 private:
  class Platform;
  std::unique_ptr<Platform> platform_;  // null: `nf` was wrong
};

// A list of packets: of prose, or of a capture; of this all, or the packets of
// one flow, as ParseFlowKey reads it ("udp 10.0.0.1:5000 <> 192.0.2.9:53" for
// both directions).
std::vector<TestPacket> Packets(const std::vector<std::string>& texts);
std::vector<TestPacket> PacketsOf(const std::string& capture,
                                  const std::string& flow = "");

// Whether the NF gives the same everywhere. Runs the packets on one unit, in
// peace, and then on 1, 2, 3, 5, 8, 16 and 32, each packet of a flow on another
// unit than the one before it (policy "rotate"), and compares: of each flow the
// packets that leave and the reasons for which others do not, what is counted
// and reported, and that the checker finds nothing wrong. Where pieces of pools
// are taken, packets may differ, in the pieces, which the checker compares.
//
// It finds what the NF keeps outside of its slots: in members, in statics, in
// the unit it happens to run on. It fails too if no packet ran on another unit
// than the one before it: then nothing was tried.
//
//     EXPECT_TRUE(RunEverywhere("my_nf:limit=3", Packets({…})));
//
// What failed is told by the first packet that differs, and by a line of
// `./snf replay` that shows it.
struct EverywhereOptions {
  std::vector<uint32_t> units = {1, 2, 3, 5, 8, 16, 32};
  std::string inside = kPrivateAddresses;
  // Those that depend on the order of packets of different flows, or on where
  // they run; in a chain "NF.COUNTER".
  std::vector<std::string> counters_that_vary = {};
};
testing::AssertionResult RunEverywhere(const std::string& nf,
                                       const std::vector<TestPacket>& packets,
                                       const EverywhereOptions& options = {});

}  // namespace snf

#endif  // SNF_RUNTIME_SDK_NF_TEST_H_
