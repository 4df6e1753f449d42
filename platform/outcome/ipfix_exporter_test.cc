// SPDX-License-Identifier: Apache-2.0
#include "platform/outcome/ipfix_exporter.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace snf {
namespace {

constexpr std::array kFields = {kIpfixTime, kIpfixPackets};

// Records are numbers; 0 is not exported, 99 lacks a value, 98 has no packets,
// 97 has 513 bytes, and from 200 on each has another template of 84 bytes.
class Numbers final : public IpfixLog {
 public:
  bool has_ipfix() const override { return true; }
  std::span<const IpfixField> write_ipfix(const LogRecord& record,
                                          std::string& values) const override {
    const auto number = static_cast<uint8_t>(record.bytes[0]);
    if (number == 0) return {};
    if (number == 97) return Many(513, values);
    if (number >= 200) return Many(20 - (number - 200), values, 20);
    AppendIpfix(static_cast<uint64_t>(record.time.ns) / 1'000'000, 8, values);
    if (number == 98) return std::span(kFields).first(1);
    if (number != 99) AppendIpfix(number, 8, values);
    return kFields;
  }

 private:
  // Fields of a byte each, of which the first `zeros` are element 1.
  static std::span<const IpfixField> Many(size_t zeros, std::string& values,
                                          size_t all = 513) {
    static std::map<std::pair<size_t, size_t>, std::vector<IpfixField>> known;
    auto& fields = known[{zeros, all}];
    for (size_t i = fields.size(); i < all; ++i) {
      fields.push_back({static_cast<uint16_t>(i < zeros ? 1 : 2), 1});
    }
    values.append(all, 'x');
    return fields;
  }
};

void Add(IpfixExporter& exporter, uint8_t number, Instant time = {}) {
  const std::array bytes = {std::byte{number}};
  exporter.Add(Numbers(), {.time = time, .bytes = bytes});
}

uint64_t NumberAt(const std::string& bytes, size_t at, size_t count) {
  uint64_t value = 0;
  for (size_t i = at; i < at + count; ++i) {
    value = value << 8 | static_cast<uint8_t>(bytes.at(i));
  }
  return value;
}

// A file that does not exist yet.
class IpfixFile : public ::testing::Test {
 protected:
  IpfixFile() {
    path_ = testing::TempDir() + "ipfix_exporter_XXXXXX";
    close(mkstemp(path_.data()));
    std::remove(path_.c_str());
  }
  ~IpfixFile() override { std::remove(path_.c_str()); }

