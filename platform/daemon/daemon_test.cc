// SPDX-License-Identifier: Apache-2.0
#include "platform/daemon/daemon.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/text_file.h"
#include "controller/core/placement.h"
#include "platform/control/control_client.h"
#include "platform/daemon/chains/kept_chains.h"
#include "platform/daemon/live_run.h"
#include "platform/options/run_flags.h"

namespace snf {
namespace {

using testing::HasSubstr;

constexpr char kCapture[] = "traces/small.pcap.zst";

// A daemon between two captures, in a folder of its own.
class DaemonTest : public testing::Test {
 protected:
  DaemonTest()
      : folder_(std::filesystem::path(testing::TempDir()) /
                ("daemon-" + std::to_string(getpid()))) {
    std::filesystem::create_directories(folder_);
    files_.name = "tested";
    files_.directory = folder_;
    std::filesystem::copy_file(kCapture, folder_ / "outside.pcap.zst");
    files_.lock = folder_ / "lock";
    files_.socket = folder_ / "control";
    files_.log = folder_ / "log";
    files_.modules = folder_ / "modules";
    files_.keep = folder_ / "keep";
    files_.chains = folder_ / "chains";
    files_.network = folder_ / "network";
    RunFlags run_flags(flags_, RunFlags::Input::kPorts);
    EXPECT_TRUE(
        flags_
            .ParseCommandLine(std::vector<std::string>{
                "--port=inside=file:" + std::string(kCapture),
                "--port=outside=file:" + files_.directory + "/outside.pcap.zst",
                "--threads=1", "--quiet"})
            .ok());
    const absl::Status settled = run_flags.Settle();
    EXPECT_TRUE(settled.ok()) << settled;
    options_ = run_flags.options();
  }
  ~DaemonTest() override { std::filesystem::remove_all(folder_); }

  // Runs the daemon until `ask` has asked what it wants, then ends it.
  absl::StatusOr<LiveRun> RunWhile(
      const std::function<void(ControlClient&)>& ask) {
    const LogOptions log = {.file = files_.log};
    EXPECT_TRUE(OpenLog(log).ok());
    auto taken = DaemonLock::Take(files_);
    if (!taken.ok()) return taken.status();
    std::optional<DaemonLock> lock(*std::move(taken));
    const std::optional<TlsEndpoint> tcp;
    FirstInterrupt interrupt;
    Daemon daemon(files_, tcp, options_, log, interrupt, lock);
    absl::StatusOr<LiveRun> live;
    std::atomic<bool> has_ended = false;
    std::thread run([&] {
      live = RunPorts(options_, interrupt, &daemon);
      has_ended = true;
    });
    while (!std::filesystem::exists(files_.socket) && !has_ended) {
      std::this_thread::yield();
    }
    if (!has_ended) {
      const auto client = ControlClient::Connect(files_.socket);
      ask(*client);
      EXPECT_TRUE(client->Ask(proto::DownRequest()).ok());
    }
    interrupt.came = true;
    run.join();
    return live;
  }
  std::string Log() const { return *ReadTextFile(files_.log, 1 << 20); }

