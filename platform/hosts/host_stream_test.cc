// SPDX-License-Identifier: Apache-2.0
#include "platform/hosts/host_stream.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <filesystem>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/rng.h"
#include "platform/hosts/host_place.h"
#include "platform/service/certificates.h"
#include "platform/service/tls_files.h"
#include "runtime/ring/real_clock.h"

namespace snf {
namespace {

using testing::HasSubstr;

constexpr size_t kHead = 24;

std::span<const std::byte> Bytes(const std::string& text) {
  return std::as_bytes(std::span(text));
}
std::string Text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// A stream, and the plain socket of its peer.
struct Ends {
  Ends() : Ends(Make()) {}
  explicit Ends(const std::array<int, 2>& sockets)
      : stream(sockets[0]), peer(sockets[1]) {}
  ~Ends() {
    if (peer >= 0) close(peer);
  }
  static std::array<int, 2> Make() {
    std::array<int, 2> sockets{};
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets.data()), 0);
    return sockets;
  }
  void Write(const std::string& bytes) const {
    EXPECT_EQ(write(peer, bytes.data(), bytes.size()),
              static_cast<ssize_t>(bytes.size()));
  }
  std::string Refusal(Nanos patience = Seconds(10)) {
    const auto got = stream.Receive(patience, 1'000);
    return got.ok() ? "" : std::string(got.status().message());
  }

  HostStream stream;
  int peer;
};

// Returns the bytes of these frames, each apart.
std::vector<std::string> FramesOf(size_t count) {
  Ends ends;
  std::vector<std::string> frames;
  for (size_t i = 0; i < count; ++i) {
    const std::string text(i, 'x');
    EXPECT_TRUE(ends.stream.Send(HostFrame::kUpdate, Bytes(text)).ok());
    std::string frame(kHead + i, '\0');
    EXPECT_EQ(read(ends.peer, frame.data(), frame.size()),
              static_cast<ssize_t>(frame.size()));
    frames.push_back(frame);
  }
  return frames;
}

TEST(HostStream, BringsFramesOfAllSizesInOrder) {
  const std::array<int, 2> sockets = Ends::Make();
  HostStream from(sockets[0]);
  HostStream to(sockets[1]);
  const std::vector<size_t> sizes = {0, 1, 16'384, 16'385, 70'000, 5'000'000};
  std::thread sender([&] {
    for (const size_t size : sizes) {
      const std::string text(size, static_cast<char>('a' + size % 26));
      EXPECT_TRUE(from.Send(HostFrame::kWord, Bytes(text)).ok());
    }
  });
  for (const size_t size : sizes) {
    const auto got = to.Receive(Seconds(10));
    ASSERT_TRUE(got.ok()) << got.status();
    EXPECT_EQ(got->kind, HostFrame::kWord);
    EXPECT_EQ(Text(got->bytes),
              std::string(size, static_cast<char>('a' + size % 26)));
  }
  sender.join();
}

// A relay in between may lose, double or reorder frames: none gets through.
TEST(HostStream, RefusesLostDoubledAndReorderedFrames) {
  const std::vector<std::string> all = FramesOf(12);
  uint64_t lost = 0;
  uint64_t doubled = 0;
  uint64_t reordered = 0;
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Rng rng(seed);
    std::vector<std::string> frames = all;
    const auto at = static_cast<std::ptrdiff_t>(rng.Below(11));
    auto good = static_cast<size_t>(at);
    switch (rng.Below(3)) {
      case 0:
        frames.erase(frames.begin() + at);
        ++lost;
        break;
      case 1:
        frames.insert(frames.begin() + at, frames[good]);
        ++good;
        ++doubled;
        break;
      default:
        std::swap(frames[good], frames[good + 1]);
        ++reordered;
    }
    Ends ends;
    for (const std::string& frame : frames) ends.Write(frame);
    for (size_t i = 0; i < good; ++i) {
      const auto got = ends.stream.Receive(Seconds(10));
      ASSERT_TRUE(got.ok()) << got.status();
      EXPECT_EQ(got->bytes.size(), i);
    }
    EXPECT_THAT(ends.Refusal(), HasSubstr("a frame with number"));
  }
  printf("%d lost, %d doubled, %d reordered\n", static_cast<int>(lost),
         static_cast<int>(doubled), static_cast<int>(reordered));
  EXPECT_GT(std::min({lost, doubled, reordered}), 60u);
}

TEST(HostStream, RefusesWhatIsNoFrameByName) {
  const std::string good = FramesOf(1)[0];
  const auto with = [&good](size_t at, char value) {
    std::string frame = good;
    frame[at] = value;
    return frame;
  };
  const struct {
    std::string bytes;
    const char* why;
  } cases[] = {{"GET / HTTP/1.1\r\nHost: a\r\n\r\n", "a frame with mark"},
               {with(4, 99), "a frame with kind 0x63"},
               {with(6, 1), "a frame with kind"},
               {with(8, 5), "a frame with number 0x5"},
               {with(18, 1), "a frame with bytes 0x10000"},
               {with(23, 127), "a frame with bytes 0x7f00000000000000"}};
  for (const auto& c : cases) {
    Ends ends;
    ends.Write(c.bytes);
    EXPECT_THAT(ends.Refusal(), HasSubstr(c.why));
  }
}

// Waits for a frame, after a beat, in a process of its own, which is stopped
// meanwhile as a machine would be. The peer speaks soon after that.
TEST(HostStream, DoesNotCountTimeInWhichItStoodStill) {
  constexpr Nanos kPatience = Seconds(1);
  Ends ends;
  const std::string beat = FramesOf(1)[0];
  const pid_t child = fork();
  if (child == 0) {
    const bool did = ends.stream.Send(HostFrame::kBeat, {}).ok() &&
                     ends.stream.Receive(kPatience).ok();
    _exit(did ? 0 : 1);
  }
  std::string begins(kHead, '\0');
  ASSERT_EQ(read(ends.peer, begins.data(), kHead), ssize_t{kHead});
  const auto pass = [](int ms) { EXPECT_EQ(poll(nullptr, 0, ms), 0); };
  pass(50);
  ASSERT_EQ(kill(child, SIGSTOP), 0);
  pass(1'200);
  ASSERT_EQ(kill(child, SIGCONT), 0);
  pass(50);
  ends.Write(beat);
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST(HostStream, TellsAClosedConnectionFromASilentOne) {
  for (size_t cut = 0; cut < kHead; ++cut) {
    Ends ends;
    ends.Write(FramesOf(1)[0].substr(0, cut));
    EXPECT_EQ(ends.Refusal(Milliseconds(2)), "was silent for 2 ms");
    close(std::exchange(ends.peer, -1));
    EXPECT_EQ(ends.Refusal(), "the connection was closed");
  }
}

TEST(HostStream, GivesUpAPeerThatTakesNothing) {
  Ends ends;
  const std::string text(20'000'000, 'x');
  const absl::Status status = ends.stream.Send(HostFrame::kUpdate, Bytes(text));
  EXPECT_EQ(status.message(), "the connection takes no more bytes");
}

// --- TLS. ---

// The ends of an encrypted connection.
struct TlsEnds {
  TlsEnds(TlsFiles of_server, TlsFiles of_client)
      : server(std::move(of_server)), client(std::move(of_client)) {}
  // Shakes hands over new sockets. Returns the errors of both ends.
  std::string Shake() {
    const std::array<int, 2> sockets = Ends::Make();
    agent.emplace(sockets[0]);
    daemon.emplace(sockets[1]);
    absl::Status of_agent;
    std::thread other(
        [&] { of_agent = agent->Shake(server, TlsEnd::kServer, ""); });
    const absl::Status of_daemon =
        daemon->Shake(client, TlsEnd::kClient, "127.0.0.1:7000");
    other.join();
    return std::string(of_agent.message()) + std::string(of_daemon.message());
  }
  bool Carries() {
    const bool is_sent = daemon->Send(HostFrame::kWord, Bytes("word")).ok();
    const auto got = agent->Receive(Seconds(10));
    return is_sent && got.ok() && Text(got->bytes) == "word";
  }

  TlsFiles server;
  TlsFiles client;
  std::optional<HostStream> agent{};
  std::optional<HostStream> daemon{};
};

TEST(HostStream, OutlivesCertificatesWithWhichNoOtherOneBegins) {
  const std::string directory =
      testing::TempDir() + "/host-stream-" + std::to_string(getpid());
  // Under load the certificates may have expired before the handshake.
  for (int64_t seconds = 2; seconds < 200; seconds *= 3) {
    std::filesystem::remove_all(directory);
    ASSERT_TRUE(MakeCertificates(directory,
                                 {.role = ClientRole::kAdmin, .end_s = seconds})
                    .ok());
    const auto server = ReadTlsFiles(directory, TlsEnd::kServer);
    const auto client = ReadTlsFiles(directory, TlsEnd::kClient);
    if (!server.ok() || !client.ok()) continue;
    TlsEnds ends(*server, *client);
    if (!ends.Shake().empty()) continue;
    ASSERT_TRUE(ends.Carries());
    const Instant end = RealClock::Monotonic() + Seconds(2 * seconds + 60);
    while (ReadTlsFiles(directory, TlsEnd::kServer).ok()) {
      ASSERT_LT(RealClock::Monotonic(), end);
      poll(nullptr, 0, 50);
    }
    EXPECT_TRUE(ends.Carries());
    EXPECT_THAT(ends.Shake(), HasSubstr("certificate has expired"));
    std::filesystem::remove_all(directory);
    return;
  }
  FAIL() << "certificates expire before a handshake";
}

// The directory of certificates of an authority, until the end of the object.
class Certificates {
 public:
  Certificates(const std::string& name, ClientRole role)
      : directory_(testing::TempDir() + "/host-stream-" + name + "-" +
                   std::to_string(getpid())) {
    std::filesystem::remove_all(directory_);
    EXPECT_TRUE(
        MakeCertificates(directory_, {.role = role, .end_s = 86'400}).ok());
  }
  ~Certificates() { std::filesystem::remove_all(directory_); }
  Certificates(const Certificates&) = delete;
  Certificates& operator=(const Certificates&) = delete;
  TlsFiles Files(TlsEnd end) const { return *ReadTlsFiles(directory_, end); }

 private:
  const std::string directory_;
};

TEST(HostStream, TellsADaemonOfAnotherRoleWhy) {
  const Certificates look("look", ClientRole::kLook);
  TlsEnds ends(look.Files(TlsEnd::kServer), look.Files(TlsEnd::kClient));
  EXPECT_THAT(ends.Shake(), HasSubstr("has the role look, not admin"));
  const auto got = ends.daemon->Receive(Seconds(10));
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_EQ(got->kind, HostFrame::kRefuse);
  EXPECT_EQ(Text(got->bytes),
            "TLS: the daemon's certificate has the role look, not admin");
}

TEST(HostStream, TellsWhyTheAgentRejectsACertificate) {
  signal(SIGPIPE, SIG_IGN);
  const Certificates one("one", ClientRole::kAdmin);
  const Certificates other("other", ClientRole::kAdmin);
  TlsFiles client = other.Files(TlsEnd::kClient);
  client.authority = one.Files(TlsEnd::kClient).authority;
  TlsEnds ends(one.Files(TlsEnd::kServer), client);
  EXPECT_THAT(ends.Shake(), HasSubstr("the certificate of the other end"));
  const auto got = ends.daemon->Receive(Seconds(10));
  EXPECT_THAT(std::string(got.status().message()),
              HasSubstr("the connection has ended: tls"));
}

// Only one end encrypts, and both learn this.
TEST(HostStream, TellsThatTheOtherEndSpeaksNoTls) {
  const Certificates admin("admin", ClientRole::kAdmin);
  {
    Ends ends;
    HostStream daemon(std::exchange(ends.peer, -1));
    ASSERT_TRUE(daemon.Send(HostFrame::kHello, Bytes("hello")).ok());
    EXPECT_EQ(
        ends.stream.Shake(admin.Files(TlsEnd::kServer), TlsEnd::kServer, "")
            .message(),
        "TLS: the other end speaks no TLS");
    const auto got = daemon.Receive(Seconds(10));
    ASSERT_TRUE(got.ok()) << got.status();
    EXPECT_EQ(got->kind, HostFrame::kRefuse);
    EXPECT_EQ(Text(got->bytes), "wants TLS");
  }
  Ends ends;
  HostStream daemon(std::exchange(ends.peer, -1));
  std::string of_agent;
  std::thread agent([&] {
    of_agent = ends.Refusal();
    EXPECT_TRUE(ends.stream.Send(HostFrame::kRefuse, Bytes(of_agent)).ok());
  });
  EXPECT_EQ(daemon
                .Shake(admin.Files(TlsEnd::kClient), TlsEnd::kClient,
                       "127.0.0.1:7000")
                .message(),
            "TLS: the other end speaks no TLS");
  agent.join();
  EXPECT_EQ(of_agent, "the other end speaks TLS, and this end does not");
}

TEST(HostHello, RefusesAnotherVersionBuildAndProtocolByName) {
  HostHello own;
  own.build = 0x1234;
  std::strcpy(own.version, "1.0");
  const auto refusal = [&own](const HostHello& hello) {
    return std::string(
        CheckHello(std::as_bytes(std::span(&hello, 1)), own).message());
  };
  EXPECT_EQ(refusal(own), "");
  HostHello other = own;
  std::strcpy(other.version, "2.0");
  EXPECT_THAT(refusal(other), HasSubstr("runs snf 1.0"));
  EXPECT_THAT(refusal(other), HasSubstr("the daemon snf 2.0"));
  other = own;
  other.build = 0x99;
  EXPECT_THAT(refusal(other), HasSubstr("0000000000000099"));
  other = own;
  other.protocol = 7;
  EXPECT_THAT(refusal(other), HasSubstr("protocol 7"));
  std::memset(other.version, 'x', sizeof(other.version));  // without an end
  EXPECT_THAT(refusal(other), HasSubstr("xxx"));
  EXPECT_THAT(std::string(CheckHello(Bytes("hello"), own).message()),
              HasSubstr("a hello of 5 bytes"));
}

TEST(HostPlaces, PutsTheFirstProcessesOnTheOwnHost) {
  HostPlaces hosts;
  ASSERT_TRUE(hosts.Add("b=10.0.0.2:7000,units=2").ok());
  EXPECT_FALSE(hosts.has_geneve());
  ASSERT_TRUE(hosts.Add("c=[2001:db8::3]:7000,wire=geneve").ok());
  EXPECT_TRUE(hosts.has_geneve());
  std::string of;
  for (uint32_t i = 0; i < 6; ++i) {
    const HostPlace* const host = hosts.Of(i, 6);
    of += host == nullptr ? "-" : host->name.data();
  }
  EXPECT_EQ(of, "---bbc");
  EXPECT_EQ(hosts.text(),
            "b=10.0.0.2:7000,units=2 "
            "c=[2001:db8::3]:7000,units=1,wire=geneve");
  EXPECT_TRUE(hosts.Check(4).ok());
  EXPECT_THAT(std::string(hosts.Check(3).message()),
              HasSubstr("3 units on other hosts leave none of 3"));
}

TEST(HostPlaces, RefusesBadTextsByName) {
  const struct {
    const char* text;
    const char* why;
  } cases[] = {{"b", "NAME=ADDRESS:PORT"},
               {"=1.2.3.4:5", "\"\""},
               {"b c=1.2.3.4:5", "\"b c\""},
               {"b=host:5", "\"host:5\""},
               {"b=1.2.3.4", "\"1.2.3.4\""},
               {"b=1.2.3.4:5,units=0", "\"units=0\""},
               {"b=1.2.3.4:5,units=2x", "\"units=2x\""},
               {"b=1.2.3.4:5,unit=2", "\"unit=2\""},
               {"b=1.2.3.4:5,units=2,wire=ipx", "\"wire=ipx\""},
               {"b=1.2.3.4:5,units=2,", "\"\""},
               {"a=1.2.3.4:5", "two hosts"}};
  HostPlaces hosts;
  ASSERT_TRUE(hosts.Add("a=1.2.3.4:5").ok());
  for (const auto& c : cases) {
    EXPECT_THAT(std::string(hosts.Add(c.text).message()), HasSubstr(c.why));
  }
  for (int i = 1; i < 8; ++i) {
    EXPECT_TRUE(hosts.Add("h" + std::to_string(i) + "=1.2.3.4:5").ok());
  }
  EXPECT_THAT(std::string(hosts.Add("h8=1.2.3.4:5").message()),
              HasSubstr("more than 8 hosts"));
}

}  // namespace
}  // namespace snf
