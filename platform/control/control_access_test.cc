// SPDX-License-Identifier: Apache-2.0
#include "platform/control/control_access.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/sdk/nf.h"

namespace snf {
namespace {

using ::testing::HasSubstr;

class Filed final : public NetworkFunction {
 public:
  explicit Filed(NfOptions& options) {
    options.Load<std::string>("rules", "anything", Load);
    options.Text("ipfix", "", "FILE", "is written");
    options.Text("deny", "", "RULES", "anything");
  }
  static absl::StatusOr<std::string> Load(const std::string& name) {
    ++loaded;
    return name;
  }
  Verdict process_packet(Packet&, FlowState&) override {
    return Verdict::forward();
  }
  inline static int loaded = 0;
};
SNF_REGISTER_NF(Filed, "filed", "has options that name files");

proto::SetRequest Setting() {
  proto::SetRequest request;
  (*request.mutable_value())["alpha"] = "0.5";
  return request;
}

proto::ChainRequest ChainOf(const std::string& text) {
  proto::ChainRequest request;
  request.set_text(text);
  return request;
}

// How many roles may ask this, beside the daemon's own user.
template <typename Request>
int Roles(const Request& request) {
  EXPECT_TRUE(CheckAccess(std::nullopt, request).ok());
  int count = 0;
  for (const ClientRole role :
       {ClientRole::kAdmin, ClientRole::kSteer, ClientRole::kLook}) {
    const absl::Status status = CheckAccess(role, request);
    if (!status.ok()) {
      EXPECT_EQ(status.code(), absl::StatusCode::kPermissionDenied);
      continue;
    }
    ++count;
  }
  return count;
}

TEST(ControlAccess, EachRoleMayWhatTheOnesBeforeMay) {
  EXPECT_EQ(Roles(proto::StatusRequest()), 3);
  EXPECT_EQ(Roles(proto::UnitsRequest()), 3);
  EXPECT_EQ(Roles(proto::FlowsRequest()), 3);
  proto::FlowsRequest deletion;
  deletion.set_deletes(true);
  EXPECT_EQ(Roles(deletion), 2);
  EXPECT_EQ(Roles(proto::RulesRequest()), 3);
  EXPECT_EQ(Roles(proto::CaptureRequest()), 1);
  EXPECT_EQ(Roles(proto::SetRequest()), 3);
  EXPECT_EQ(Roles(Setting()), 2);
  EXPECT_EQ(Roles(proto::DrainRequest()), 2);
  EXPECT_EQ(Roles(proto::KillRequest()), 1);
  EXPECT_EQ(Roles(proto::DownRequest()), 1);
  EXPECT_EQ(Roles(ChainOf("filed(deny=10.0.0.0/8)")), 1);
  EXPECT_THAT(std::string(CheckAccess(ClientRole::kLook, Setting()).message()),
              HasSubstr("role is look, and this wants steer"));
}

TEST(ControlAccess, NoRoleUpgradesADaemon) {
  EXPECT_EQ(Roles(proto::UpgradeRequest()), 0);
}

TEST(ControlAccess, NoRoleNamesAFileOfTheHost) {
  proto::ChainRequest module;
  module.set_module("/tmp/x.so");
  EXPECT_EQ(Roles(module), 0);
  for (const std::string text :
       {"filed(rules=/etc/shadow)", "filed:rules=x",
        "filed | {a: filed(deny=x, ipfix=/etc/passwd), *:} | filed",
        "office | filed(rules=x)", "/tmp/x.so", "x.so(a=b)",
        "filed | {a: ./x.so}"}) {
    EXPECT_EQ(Roles(ChainOf(text)), 0) << text;
  }
  EXPECT_EQ(Filed::loaded, 0);
  EXPECT_EQ(
      CheckAccess(ClientRole::kAdmin, ChainOf("filed(rules=/a)")).message(),
      "filed: rules=/a names a file of the host, which no client over TCP may "
      "name");
  EXPECT_EQ(CheckAccess(ClientRole::kAdmin, ChainOf("./x.so")).message(),
            "\"./x.so\" is a module, a file of the host, which no client over "
            "TCP may name");
}

TEST(ControlAccess, NamesThatTheDaemonKnowsPass) {
  EXPECT_EQ(Roles(ChainOf("office")), 1);
  EXPECT_EQ(Roles(ChainOf("filed | office")), 1);
  EXPECT_EQ(CheckAccess(ClientRole::kAdmin, ChainOf("filed |")).code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(ClientRole, IsTheLeastThatACertificateNames) {
  const auto role = [](const std::vector<std::string>& uris) {
    return RoleOf(uris);
  };
  EXPECT_EQ(role({}), ClientRole::kLook);
  EXPECT_EQ(role({"urn:snf:role:root", "https://snf"}), ClientRole::kLook);
  EXPECT_EQ(role({"x", UriOf(ClientRole::kAdmin)}), ClientRole::kAdmin);
  EXPECT_EQ(role({UriOf(ClientRole::kAdmin), UriOf(ClientRole::kSteer)}),
            ClientRole::kSteer);
}

TEST(ControlAccess, AConfigurationIsForTheHostAlone) {
  proto::SetRequest request;
  request.set_config_file("/etc/shadow");
  EXPECT_EQ(Roles(request), 0);
  request.set_only_plan(true);
  EXPECT_EQ(Roles(request), 0);
  proto::SetRequest show;
  show.set_tell_config(true);
  EXPECT_EQ(Roles(show), 0);
}

}  // namespace
}  // namespace snf
