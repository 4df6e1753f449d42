// SPDX-License-Identifier: Apache-2.0
#include "platform/service/certificates.h"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "platform/service/tls_files.h"

namespace snf {
namespace {

using testing::HasSubstr;

class CertificatesTest : public testing::Test {
 protected:
  CertificatesTest()
      : directory_(testing::TempDir() + "/certificates-" +
                   std::to_string(getpid())) {
    std::filesystem::remove_all(directory_);
  }
  ~CertificatesTest() override { std::filesystem::remove_all(directory_); }

  std::string path(const std::string& name) const {
    return directory_ + "/" + name;
  }
  mode_t mode(const std::string& path) const {
    struct stat about = {};
    EXPECT_EQ(stat(path.c_str(), &about), 0) << path;
    return about.st_mode & 0777;
  }
  absl::Status MakeWith(int64_t begin_s, int64_t end_s) {
    return MakeCertificates(directory_, {.begin_s = begin_s, .end_s = end_s});
  }
  // What is wrong with the files of an end.
  std::string Wrong(TlsEnd end) const {
    return std::string(ReadTlsFiles(directory_, end).status().message());
  }

  const std::string directory_;
};

TEST_F(CertificatesTest, AreGoodForBothEnds) {
  ASSERT_TRUE(MakeCertificates(directory_, {}).ok());
  for (const TlsEnd end : {TlsEnd::kServer, TlsEnd::kClient}) {
    EXPECT_EQ(Wrong(end), "");
  }
}

TEST_F(CertificatesTest, KeysAreThisUsersAlone) {
  const mode_t before = umask(0);
  ASSERT_TRUE(MakeCertificates(directory_, {}).ok());
  umask(before);
  EXPECT_EQ(mode(directory_), 0700u);
  for (const std::string name : {"ca", "server", "client"}) {
    EXPECT_EQ(mode(path(name + ".key")), 0600u);
    EXPECT_EQ(mode(path(name + ".crt")), 0644u);
  }
}

TEST_F(CertificatesTest, OverwriteNothingAndLeaveNothingHalfMade) {
  ASSERT_TRUE(std::filesystem::create_directory(directory_));
  std::ofstream(path("server.key")) << "mine";
  const absl::Status status = MakeCertificates(directory_, {});
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("server.key exists"));
  std::string text;
  std::ifstream(path("server.key")) >> text;
  EXPECT_EQ(text, "mine");
  EXPECT_FALSE(std::filesystem::exists(path("ca.key")));
}

TEST_F(CertificatesTest, RefuseWhatIsNoHost) {
  for (const std::string host : {"", "a b", "x,DNS:y", "-x", "*.org", "a/b"}) {
    const absl::Status status = MakeCertificates(directory_, {.hosts = {host}});
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << host;
  }
  EXPECT_FALSE(std::filesystem::exists(directory_));
  EXPECT_TRUE(
      MakeCertificates(directory_,
                       {.hosts = {"host.example", "192.0.2.1", "2001:db8::1"}})
          .ok());
}

TEST_F(CertificatesTest, AreRefusedOnceTheyHaveExpiredOrBeforeTheyAreGood) {
  ASSERT_TRUE(MakeWith(-7'200, -3'600).ok());
  EXPECT_THAT(Wrong(TlsEnd::kClient), HasSubstr("was valid until "));
  std::filesystem::remove_all(directory_);
  ASSERT_TRUE(MakeWith(3'600, 7'200).ok());
  EXPECT_THAT(Wrong(TlsEnd::kServer), HasSubstr("is valid from "));
}

TEST_F(CertificatesTest, AreRefusedIfAFileIsAbsentOrNone) {
  EXPECT_THAT(Wrong(TlsEnd::kClient),
              HasSubstr("ca.crt: No such file or directory; snf cert makes"));
  ASSERT_TRUE(MakeCertificates(directory_, {}).ok());
  for (const std::string name : {"ca.crt", "client.crt", "client.key"}) {
    const std::string kept = path(name) + ".kept";
    std::filesystem::rename(path(name), kept);
    EXPECT_THAT(Wrong(TlsEnd::kClient), HasSubstr(name + ": No such file"));
    std::ofstream(path(name)) << "-----BEGIN NOTHING-----\n";
    std::filesystem::permissions(path(name), std::filesystem::perms(0600));
    EXPECT_THAT(Wrong(TlsEnd::kClient), HasSubstr(name + ": no "));
    std::filesystem::rename(kept, path(name));
  }
  EXPECT_EQ(Wrong(TlsEnd::kClient), "");
}

TEST_F(CertificatesTest, AreRefusedIfTheyDoNotBelongTogether) {
  ASSERT_TRUE(MakeCertificates(directory_, {}).ok());
  const std::string other = directory_ + "-other";
  ASSERT_TRUE(MakeCertificates(other, {}).ok());
  std::filesystem::copy_file(other + "/client.key", path("client.key"),
                             std::filesystem::copy_options::overwrite_existing);
  EXPECT_THAT(Wrong(TlsEnd::kClient), HasSubstr("client.key: not the key of"));
  std::filesystem::copy_file(other + "/client.crt", path("client.crt"),
                             std::filesystem::copy_options::overwrite_existing);
  EXPECT_THAT(Wrong(TlsEnd::kClient),
              testing::ContainsRegex("client.crt: not signed by .*ca.crt"));
  std::filesystem::remove_all(other);
}

TEST_F(CertificatesTest, OfAServerAreNoClients) {
  ASSERT_TRUE(MakeCertificates(directory_, {}).ok());
  for (const std::string kind : {".crt", ".key"}) {
    std::filesystem::rename(path("server" + kind), path("client" + kind));
  }
  EXPECT_THAT(Wrong(TlsEnd::kClient), HasSubstr("client.crt: "));
}

TEST_F(CertificatesTest, AreRefusedIfOthersMayReadTheKey) {
  ASSERT_TRUE(MakeCertificates(directory_, {}).ok());
  ASSERT_EQ(chmod(path("client.key").c_str(), 0640), 0);
  const auto files = ReadTlsFiles(directory_, TlsEnd::kClient);
  EXPECT_EQ(files.status().code(), absl::StatusCode::kPermissionDenied);
  EXPECT_THAT(std::string(files.status().message()), HasSubstr("chmod 600"));
}

}  // namespace
}  // namespace snf
