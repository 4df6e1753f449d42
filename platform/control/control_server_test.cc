// SPDX-License-Identifier: Apache-2.0
#include "platform/control/control_server.h"

#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "platform/control/control_client.h"

namespace snf {
namespace {

// Answers as the test says; Units waits until it may.
class Handler final : public ControlHandler {
 public:
  absl::Status Status(Deadline deadline, const proto::StatusRequest&,
                      proto::StatusReply& reply) override {
    left_ = deadline - std::chrono::steady_clock::now();
    reply.set_name("it");
    return status;
  }
  absl::Status Units(Deadline, const proto::UnitsRequest&,
                     proto::UnitsReply&) override {
    ++waiting;
    while (waits) std::this_thread::yield();
    return absl::OkStatus();
  }
  absl::Status Flows(Deadline, const proto::FlowsRequest& request,
                     proto::FlowsReply& reply) override {
    reply.set_flows(request.limit());
    return absl::OkStatus();
  }
  absl::Status Set(Deadline, const proto::SetRequest& request,
                   proto::SetReply& reply) override {
    for (const auto& [name, value] : request.value()) {
      reply.add_setting()->set_name(name + "=" + value);
    }
    return absl::OkStatus();
  }
  absl::Status Drain(Deadline, const proto::DrainRequest& request,
                     proto::DrainReply& reply) override {
    reply.set_flows(request.unit() + (request.undo() ? 100 : 0));
    return absl::OkStatus();
  }
  absl::Status Down(Deadline, const proto::DownRequest&,
                    proto::DownReply&) override {
    ++downs;
    return absl::OkStatus();
  }
  std::chrono::nanoseconds left() const { return left_; }

  absl::Status status;
  std::atomic<int> waiting = 0;
  std::atomic<bool> waits = true;
  int downs = 0;

 private:
  std::chrono::nanoseconds left_{};
};

class ControlServerTest : public testing::Test {
 protected:
  ControlServerTest()
      : socket_(testing::TempDir() + "/control-" + std::to_string(getpid())),
        server_(*ControlServer::Start(socket_, handler_)),
        client_(ControlClient::Connect(socket_)) {}
  ~ControlServerTest() override {
    handler_.waits = false;
    server_.reset();
    unlink(socket_.c_str());
  }

  Handler handler_;
  const std::string socket_;
  std::unique_ptr<ControlServer> server_;
  std::unique_ptr<ControlClient> client_;
};

TEST_F(ControlServerTest, CarriesQuestionsAndAnswers) {
  EXPECT_EQ(client_->Ask(proto::StatusRequest())->name(), "it");
  proto::FlowsRequest flows;
  flows.set_limit(7);
  EXPECT_EQ(client_->Ask(flows)->flows(), 7u);
  proto::SetRequest set;
  (*set.mutable_value())["alpha"] = "0.5";
  EXPECT_EQ(client_->Ask(set)->setting(0).name(), "alpha=0.5");
  proto::DrainRequest drain;
  drain.set_unit(3);
  drain.set_undo(true);
  EXPECT_EQ(client_->Ask(drain)->flows(), 103u);
  ASSERT_TRUE(client_->Ask(proto::DownRequest()).ok());
  EXPECT_EQ(handler_.downs, 1);
}

TEST_F(ControlServerTest, TellsErrorsWithTheirCode) {
  handler_.status = absl::FailedPreconditionError("not now");
  const auto reply = client_->Ask(proto::StatusRequest());
  EXPECT_EQ(reply.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(reply.status().message(), "not now");
}

TEST_F(ControlServerTest, HandlersKnowHowLongTheyHave) {
  ASSERT_TRUE(client_->Ask(proto::StatusRequest()).ok());
  EXPECT_GT(handler_.left().count(), 0);
  // On the way it is rounded up.
  EXPECT_LE(handler_.left().count(),
            ControlClient::kPatience.ns + Milliseconds(500).ns);
}

TEST_F(ControlServerTest, IsThisUsersAlone) {
  struct stat file = {};
  ASSERT_EQ(stat(socket_.c_str(), &file), 0);
  EXPECT_EQ(file.st_mode & 0777, 0600u);
}

TEST_F(ControlServerTest, RefusesAMessageThatIsTooLong) {
  proto::SetRequest set;
  (*set.mutable_value())["x"] = std::string(ControlServer::kMostBytes, 'x');
  EXPECT_EQ(client_->Ask(set).status().code(),
            absl::StatusCode::kResourceExhausted);
  (*set.mutable_value())["x"].resize(ControlServer::kMostBytes - 100);
  EXPECT_TRUE(client_->Ask(set).ok());
}

TEST_F(ControlServerTest, RefusesMoreCallsThanItServesAtATime) {
  std::vector<std::thread> threads;
  std::atomic<int> answered = 0;
  const auto ask = [this, &answered] {
    const auto client = ControlClient::Connect(socket_);
    answered += client->Ask(proto::UnitsRequest()).ok() ? 1 : 0;
  };
  for (int i = 0; i < ControlServer::kMostCalls; ++i) threads.emplace_back(ask);
  while (handler_.waiting < ControlServer::kMostCalls) {
    std::this_thread::yield();
  }
  EXPECT_EQ(client_->Ask(proto::StatusRequest()).status().code(),
            absl::StatusCode::kResourceExhausted);
  handler_.waits = false;
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(answered, ControlServer::kMostCalls);
  EXPECT_TRUE(client_->Ask(proto::StatusRequest()).ok());
}

TEST(ControlServer, RefusesASocketThatCannotBe) {
  Handler handler;
  const auto server = ControlServer::Start("/nowhere/socket", handler);
  EXPECT_EQ(server.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(server.status().message(), "/nowhere/socket: cannot listen there");
}

TEST(ControlClient, SaysThatNobodyAnswers) {
  const auto client = ControlClient::Connect("/nowhere/socket");
  EXPECT_EQ(client->Ask(proto::StatusRequest()).status().code(),
            absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace snf
