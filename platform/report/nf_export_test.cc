// SPDX-License-Identifier: Apache-2.0
#include "platform/report/nf_export.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace snf {
namespace {

using testing::HasSubstr;

// A socket of the loopback, at a port that the kernel chose.
class Loopback {
 public:
  explicit Loopback(int type) : socket_(::socket(AF_INET, type, 0)) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t bytes = sizeof address;
    auto* const any = reinterpret_cast<sockaddr*>(&address);
    EXPECT_EQ(bind(socket_, any, bytes), 0);
    EXPECT_EQ(getsockname(socket_, any, &bytes), 0);
    port_ = ntohs(address.sin_port);
    if (type == SOCK_STREAM) {
      EXPECT_EQ(listen(socket_, 1), 0);
    }
  }
  ~Loopback() { close(socket_); }
  int socket() const { return socket_; }
  uint16_t port() const { return port_; }

 private:
  int socket_;
  uint16_t port_ = 0;
};

std::string Receive(int socket) {
  std::array<char, 2'000> bytes;
  const ssize_t got = recv(socket, bytes.data(), bytes.size(), 0);
  return got > 0 ? std::string(bytes.data(), static_cast<size_t>(got)) : "";
}

const std::vector<std::string> kMessages = {std::string("a\0b", 3), "second"};

TEST(NfExport, SendsEachMessageAsADatagram) {
  const Loopback collector(SOCK_DGRAM);
  EXPECT_TRUE(
      SendExport({{"127.0.0.1", collector.port(), true}, kMessages}).ok());
  EXPECT_EQ(Receive(collector.socket()), kMessages[0]);
  EXPECT_EQ(Receive(collector.socket()), kMessages[1]);
}

TEST(NfExport, SendsAllMessagesOverAConnection) {
  const Loopback collector(SOCK_STREAM);
  EXPECT_TRUE(
      SendExport({{"127.0.0.1", collector.port(), false}, kMessages}).ok());
  const int connection = accept(collector.socket(), nullptr, nullptr);
  std::string all;
  for (std::string some = Receive(connection); !some.empty();
       some = Receive(connection)) {
    all += some;
  }
  EXPECT_EQ(all, kMessages[0] + kMessages[1]);
  close(connection);
}

TEST(NfExport, NamesTheCollectorThatItCannotReach) {
  uint16_t closed = 0;
  {
    const Loopback gone(SOCK_STREAM);
    closed = gone.port();
  }
  EXPECT_EQ(
      SendExport({{"127.0.0.1", closed, false}, kMessages}).message(),
      "tcp://127.0.0.1:" + std::to_string(closed) + ": Connection refused");
  EXPECT_THAT(
      std::string(SendExport({{"no host", 4739, true}, kMessages}).message()),
      HasSubstr("udp://no host:4739: "));
}

}  // namespace
}  // namespace snf
