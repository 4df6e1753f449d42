// SPDX-License-Identifier: Apache-2.0
//
// What an NF does wrong ends a test with a line that names it (nf_guard.h).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "platform/process/exit_code.h"
#include "platform/process/nf_guard.h"
#include "runtime/sdk/nf_test.h"

namespace snf {
namespace {

using testing::ExitedWithCode;

const std::string kFlow = "udp 10.0.0.1:5000 > 192.0.2.9:53";
const std::string kOther = "udp 10.0.0.2:5000 > 192.0.2.9:53";

std::string Late(const std::string& what) {
  return "process_packet declared " + what +
         " \"later\": declare in the constructor";
}

// What it does, and the words for it; signals under sanitizers are theirs.
std::vector<std::pair<std::string, std::string>> Misdeeds() {
  std::vector<std::pair<std::string, std::string>> misdeeds = {
      {"throw", "process_packet threw std::runtime_error: boom"},
      {"throw_int", "process_packet threw int"},
      {"exit", "process_packet called exit"},
      {"quick_exit", "process_packet called exit"},
      {"abort", "process_packet was ended by SIGABRT"},
      {"behind", "process_packet wrote behind the packet, which has 42 bytes"},
      {"before", "process_packet wrote before the packet, which has 42 bytes"},
      {"timer", "process_packet called set_timer, but has_timer.. is false"},
      {"alias", "process_packet called set_alias, but its flow_scope"},
      {"emit", "process_packet emitted a frame of 199993 bytes"},
      {"late_slot", Late("slot")},
      {"late_blob", Late("slot")},
      {"late_counter", Late("counter")},
      {"late_log", Late("log")},
      {"late_pool", Late("pool")},
      {"late_table", Late("table")},
      {"late_every",
       "process_packet called every.. of table \"all\": call it in the "
       "constructor"},
      {"late_when",
       "process_packet called when.. of table \"all\": call it in the "
       "constructor"}};
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  misdeeds.emplace_back("segv",
                        "process_packet was ended by SIGSEGV at address");
  misdeeds.emplace_back("stack",
                        "process_packet was ended by SIGSEGV at address");
#endif
  return misdeeds;
}

TEST(Misuse, EndsATestThatSendsPackets) {
  for (const auto& [how, words] : Misdeeds()) {
    EXPECT_EXIT(
        {
          NfTest nf("misuse:how=" + how);
          for (int i = 0; i < 3; ++i) {
            nf.Send(kOther);
            nf.Send(kFlow);
            if (i == 1) nf.EndFlow(kOther);
          }
        },
        ExitedWithCode(kExitNf),
        "^NfTest: NF \"misuse\": " + words + ".*; packet 6, clock 3, flow " +
            kFlow + "\n$")
        << how;
  }
}

TEST(Misuse, EndsATestThatRunsEverywhere) {
  auto misdeeds = Misdeeds();
  misdeeds.emplace_back("drop",
                        "process_packet returned Verdict::drop.7., but "
                        "drop_reasons.. has 2");
  misdeeds.emplace_back("label",
                        "process_packet returned Verdict::forward.3., but "
                        "labels.. has 0");
  misdeeds.emplace_back(
      "wait", "process_packet returned Verdict::wait, but changed the state");
  misdeeds.emplace_back("pool", "process_packet named pool 9, but has 1");
  for (const auto& [how, words] : misdeeds) {
    EXPECT_EXIT(static_cast<void>(RunEverywhere(
                    "passthrough | misuse(how=" + how + ") | passthrough",
                    Packets({kOther, kFlow, kFlow, kOther, kFlow}))),
                ExitedWithCode(kExitNf),
                "^RunEverywhere: NF \"misuse\": " + words +
                    ".*; packet 5, clock 3, flow " + kFlow + "\n$")
        << how;
  }
}

TEST(Misuse, IsNamedInEveryHook) {
  EXPECT_EXIT(
      NfTest("misuse:how=throw_made"), ExitedWithCode(kExitNf),
      "NF \"misuse\": its constructor threw std::runtime_error: boom\n");
  const auto send = [](const std::string& how) {
    NfTest nf("misuse:how=" + how);
    for (int i = 0; i < 3; ++i) nf.Send(kFlow);
    nf.Pass(Seconds(1));
    nf.EndFlows();
  };
  EXPECT_EXIT(send("throw_timer"), ExitedWithCode(kExitNf),
              "on_timer threw std::runtime_error: boom; clock 3, flow udp");
  EXPECT_EXIT(send("throw_end"), ExitedWithCode(kExitNf),
              "on_end threw std::runtime_error: boom; clock 3, flow udp");
}

TEST(Misuse, IsNoFaultOfAnNfThatIsNotCalled) {
  GuardNfCalls("NfTest");
  EXPECT_EXIT(std::exit(7), ExitedWithCode(7), "^$");
  EXPECT_EXIT(std::abort(), testing::KilledBySignal(SIGABRT), "^$");
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  EXPECT_EXIT(std::raise(SIGSEGV), testing::KilledBySignal(SIGSEGV), "^$");
#endif
  const auto fail = [] { throw std::runtime_error("not of an NF"); };
  EXPECT_EXIT([&]() noexcept { fail(); }(), testing::KilledBySignal(SIGABRT),
              "not of an NF");
}

}  // namespace
}  // namespace snf
