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

// Everything that the test of an NF needs; link snf_nf_test. nfs/README.md is
// the tutorial. Packets are written in prose (base/packet/test_packet_text.h):
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

// The fate of a packet. As text:
//
//   udp 10.0.0.1:5000 > 192.0.2.9:53 "q"   forwarded; the packet as it leaves
//   over: udp 10.0.0.1:5000 > …            … by a label other than the first
//   drop denied                            for a reason of the NF, or of the
//                                          platform
//                                          (base/messages/drop_reason.h)
//   consume
//
// A result also equals a text that describes the same packet in other words.
struct NfResult {
  std::string text;
  TestPacket packet;  // as the NF left it
};
bool operator==(const NfResult& result, const std::string& expected);
std::ostream& operator<<(std::ostream& out, const NfResult& result);

// The default inside addresses of an NF of scope kInsideEndpoint, as prefixes.
// "" means that the side from which a connection's first packet comes is
// inside.
inline constexpr char kPrivateAddresses[] =
    "10.0.0.0/8,172.16.0.0/12,192.168.0.0/16,fc00::/7";

// Runs one NF, or a chain, also of modules ("./my_nf.so:limit=3"), on a
// platform of one unit. The test of a module (snf_add_nf_test) knows its own
// NFs by name, and all others, also those of SNF, as modules.
//
// The platform distinguishes flows, fires timers, ends flows, and grants pieces
// of pools and aliases. With an NF of scope kInsideEndpoint, a packet from the
// outside may be sent to the alias or, as in a capture of the inside, to the
// inside end. What a call updates in shared tables is merged at once, and
// timers, triggers and expiry of tables run with it.
//
// The test fails if the NF breaks its contract: if it changes anything before
// Verdict::wait, or keeps a piece in on_end; and if the test misspells a name.
// What would end a run ends the process, with the same line: an exception, a
// crash, exit(), writing outside of the packet, a timer without has_timer(), a
// declaration outside of the constructor.
class NfTest {
 public:
  // `nf` has the form of --nf, `inside` that of --inside.
  explicit NfTest(const std::string& nf,
                  const std::string& inside = kPrivateAddresses);
  ~NfTest();
  NfTest(const NfTest&) = delete;
  NfTest& operator=(const NfTest&) = delete;

  // Lets the packet's gap pass and then gives the packet to the NF.
  NfResult Send(const std::string& packet);
  NfResult Send(const TestPacket& packet);
  // Lets time pass; due timers and time-outs run in the order of time.
  void Pass(Nanos time);
  // Ends the flow of such a packet, or all flows.
  void EndFlow(const std::string& packet);
  void EndFlows();

  // Return the packets emitted since the last call, as text or as they are.
  std::vector<std::string> TakeEmitted();
  std::vector<TestPacket> TakeEmittedPackets();
  // Returns the lines of a log since the last call, such as "ids.alerts", as
  // --nf_logs writes them.
  std::vector<std::string> TakeLog(const std::string& log);
  // The value of a counter; in a chain it is called "NF.COUNTER".
  uint64_t count(const std::string& counter) const;

  // The states of objects that the NF, or each of a chain, watches, as lines:
  // "tcp 10.0.0.1:80 down for 3 s: checks fail: no answer".
  std::vector<std::string> states() const;

  size_t flows() const;
  // The value of a slot of that packet's flow, or nothing if the slot has no
  // value or there is no such flow.
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
  // Returns the value of a slot or a blob as bytes.
  std::optional<std::vector<std::byte>> SlotBytes(
      const std::string& name, const std::string& packet) const;

  // The place of the unused pieces of a pool.
  enum class Supply : uint8_t {
    kHere,
    kComing,     // at other units: they come when the NF waits for them
    kExhausted,  // there are none
  };
  void set_supply(const std::string& pool, Supply supply);
  uint32_t pieces_in_use(const std::string& pool) const;

  // The alias of such a packet's flow, as flow_key_text.h writes it, or "".
  std::string alias(const std::string& packet) const;
  // Refuses the next alias that is set. By default an alias is granted unless
  // another flow has it or its group is full.
  void RefuseNextAlias(AliasResult why);

  NetworkFunction& nf();

 private:
  class Platform;
  std::unique_ptr<Platform> platform_;  // null if `nf` was wrong
};

// Read packets from prose, or from a capture: all of its packets, or a single
// flow, as ParseFlowKey reads it ("udp 10.0.0.1:5000 <> 192.0.2.9:53" for
// both directions).
std::vector<TestPacket> Packets(const std::vector<std::string>& texts);
std::vector<TestPacket> PacketsOf(const std::string& capture,
                                  const std::string& flow = "");

// Tests that the NF gives the same results wherever its packets run. It runs
// the packets on one unit, and then on 1, 2, 3, 5, 8, 16 and 32 units, each
// packet of a flow on another unit than the one before (policy "rotate"). It
// compares, for each flow, the packets that leave and the reasons for which
// others are dropped, and the counters and reports; the checker must find no
// error. If the NF takes pieces of pools, packets may differ in the pieces,
// which the checker compares.
//
// It finds state that the NF keeps outside of its slots: in members, in
// statics, in the unit it happens to run on. It also fails if no packet ran on
// another unit than the one before, for then nothing was tested.
//
//     EXPECT_TRUE(RunEverywhere("my_nf:limit=3", Packets({…})));
//
// A failure names the first packet that differs and gives a command line of
// `snf replay` that shows it, with the packets in a new capture.
//
// With an NF of scope kInsideEndpoint, the first packet to an end comes 20 ms
// after the first packet from there, or later: before, no unit could have
// announced an alias to which to answer. Later packets are delayed as much. A
// pause of 1 s of an end's own packets makes the next one a first one.
//
// A verdict that depends on a shared table may vary, since a unit learns other
// units' updates a little later. The test names the reason and the bounds:
//
//     EXPECT_TRUE(RunEverywhere(
//         "my_nf:limit=3", Packets({…}),
//         {.counters_that_vary = {"begun"},
//          .drops_that_vary = {{.reason = "limit", .fewer = 4}},
//          .closed_loop = true}));
//
// A packet that is dropped for that reason, on one unit or on many, may then
// have another fate on the other. Later packets of its flow are not compared.
// If any packet varied, emitted packets, logs and reports are not compared.
struct VaryingDrops {
  std::string reason;  // as in NfResult: "limit"; in a chain "NF.limit"
  // How many drops there may be less and more than on one unit, for each unit
  // beyond the first.
  uint64_t fewer = 0;
  uint64_t more = 0;
};
struct EverywhereOptions {
  std::vector<uint32_t> units = {1, 2, 3, 5, 8, 16, 32};
  std::string inside = kPrivateAddresses;
  // Counters that depend on the order of packets of different flows, or on the
  // unit; in a chain "NF.COUNTER".
  std::vector<std::string> counters_that_vary = {};
  std::vector<VaryingDrops> drops_that_vary = {};
  // The packets of a flow answer each other: after one is dropped, later
  // packets of the flow are not sent.
  bool closed_loop = false;
};
testing::AssertionResult RunEverywhere(const std::string& nf,
                                       const std::vector<TestPacket>& packets,
                                       const EverywhereOptions& options = {});

}  // namespace snf

#endif  // SNF_RUNTIME_SDK_NF_TEST_H_
