// SPDX-License-Identifier: Apache-2.0
#include "platform/control/control_server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/text_file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "platform/control/control_client.h"
#include "platform/service/certificates.h"
#include "platform/service/tls_probe.h"

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
  absl::Status Rules(Deadline, const proto::RulesRequest&,
                     proto::RulesReply&) override {
    return absl::OkStatus();
  }
  absl::Status Capture(Deadline, const proto::CaptureRequest&,
                       proto::CaptureReply&) override {
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
  absl::Status Kill(Deadline, const proto::KillRequest& request,
                    proto::KillReply& reply) override {
    reply.set_pid(request.loggers() ? 17 : 18);
    return absl::OkStatus();
  }
  absl::Status Chain(Deadline, const proto::ChainRequest&,
                     proto::ChainReply&) override {
    return absl::UnimplementedError("no chains here");
  }
  absl::Status Upgrade(Deadline, const proto::UpgradeRequest&,
                       proto::UpgradeReply&) override {
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
        server_(*ControlServer::Start(socket_, std::nullopt, handler_)),
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
  proto::KillRequest kill;
  kill.set_loggers(true);
  EXPECT_EQ(client_->Ask(kill)->pid(), 17);
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

// A server on TCP, with certificates made for it.
class ControlServerTlsTest : public testing::Test {
 protected:
  ControlServerTlsTest()
      : folder_(testing::TempDir() + "/control-tls-" +
                std::to_string(getpid())) {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directory(folder_);
  }
  ~ControlServerTlsTest() override { std::filesystem::remove_all(folder_); }

  // A directory of certificates.
  std::string Certificates(const std::string& name,
                           const CertificateOptions& options = {}) {
    const std::string directory = folder_ + "/" + name;
    EXPECT_TRUE(MakeCertificates(directory, options).ok());
    return directory;
  }
  static std::string Read(const std::string& file) {
    return ReadTextFile(file, 100'000).value_or("");
  }
  // What an end shows, whether it is good or not.
  TlsEndpoint Endpoint(const std::string& directory, const std::string& stem) {
    return {.address = address_,
            .files = {.authority = Read(directory + "/ca.crt"),
                      .certificate = Read(directory + "/" + stem + ".crt"),
                      .key = Read(directory + "/" + stem + ".key")}};
  }
  // Listens where nobody does yet.
  std::unique_ptr<ControlServer> Serve(const std::string& directory) {
    for (uint16_t port = 20'000; port < 60'000; port += 97) {
      address_.port = port;
      if (WhyNotReachable({.address = address_, .files = {}}) !=
          "Connection refused") {
        continue;
      }
      auto server = ControlServer::Start(
          folder_ + "/socket", Endpoint(directory, "server"), handler_);
      if (server.ok()) return *std::move(server);
    }
    return nullptr;
  }
  // An answer, or why there is none.
  static std::string Answer(const TlsEndpoint& endpoint) {
    const auto reply =
        ControlClient::Connect(endpoint)->Ask(proto::StatusRequest());
    return reply.ok() ? reply->name() : WhyNotReachable(endpoint);
  }

  Handler handler_;
  const std::string folder_;
  TcpAddress address_ = {.host = "127.0.0.1"};
};

TEST_F(ControlServerTlsTest, AnswersWhoeverShowsACertificate) {
  const std::string here = Certificates("here");
  const auto server = Serve(here);
  ASSERT_NE(server, nullptr);
  EXPECT_EQ(Answer(Endpoint(here, "client")), "it");
  EXPECT_EQ(WhyNotReachable(Endpoint(here, "client")), "");
  EXPECT_EQ(ControlClient::Connect(folder_ + "/socket")
                ->Ask(proto::StatusRequest())
                ->name(),
            "it");
}

TEST_F(ControlServerTlsTest, ClientsMayWhatTheRoleOfTheirCertificateSays) {
  const std::string look = Certificates("look");
  const std::string admin = Certificates("admin", {.role = ClientRole::kAdmin});
  for (const auto& [directory, downs] : {std::pair{look, 0}, {admin, 1}}) {
    const auto server = Serve(directory);
    ASSERT_NE(server, nullptr);
    const auto client = ControlClient::Connect(Endpoint(directory, "client"));
    EXPECT_EQ(client->Ask(proto::StatusRequest())->name(), "it");
    EXPECT_EQ(client->Ask(proto::DownRequest()).status().code(),
              downs > 0 ? absl::StatusCode::kOk
                        : absl::StatusCode::kPermissionDenied);
    EXPECT_EQ(handler_.downs, downs);
    EXPECT_EQ(client->Ask(proto::UpgradeRequest()).status().code(),
              absl::StatusCode::kPermissionDenied);
  }
}

TEST_F(ControlServerTlsTest, RefusesCertificatesThatAreNotGood) {
  const std::string here = Certificates("here");
  const auto server = Serve(here);
  ASSERT_NE(server, nullptr);
  // As the authority would sign them for somebody else, or for a server.
  TlsEndpoint foreign = Endpoint(Certificates("other"), "client");
  EXPECT_EQ(Answer(foreign),
            "its certificate is not signed by the authority of --tls");
  foreign.files.authority = Endpoint(here, "client").files.authority;
  EXPECT_THAT(Answer(foreign),
              testing::HasSubstr("rejects the certificate of this end"));
  EXPECT_THAT(Answer(Endpoint(here, "server")),
              testing::HasSubstr("rejects the certificate of this end"));
  // None at all.
  TlsEndpoint none = Endpoint(here, "client");
  none.files.certificate = none.files.key = "";
  EXPECT_FALSE(ControlClient::Connect(none)->Ask(proto::StatusRequest()).ok());
  EXPECT_EQ(handler_.downs, 0);
}

TEST_F(ControlServerTlsTest, ClientsRefuseAServersCertificateThatIsNotGood) {
  const std::string late =
      Certificates("late", {.begin_s = -7'200, .end_s = -3'600});
  const auto server = Serve(late);
  ASSERT_NE(server, nullptr);
  EXPECT_EQ(Answer(Endpoint(late, "client")), "its certificate has expired");
}

TEST_F(ControlServerTlsTest, ClientsRefuseAServerOfAnotherName) {
  const std::string here = Certificates("here");
  address_.host = "0.0.0.0";
  const auto server = Serve(here);
  ASSERT_NE(server, nullptr);
  TlsEndpoint endpoint = Endpoint(here, "client");
  endpoint.address.host = "127.0.0.2";
  EXPECT_THAT(Answer(endpoint),
              testing::HasSubstr("its certificate is not for 127.0.0.2"));
  endpoint.address.host = "127.0.0.1";
  EXPECT_EQ(Answer(endpoint), "it");
}

TEST_F(ControlServerTlsTest, RefusesAPortThatIsTaken) {
  const std::string here = Certificates("here");
  const auto server = Serve(here);
  ASSERT_NE(server, nullptr);
  const auto second = ControlServer::Start(folder_ + "/second",
                                           Endpoint(here, "server"), handler_);
  EXPECT_EQ(second.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(second.status().message(),
            address_.text() + ": cannot listen there");
}

TEST_F(ControlServerTlsTest, MayHaveAsManyConnectionsAsTheProcessMay) {
  rlimit limit = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  limit.rlim_cur = 200;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  ASSERT_NE(Serve(Certificates("here")), nullptr);
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  EXPECT_EQ(limit.rlim_cur, limit.rlim_max);
}

TEST_F(ControlServerTlsTest, OneThatHangsUpIsNotOneThatSaysNothing) {
  const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in own = {};
  own.sin_family = AF_INET;
  own.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof own;
  ASSERT_EQ(bind(listener, reinterpret_cast<sockaddr*>(&own), size), 0);
  ASSERT_EQ(listen(listener, 8), 0);
  getsockname(listener, reinterpret_cast<sockaddr*>(&own), &size);
  address_.port = ntohs(own.sin_port);
  const TlsEndpoint endpoint = Endpoint(Certificates("here"), "client");
  EXPECT_EQ(WhyNotReachable(endpoint), "it does not answer");
  close(accept(listener, nullptr, nullptr));  // the one before
  std::thread hangs_up([&] { close(accept(listener, nullptr, nullptr)); });
  EXPECT_EQ(WhyNotReachable(endpoint), kHangsUp);
  hangs_up.join();
  close(listener);
  EXPECT_EQ(WhyNotReachable(endpoint), "Connection refused");
}

TEST(ControlServer, RefusesASocketThatCannotBe) {
  Handler handler;
  const auto server =
      ControlServer::Start("/nowhere/socket", std::nullopt, handler);
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