  const std::filesystem::path folder_;
  DaemonFiles files_;
  FlagSet flags_;
  RunRequest options_;
};

TEST_F(DaemonTest, AnswersQuestionsAboutItsRunUntilItIsToldToEnd) {
  const auto live = RunWhile([](ControlClient& client) {
    const auto status = client.Ask(proto::StatusRequest());
    ASSERT_TRUE(status.ok()) << status.status();
    EXPECT_EQ(status->name(), "tested");
    EXPECT_EQ(status->nf(), "passthrough");
    EXPECT_TRUE(client.Ask(proto::UnitsRequest()).ok());
    EXPECT_TRUE(client.Ask(proto::FlowsRequest()).ok());
  });
  ASSERT_TRUE(live.ok()) << live.status();
  EXPECT_TRUE(live->ports.ok());
  const RunResult& result = live->replayed.run.result;
  EXPECT_EQ(result.packets_begun(), result.packets_ended());
  EXPECT_EQ(result.violations, 0u);
  EXPECT_FALSE(std::filesystem::exists(files_.socket));
  EXPECT_FALSE(std::filesystem::exists(files_.lock));
  EXPECT_THAT(Log(), HasSubstr("runs passthrough between"));
  EXPECT_THAT(Log(), HasSubstr("asked to end"));
}

TEST_F(DaemonTest, ChangesASettingOfItsRun) {
  const auto live = RunWhile([](ControlClient& client) {
    proto::SetRequest request;
    (*request.mutable_value())["alpha"] = "0.5";
    const auto reply = client.Ask(request);
    ASSERT_TRUE(reply.ok()) << reply.status();
    std::string alpha;
    for (const proto::Setting& setting : reply->setting()) {
      if (setting.name() == "alpha") alpha = setting.value();
    }
    EXPECT_EQ(alpha, "0.5");
    (*request.mutable_value())["alpha"] = "2";
    EXPECT_EQ(client.Ask(request).status().code(),
              absl::StatusCode::kInvalidArgument);
  });
  EXPECT_TRUE(live.ok()) << live.status();
  EXPECT_THAT(Log(), HasSubstr("set alpha=0.5"));
}

TEST_F(DaemonTest, DrainsAUnitButNotTheLastOne) {
  options_.run.controller.max_units = 2;
  const auto live = RunWhile([](ControlClient& client) {
    proto::DrainRequest request;
    EXPECT_EQ(client.Ask(request).status().code(),
              absl::StatusCode::kInvalidArgument);
    request.set_unit(1);
    EXPECT_TRUE(client.Ask(request).ok());
    request.set_unit(0);
    EXPECT_EQ(client.Ask(request).status().code(),
              absl::StatusCode::kFailedPrecondition);
    request.set_unit(2);
    EXPECT_EQ(client.Ask(request).status().code(),
              absl::StatusCode::kInvalidArgument);
  });
  EXPECT_TRUE(live.ok()) << live.status();
}

TEST_F(DaemonTest, RefusesAModuleThatItCannotRead) {
  const auto live = RunWhile([this](ControlClient& client) {
    proto::ChainRequest request;
    request.set_module(folder_ / "none.so");
    const absl::Status status = client.Ask(request).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr("none.so"));
  });
  EXPECT_TRUE(live.ok()) << live.status();
}

TEST_F(DaemonTest, RunsWithoutADaemonUntilItIsInterrupted) {
  FirstInterrupt interrupt;
  interrupt.came = true;
  const auto live = RunPorts(options_, interrupt);
  ASSERT_TRUE(live.ok()) << live.status();
  EXPECT_EQ(live->nf, "passthrough");
  EXPECT_FALSE(interrupt.is_awaited);
  const RunResult& result = live->replayed.run.result;
  EXPECT_EQ(result.packets_begun(), result.packets_ended());
}

TEST_F(DaemonTest, NamesAPortThatCannotBeOpened) {
  options_.ports.front().interface = "/nowhere/x.pcap";
  FirstInterrupt interrupt;
  const auto live = RunPorts(options_, interrupt);
  EXPECT_EQ(live.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(live.status().message()),
              HasSubstr("/nowhere/x.pcap"));
}

TEST_F(DaemonTest, NotesItsFirstChainForADaemonThatGoesOn) {
  LiveSettings settings(options_, LogLevel::kInfo);
  std::atomic<bool> ends = false;
  LiveChainSetter chains(settings, "snf", files_.modules, ends);
  ASSERT_TRUE(
      chains
          .Keep({.socket = files_.keep, .patience = Seconds(1)}, files_.chains)
          .ok());
  const auto kept = chains.NextKept();
  ASSERT_TRUE(kept.ok()) << kept.status();
  EXPECT_FALSE(kept->has_value());
  const auto noted = KeptChains(files_.chains).Read();
  ASSERT_EQ(noted.size(), 1u);
  EXPECT_EQ(noted[0].flags, settings.flags());
  EXPECT_EQ(noted[0].number, 1u);
}

TEST_F(DaemonTest, SaysWhyNoOtherChainCanBeSet) {
  LiveSettings settings(options_, LogLevel::kInfo);
  std::atomic<bool> ends = false;
  LiveChainSetter chains(settings, "snf", files_.modules, ends);
  chains.Refuse("leases are for one chain");
  Mailbox mailbox;
  proto::ChainReply reply;
  const absl::Status status = chains.Set(
      mailbox, std::chrono::steady_clock::now(), proto::ChainRequest(), reply);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(status.message(), "leases are for one chain");
}

// Processes of a chain that is kept do not come and go, though they do by
// default.
TEST_F(DaemonTest, SetsAChainThatIsKeptWithDefaultFlags) {
  FlagSet flags;
  RunFlags run_flags(flags, RunFlags::Input::kPorts);
  ASSERT_TRUE(
      flags
          .ParseCommandLine(std::vector<std::string>{
              "--port=inside=file:" + std::string(kCapture),
              "--port=outside=file:" + files_.directory + "/outside.pcap.zst",
              "--isolation=process", "--loggers=on", "--quiet"})
          .ok());
  ASSERT_TRUE(run_flags.Settle().ok());
  RunRequest options = run_flags.options();
  ASSERT_TRUE(options.real.warm_pool.has_value());
  options.real.KeepBy({.socket = files_.keep, .patience = Seconds(1)});
  EXPECT_FALSE(options.real.warm_pool.has_value());

  LiveSettings settings(options, LogLevel::kInfo);
  std::atomic<bool> ends = false;
  LiveChainSetter chains(settings, "true", files_.modules, ends);
  ASSERT_TRUE(chains.Keep(*options.real.keep, files_.chains).ok());
  auto first = RealDriver::Start(options_.run, options_.real,
                                 *FindPlacementPolicy(options_.policies[0]),
                                 options_.config.chains.front().nf, {});
  ASSERT_TRUE(first.ok()) << first.status();
  ChainSet live(std::make_unique<LiveChains>(*std::move(first), "passthrough"));
  std::optional<RealOptions> begun;
  LivePredecessor upgrade;
  chains.Begin(
      live,
      [&begun](
          const RunRequest& of) -> absl::StatusOr<std::unique_ptr<RealDriver>> {
        begun = of.real;
        return absl::UnavailableError("as far as this test goes");
      },
      upgrade);
  Mailbox mailbox;
  proto::ChainRequest request;
  request.set_text("passthrough");
  proto::ChainReply reply;
  EXPECT_EQ(
      chains.Set(mailbox, std::chrono::steady_clock::now(), request, reply)
          .message(),
      "as far as this test goes");
  ASSERT_TRUE(begun.has_value());
  ASSERT_TRUE(begun->keep.has_value());
  EXPECT_EQ(begun->keep->socket, files_.keep + ".1");
  EXPECT_FALSE(begun->warm_pool.has_value());
}

TEST_F(DaemonTest, DoesNotAwaitATrialOnceItIsToEnd) {
  const std::string program = files_.directory + "/stubborn";
  std::ofstream(program)
      << "#!/bin/sh\ntrap '' ALRM TERM\nwhile :; do sleep 1; done\n";
  std::filesystem::permissions(program, std::filesystem::perms::owner_all);
  LiveSettings settings(options_, LogLevel::kInfo);
  std::atomic<bool> ends = false;
  LiveChainSetter chains(settings, program, files_.modules, ends);
  std::thread told([&ends] { ends = true; });
  Mailbox mailbox;
  proto::ChainRequest request;
  request.set_text("passthrough");
  proto::ChainReply reply;
  const absl::Status status =
      chains.Set(mailbox, std::chrono::steady_clock::now(), request, reply);
  told.join();
  EXPECT_EQ(status.code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(status.message(), "the daemon ends");
}

}  // namespace
}  // namespace snf
