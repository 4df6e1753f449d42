// SPDX-License-Identifier: Apache-2.0
#include "platform/service/tls_endpoint.h"

#include <string>

#include "gtest/gtest.h"

namespace snf {
namespace {

TEST(TcpAddress, IsParsedAndPrinted) {
  for (const std::string text :
       {"127.0.0.1:7001", "[::1]:1", "host.example:65535"}) {
    const auto address = ParseTcpAddress("tcp:" + text);
    ASSERT_TRUE(address.ok()) << text;
    EXPECT_EQ(address->text(), text);
  }
  EXPECT_EQ(ParseTcpAddress("tcp:[::1]:7001")->host, "::1");
}

TEST(TcpAddress, RefusesWhatIsNone) {
  for (const std::string text :
       {"", "tcp:", "tcp:7001", "127.0.0.1:7001", "tcp:h:", "tcp::7001",
        "tcp:h:0", "tcp:h:65536", "tcp:h:7001x", "tcp:h:-1", "tcp:::1:7001",
        "tcp:[h]:7001", "tcp:[::1:7001", "tcp:[::1]7001", "tcp:[]:1",
        "tcp:a/b:1", "udp:h:1"}) {
    EXPECT_EQ(ParseTcpAddress(text).status().code(),
              absl::StatusCode::kInvalidArgument)
        << text;
  }
}

TEST(TlsFlags, WantBothOrNone) {
  const auto endpoint = [](const std::vector<std::string>& arguments) {
    FlagSet flags;
    TlsFlags tls;
    tls.AddTo(flags, "what it is for");
    EXPECT_TRUE(flags.ParseCommandLine(arguments).ok());
    return tls.Endpoint(TlsEnd::kClient);
  };
  EXPECT_FALSE(endpoint({})->has_value());
  for (const std::string one : {"--control=tcp:h:1", "--tls=/nowhere"}) {
    EXPECT_EQ(endpoint({one}).status().code(),
              absl::StatusCode::kInvalidArgument);
  }
  EXPECT_EQ(endpoint({"--control=h", "--tls=/nowhere"}).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(endpoint({"--control=tcp:h:1", "--tls=/nowhere"}).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace snf