  std::string Bytes() const {
    std::ifstream file(path_);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  std::string path_;
};

constexpr size_t kTemplateBytes = 4 + 4 + 8;
constexpr size_t kHeaderBytes = 16;

TEST_F(IpfixFile, HasATemplateOnceAndRecordsInOrder) {
  auto exporter = IpfixExporter::Open(path_, false);
  ASSERT_TRUE(exporter.ok()) << exporter.status();
  absl::Status status;
  for (const uint8_t number : {uint8_t{1}, uint8_t{0}, uint8_t{2}}) {
    Add(**exporter, number, Instant{1'000'000'001});
  }
  EXPECT_EQ((*exporter)->Send(status), 0u);
  EXPECT_EQ((*exporter)->Send(status), 0u);  // nothing
  Add(**exporter, 3);
  EXPECT_EQ((*exporter)->Send(status), 0u);
  EXPECT_TRUE(status.ok()) << status;
  const std::string bytes = Bytes();
  const size_t second = kHeaderBytes + kTemplateBytes + 4 + 2 * 16;
  ASSERT_EQ(bytes.size(), second + kHeaderBytes + 4 + 16);
  EXPECT_EQ(NumberAt(bytes, 4, 4), 2u);  // the second after 1.000000001
  EXPECT_EQ(NumberAt(bytes, second - 8, 8), 2u);
  EXPECT_EQ(NumberAt(bytes, second, 2), 10u);
  EXPECT_EQ(NumberAt(bytes, second + 8, 4), 2u);  // records before
  EXPECT_EQ(NumberAt(bytes, bytes.size() - 8, 8), 3u);
}

TEST_F(IpfixFile, IsAppendedToOrBegunAnew) {
  for (const bool appends : {false, true, false}) {
    auto exporter = IpfixExporter::Open(path_, appends);
    ASSERT_TRUE(exporter.ok()) << exporter.status();
    absl::Status status;
    Add(**exporter, 1);
    (*exporter)->Send(status);
    // Each time the template stands first.
    const size_t one = kHeaderBytes + kTemplateBytes + 4 + 16;
    EXPECT_EQ(Bytes().size(), appends ? 2 * one : one);
  }
}

TEST_F(IpfixFile, IsOpenedAgainAfterARotation) {
  auto exporter = IpfixExporter::Open(path_, false);
  ASSERT_TRUE(exporter.ok()) << exporter.status();
  absl::Status status;
  Add(**exporter, 1);
  (*exporter)->Send(status);
  const std::string before = Bytes();
  std::remove(path_.c_str());
  EXPECT_TRUE((*exporter)->Reopen().ok());
  Add(**exporter, 1);
  (*exporter)->Send(status);
  EXPECT_EQ(Bytes(), before);  // its template is in it again
}

TEST_F(IpfixFile, CountsARecordWhoseValuesAreNotItsFields) {
  auto exporter = IpfixExporter::Open(path_, false);
  ASSERT_TRUE(exporter.ok()) << exporter.status();
  absl::Status status;
  Add(**exporter, 99);
  EXPECT_EQ((*exporter)->Send(status), 1u);
  EXPECT_EQ(Bytes(), "");
}

TEST_F(IpfixFile, TellsTemplatesApartByTheirFields) {
  auto exporter = IpfixExporter::Open(path_, false);
  ASSERT_TRUE(exporter.ok()) << exporter.status();
  absl::Status status;
  Add(**exporter, 98);  // the begin of the same array
  Add(**exporter, 1);
  EXPECT_EQ((*exporter)->Send(status), 0u);
  const std::string bytes = Bytes();
  ASSERT_EQ(bytes.size(),
            kHeaderBytes + (4 + 4 + 4) + (4 + 8) + kTemplateBytes + (4 + 16));
  EXPECT_EQ(NumberAt(bytes, kHeaderBytes + 12, 2), 256u);
  EXPECT_EQ(NumberAt(bytes, bytes.size() - 20, 2), 257u);
}

// Waits for no memory of a disk: the kernel refuses to let the file grow.
TEST_F(IpfixFile, BeginsAnewAfterAWriteThatFailed) {
  auto exporter = IpfixExporter::Open(path_, false);
  ASSERT_TRUE(exporter.ok()) << exporter.status();
  absl::Status status;
  const auto before = signal(SIGXFSZ, SIG_IGN);
  rlimit limit = {};
  getrlimit(RLIMIT_FSIZE, &limit);
  const rlimit none = {.rlim_cur = 0, .rlim_max = limit.rlim_max};
  setrlimit(RLIMIT_FSIZE, &none);
  for (int i = 0; i < 3'000; ++i) Add(**exporter, 1);  // several messages
  const uint64_t lost = (*exporter)->Send(status);
  setrlimit(RLIMIT_FSIZE, &limit);
  signal(SIGXFSZ, before);
  EXPECT_EQ(lost, 3'000u);
  EXPECT_EQ(std::string(status.message()), path_ + ": File too large");
  Add(**exporter, 2);
  EXPECT_EQ((*exporter)->Send(status), 0u);
  const std::string bytes = Bytes();
  ASSERT_EQ(bytes.size(), kHeaderBytes + kTemplateBytes + 4 + 16);
  EXPECT_EQ(NumberAt(bytes, kHeaderBytes, 2), 2u);  // a template
  EXPECT_EQ(NumberAt(bytes, bytes.size() - 8, 8), 2u);
}

TEST(IpfixExporter, CountsRecordsAndTemplatesThatNoDatagramHolds) {
  auto exporter = IpfixExporter::Open("udp://127.0.0.1:9", true);
  ASSERT_TRUE(exporter.ok()) << exporter.status();
  absl::Status status;
  Add(**exporter, 97);
  EXPECT_EQ((*exporter)->Send(status), 1u);
  for (uint8_t number = 200; number < 220; ++number) Add(**exporter, number);
  // Seven templates have room, and Send finds room for all of them.
  uint64_t refused = 0;
  absl::Status ignored;
  refused = (*exporter)->Send(ignored);
  EXPECT_GE(refused, 13u);
}

TEST(IpfixExporter, CountsWhatADiskHasNoRoomFor) {
  auto exporter = IpfixExporter::Open("/dev/full", true);
  ASSERT_TRUE(exporter.ok()) << exporter.status();
  absl::Status status;
  Add(**exporter, 1);
  Add(**exporter, 2);
  EXPECT_EQ((*exporter)->Send(status), 2u);
  EXPECT_EQ(std::string(status.message()),
            "/dev/full: No space left on device");
}

TEST(IpfixExporter, NamesTheFileThatItCannotOpen) {
  const auto exporter = IpfixExporter::Open("/nowhere/a.ipfix", true);
  EXPECT_EQ(std::string(exporter.status().message()),
            "/nowhere/a.ipfix: No such file or directory");
}

// A collector on a port of its own.
class IpfixUdp : public ::testing::Test {
 protected:
  IpfixUdp() : socket_(socket(AF_INET, SOCK_DGRAM, 0)) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address;
    auto* const any = reinterpret_cast<sockaddr*>(&address);
    EXPECT_EQ(bind(socket_, any, length), 0);
    EXPECT_EQ(getsockname(socket_, any, &length), 0);
    to_ = "udp://127.0.0.1:" + std::to_string(ntohs(address.sin_port));
    const timeval patience = {.tv_sec = 30, .tv_usec = 0};
    setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  }
  ~IpfixUdp() override { Close(); }
  void Close() {
    if (socket_ >= 0) close(socket_);
    socket_ = -1;
  }
  std::string Take() const {
    std::string bytes(65'536, '\0');
    const ssize_t length = recv(socket_, bytes.data(), bytes.size(), 0);
    EXPECT_GE(length, 0);
    bytes.resize(length < 0 ? 0 : static_cast<size_t>(length));
    return bytes;
  }

  int socket_;
  std::string to_;
};

TEST_F(IpfixUdp, HasTemplatesInEachDatagramOfAtMost1232Bytes) {
  auto exporter = IpfixExporter::Open(to_, true);
  ASSERT_TRUE(exporter.ok()) << exporter.status();
  absl::Status status;
  uint64_t records = 0;
  for (int i = 0; i < 200; ++i) Add(**exporter, 7);
  EXPECT_EQ((*exporter)->Send(status), 0u);
  while (records < 200) {
    const std::string message = Take();
    ASSERT_GT(message.size(), kHeaderBytes);
    ASSERT_LE(message.size(), 1'232u);
    EXPECT_EQ(NumberAt(message, kHeaderBytes, 2), 2u);
    EXPECT_EQ(NumberAt(message, 8, 4), records);
    records += (message.size() - kHeaderBytes - kTemplateBytes - 4) / 16;
  }
  EXPECT_EQ(records, 200u);
}

TEST_F(IpfixUdp, CountsWhatNoCollectorTook) {
  Close();
  auto exporter = IpfixExporter::Open(to_, true);
  ASSERT_TRUE(exporter.ok()) << exporter.status();
  absl::Status status;
  uint64_t lost = 0;
  constexpr int kMost = 100'000;  // the kernel tells with a later datagram
  for (int i = 0; i < kMost && lost == 0; ++i) {
    Add(**exporter, 7);
    lost += (*exporter)->Send(status);
  }
  EXPECT_EQ(lost, 1u);
  EXPECT_EQ(std::string(status.message()), to_ + ": Connection refused");
}

}  // namespace
}  // namespace snf
