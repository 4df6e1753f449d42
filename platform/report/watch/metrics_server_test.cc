// SPDX-License-Identifier: Apache-2.0
#include "platform/process/metrics_server.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "base/test_seeds.h"
#include "platform/report/watch/metrics_text.h"
#include "platform/report/watch/test_live.h"
#include "platform/run/figures/live_board.h"

namespace snf {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// A connection to the server, closed at the end.
class Client {
 public:
  explicit Client(uint16_t port) : socket_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(connect(socket_, reinterpret_cast<const sockaddr*>(&address),
                      sizeof address),
              0);
  }
  ~Client() { close(socket_); }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  // All that the server says until it closes.
  std::string Ask(std::string_view request) const {
    EXPECT_EQ(send(socket_, request.data(), request.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(request.size()));
    std::string answer;
    char buffer[4096];
    while (true) {
      const ssize_t bytes = recv(socket_, buffer, sizeof buffer, 0);
      if (bytes <= 0) return answer;
      answer.append(buffer, static_cast<size_t>(bytes));
    }
  }

 private:
  int socket_;
};

constexpr std::string_view kGet =
    "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n";

std::unique_ptr<MetricsServer> Serve(std::function<std::string()> text) {
  auto server = MetricsServer::Start({}, {.metrics = std::move(text)});
  EXPECT_TRUE(server.ok()) << server.status();
  return *std::move(server);
}

TEST(MetricsServer, AnswersWithTheTextAndCloses) {
  const auto server = Serve([] { return "snf_test 1\n"; });
  const std::string answer = Client(server->port()).Ask(kGet);
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 200 OK\r\n"));
  EXPECT_THAT(answer, HasSubstr("\r\nContent-Type: text/plain; "
                                "version=0.0.4; charset=utf-8\r\n"));
  EXPECT_THAT(answer, HasSubstr("\r\nConnection: close\r\n"));
  EXPECT_THAT(answer, EndsWith("\r\n\r\nsnf_test 1\n"));
}

TEST(MetricsServer, SaysWhyItCannotListen) {
  const auto server = Serve([] { return ""; });
  const auto second = MetricsServer::Start(
      {.port = server->port()}, {.metrics = [] { return std::string(); }});
  EXPECT_EQ(second.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(second.status().ToString(), HasSubstr("Address already in use"));
}

TEST(MetricsServer, EndsWhileClientsAreConnected) {
  auto server = Serve([] { return ""; });
  std::vector<std::unique_ptr<Client>> clients;
  for (int i = 0; i < MetricsServer::kConnections + 2; ++i) {
    clients.push_back(std::make_unique<Client>(server->port()));
  }
  server.reset();
}

TEST(MetricsServer, ServesManyClientsOfARunThatGoesOn) {
  LiveBoard board([](uint64_t) { return std::nullopt; });
  const auto server =
      Serve([&board] { return MetricsText(MetricsOf(*board.Latest())); });
  constexpr int kClients = 2 * MetricsServer::kConnections;
  // A sanitizer sees a race in the first pages as well as in later ones.
  constexpr int kPages = TestSeeds::kSanitized ? 2 : 10;
  constexpr int64_t kFigures = TestSeeds::kSanitized ? 100 : 1'000;
  std::vector<std::thread> clients;
  std::vector<std::string> answers(kClients);
  for (std::string& answer : answers) {
    clients.emplace_back([&answer, port = server->port()] {
      for (int i = 0; i < kPages; ++i) answer = Client(port).Ask(kGet);
    });
  }
  for (int64_t i = 1; i <= kFigures; ++i) board.Publish(LiveFiguresAfter(i));
  for (std::thread& client : clients) client.join();
  for (const std::string& answer : answers) {
    EXPECT_THAT(answer, StartsWith("HTTP/1.1 200 OK\r\n"));
    EXPECT_THAT(answer, HasSubstr("\nsnf_packets_in_total "));
  }
}

std::string Page(const MetricsServer& server, std::string_view path) {
  return Client(server.port())
      .Ask("GET " + std::string(path) + " HTTP/1.1\r\nHost: localhost\r\n\r\n");
}

TEST(MetricsServer, TellsOfHealthByTheStatus) {
  MetricsServer::Health ready{};
  auto server = MetricsServer::Start(
      {}, {.metrics = [] { return ""; }, .readyz = [&] { return ready; }});
  ASSERT_TRUE(server.ok()) << server.status();
  EXPECT_THAT(Page(**server, "/healthz"),
              AllOf(StartsWith("HTTP/1.1 200 OK\r\n"), EndsWith("\r\nok\n")));
  EXPECT_THAT(Page(**server, "/readyz"), StartsWith("HTTP/1.1 200 OK\r\n"));
  ready = {.is_good = false, .text = "The port is down.\n"};
  EXPECT_THAT(Page(**server, "/readyz"),
              AllOf(StartsWith("HTTP/1.1 503 Service Unavailable\r\n"),
                    EndsWith("\r\nThe port is down.\n")));
  EXPECT_THAT(Page(**server, "/healthz"), StartsWith("HTTP/1.1 200 OK\r\n"));
  EXPECT_THAT(Page(**server, "/ready"), StartsWith("HTTP/1.1 404 "));
}

// A client of another machine cannot take all connections. If the server is not
// at loopback, clients of this machine count as well.
TEST(MetricsServer, ServesFewConnectionsOfOneAddressAtATime) {
  for (const std::string address : {"127.0.0.1", "0.0.0.0"}) {
    const auto server = MetricsServer::Start(
        {.address = address}, {.metrics = [] { return "snf_test 1\n"; }});
    ASSERT_TRUE(server.ok()) << server.status();
    std::vector<std::unique_ptr<Client>> silent;
    silent.reserve(MetricsServer::kOfOneAddress);
    for (int i = 0; i < MetricsServer::kOfOneAddress; ++i) {
      silent.push_back(std::make_unique<Client>((*server)->port()));
    }
    const std::string answer = Client((*server)->port()).Ask(kGet);
    if (address == "127.0.0.1") {
      EXPECT_THAT(answer, EndsWith("snf_test 1\n"));
    } else {
      EXPECT_EQ(answer, "");
    }
  }
}

TEST(MetricsServer, RefusesAddressesAndCertificatesThatAreNone) {
  const auto start = [](const MetricsServer::Options& options) {
    return MetricsServer::Start(options, {.metrics = [] { return ""; }})
        .status();
  };
  EXPECT_EQ(start({.address = "localhost"}).code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(start({.address = "localhost"}).ToString(),
              HasSubstr("\"localhost\" is no address"));
  // An address for documentation, which no machine has (RFC 5737).
  EXPECT_THAT(start({.address = "192.0.2.1", .port = 9'100}).ToString(),
              HasSubstr("cannot listen on 192.0.2.1:9100"));
  EXPECT_THAT(start({.certificate = "none", .key = "none"}).ToString(),
              HasSubstr("cannot serve HTTPS on 127.0.0.1:"));
  EXPECT_TRUE(start({.address = "0.0.0.0"}).ok());
}

}  // namespace
}  // namespace snf
