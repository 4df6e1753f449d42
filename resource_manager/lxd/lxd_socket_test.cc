// SPDX-License-Identifier: Apache-2.0
#include "resource_manager/lxd/lxd_socket.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <utility>

namespace snf {
namespace {

using ::testing::HasSubstr;

// Answers one connection with some bytes, once a request's end has come.
class TestServer {
 public:
  // `until`: the last bytes of the request; "": answers nothing, and waits for
  // the client's end.
  TestServer(std::string answer, std::string until)
      : answer_(std::move(answer)), until_(std::move(until)) {
    std::string name = testing::TempDir() + "snf-lxd-XXXXXX";
    EXPECT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
    sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
    std::strncpy(address.sun_path, path().c_str(),
                 sizeof(address.sun_path) - 1);
    listener_ = socket(AF_UNIX, SOCK_STREAM, 0);
    EXPECT_EQ(bind(listener_, reinterpret_cast<const sockaddr*>(&address),
                   sizeof(address)),
              0);
    EXPECT_EQ(listen(listener_, 1), 0);
    thread_ = std::thread([this] { Serve(); });
  }
  ~TestServer() {
    End();
    close(listener_);
    std::filesystem::remove_all(folder_);
  }
  TestServer(const TestServer&) = delete;
  TestServer& operator=(const TestServer&) = delete;

  std::string path() const { return folder_ + "/unix.socket"; }
  const std::string& folder() const { return folder_; }
  // Returns what the client has sent.
  const std::string& End() {
    // Ends an accept() without a client.
    shutdown(listener_, SHUT_RDWR);
    if (thread_.joinable()) thread_.join();
    return asked_;
  }

 private:
  void Serve() {
    const int client = accept(listener_, nullptr, nullptr);
    if (client < 0) return;
    std::string buffer(4'096, '\0');
    ssize_t bytes = 0;
    while ((until_.empty() || !asked_.ends_with(until_)) &&
           (bytes = read(client, buffer.data(), buffer.size())) > 0) {
      asked_.append(buffer, 0, static_cast<size_t>(bytes));
    }
    if (!answer_.empty()) {
      EXPECT_EQ(send(client, answer_.data(), answer_.size(), MSG_NOSIGNAL),
                static_cast<ssize_t>(answer_.size()));
    }
    close(client);
  }

  const std::string answer_;
  const std::string until_;
  std::string folder_;
  std::string asked_;
  int listener_ = -1;
  std::thread thread_;
};

constexpr char kHeadersEnd[] = "\r\n\r\n";

TEST(LxdSocket, CarriesARequestAndItsResponse) {
  TestServer server("HTTP/1.1 404 Not Found\r\nContent-Length: 4\r\n\r\nnone",
                    "{\"a\":1}");
  LxdSocket socket(server.path());
  const auto response = socket.Exchange({.method = "PUT",
                                         .target = "/1.0/instances/a/state",
                                         .body = "{\"a\":1}"});
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_EQ(response->status, 404U);
  EXPECT_EQ(response->body, "none");
  const std::string& asked = server.End();
  EXPECT_TRUE(asked.starts_with("PUT /1.0/instances/a/state HTTP/1.1\r\n"));
  EXPECT_THAT(asked, HasSubstr("Content-Length: 7\r\n"));
}

TEST(LxdSocket, ReadsChunks) {
  TestServer server(
      "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
      "2\r\n{}\r\n1\r\n!\r\n0\r\n\r\n",
      kHeadersEnd);
  const auto response = LxdSocket(server.path()).Exchange({});
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_EQ(response->body, "{}!");
}

TEST(LxdSocket, SendsAFile) {
  TestServer server("HTTP/1.1 202 Accepted\r\nContent-Length: 2\r\n\r\n{}",
                    "the image");
  const std::string file = server.folder() + "/image";
  std::ofstream(file) << "the image";
  const auto response = LxdSocket(server.path())
                            .Exchange({.method = "POST",
                                       .target = "/1.0/images",
                                       .file = file,
                                       .headers = {{"X-LXD-public", "0"}}});
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_THAT(server.End(), HasSubstr("X-LXD-public: 0\r\n"));
  EXPECT_THAT(server.End(), HasSubstr("\r\n\r\nthe image"));
}

TEST(LxdSocket, NamesAFileThatIsMissing) {
  TestServer server("", kHeadersEnd);
  const auto response =
      LxdSocket(server.path())
          .Exchange({.method = "POST", .file = "/nowhere/image"});
  EXPECT_TRUE(absl::IsNotFound(response.status()));
  EXPECT_THAT(std::string(response.status().message()),
              HasSubstr("/nowhere/image"));
}

TEST(LxdSocket, TellsThatThereIsNoLxd) {
  for (const std::string& path :
       {std::string("/nowhere/unix.socket"), std::string("/dev/null")}) {
    const absl::Status status = LxdSocket(path).Exchange({}).status();
    EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(path));
  }
  const absl::Status status =
      LxdSocket("/" + std::string(200, 'x')).Exchange({}).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
}

TEST(LxdSocket, WhatIsNoHttpIsAnError) {
  for (const std::string answer :
       {"", "SSH-2.0-x\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{}",
        "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n"}) {
    TestServer server(answer, kHeadersEnd);
    const absl::Status status = LxdSocket(server.path()).Exchange({}).status();
    EXPECT_TRUE(absl::IsUnavailable(status)) << answer << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(server.path()));
  }
}

TEST(LxdSocket, WaitsNoLongerThanItsPatience) {
  TestServer server("", "");
  const absl::Status status = LxdSocket(server.path())
                                  .Exchange({.patience = Milliseconds(20)})
                                  .status();
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("no answer to GET"));
}

TEST(LxdSocket, FindsTheSocketOfAFolder) {
  const char* const before = std::getenv("LXD_DIR");
  const std::string kept = before == nullptr ? "" : before;
  setenv("LXD_DIR", "/srv/lxd", 1);
  EXPECT_EQ(LxdSocket::UsualPath(), "/srv/lxd/unix.socket");
  unsetenv("LXD_DIR");
  EXPECT_TRUE(LxdSocket::UsualPath().ends_with("/lxd/unix.socket") ||
              LxdSocket::UsualPath().ends_with("/lxd/common/lxd/unix.socket"));
  if (!kept.empty()) setenv("LXD_DIR", kept.c_str(), 1);
}

}  // namespace
}  // namespace snf
