// SPDX-License-Identifier: Apache-2.0
#include "platform/ports/health_responder.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace snf {
namespace {

// A client that is connected to the port.
Descriptor Connected(uint16_t port) {
  Descriptor client(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(connect(client.number(), reinterpret_cast<sockaddr*>(&address),
                    sizeof address),
            0);
  return client;
}
void Say(const Descriptor& client, const std::string& text) {
  EXPECT_EQ(send(client.number(), text.data(), text.size(), 0),
            static_cast<ssize_t>(text.size()));
}
// Everything up to the end of the connection. Loopback has brought it.
std::string Heard(const Descriptor& client) {
  std::string all;
  std::array<char, 256> room;
  while (true) {
    const ssize_t bytes = recv(client.number(), room.data(), room.size(), 0);
    if (bytes <= 0) return all;
    all.append(room.data(), static_cast<size_t>(bytes));
  }
}

const std::string kGet = "GET /health HTTP/1.1\r\nHost: x\r\n\r\n";

TEST(HealthResponder, Answers200WhileItForwards) {
  const auto health = HealthResponder::Listen(0);
  ASSERT_TRUE(health.ok());
  const Descriptor good = Connected((*health)->port());
  Say(good, kGet);
  (*health)->Answer(true);
  EXPECT_EQ(Heard(good).substr(0, 17), "HTTP/1.1 200 OK\r\n");
  const Descriptor bad = Connected((*health)->port());
  Say(bad, kGet);
  (*health)->Answer(false);
  EXPECT_EQ(Heard(bad).substr(0, 12), "HTTP/1.1 503");
}

TEST(HealthResponder, AwaitsTheEndOfARequest) {
  const auto health = HealthResponder::Listen(0);
  ASSERT_TRUE(health.ok());
  const Descriptor client = Connected((*health)->port());
  (*health)->Answer(true);
  Say(client, "GET / HTTP/1.0\r\n");
  (*health)->Answer(true);
  Say(client, "\r\n");
  (*health)->Answer(true);
  EXPECT_NE(Heard(client).find("\r\n\r\nforwarding\n"), std::string::npos);
}

TEST(HealthResponder, ClosesConnectionsThatSayTooMuchOrNothing) {
  const auto health = HealthResponder::Listen(0);
  ASSERT_TRUE(health.ok());
  const Descriptor loud = Connected((*health)->port());
  Say(loud, std::string(HealthResponder::kRequestBytes, 'x'));
  (*health)->Answer(true);
  EXPECT_EQ(Heard(loud), "");
  const Descriptor silent = Connected((*health)->port());
  (*health)->Answer(true);
  shutdown(silent.number(), SHUT_WR);
  (*health)->Answer(true);
  EXPECT_EQ(Heard(silent), "");
}

TEST(HealthResponder, BoundsTheConnectionsThatWait) {
  const auto health = HealthResponder::Listen(0);
  ASSERT_TRUE(health.ok());
  std::vector<Descriptor> silent;
  for (size_t i = 0; i < HealthResponder::kConnections; ++i) {
    silent.push_back(Connected((*health)->port()));
    (*health)->Answer(true);
  }
  const Descriptor client = Connected((*health)->port());
  Say(client, kGet);
  (*health)->Answer(true);
  EXPECT_EQ(Heard(client).substr(0, 12), "HTTP/1.1 200");
  EXPECT_EQ(Heard(silent.front()), "");  // made way
}

TEST(HealthResponder, SaysWhichPortIsTaken) {
  const auto health = HealthResponder::Listen(0);
  ASSERT_TRUE(health.ok());
  const auto second = HealthResponder::Listen((*health)->port());
  ASSERT_FALSE(second.ok());
  EXPECT_NE(second.status().message().find(std::to_string((*health)->port())),
            std::string::npos);
}

}  // namespace
}  // namespace snf
