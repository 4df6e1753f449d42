// SPDX-License-Identifier: Apache-2.0
#include "resource_manager/lxd/lxd_client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "resource_manager/lxd/test_lxd.h"

namespace snf {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(LxdClient, ReadsAnInstance) {
  TestLxd lxd;
  lxd.instances["a"] = {.status = "Running",
                        .location = "two",
                        .profiles = {"default", "gold"},
                        .config = {{"user.snf.cluster", "x"}}};
  const auto found = LxdClient(lxd).Find("a");
  ASSERT_TRUE(found.ok() && found->has_value()) << found.status();
  EXPECT_TRUE((**found).is_running());
  EXPECT_EQ((**found).location, "two");
  EXPECT_THAT((**found).profiles, ElementsAre("default", "gold"));
  EXPECT_EQ((**found).At("user.snf.cluster"), "x");
  EXPECT_EQ((**found).At("user.snf.other"), "");
}

TEST(LxdClient, HasNoInstanceThatLxdDoesNotFind) {
  TestLxd lxd;
  const auto found = LxdClient(lxd).Find("a");
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_FALSE(found->has_value());
}

TEST(LxdClient, EscapesNamesInPaths) {
  TestLxd lxd;
  lxd.instead["GET /1.0/instances/a%2Fb%3Fc%20%25"] = TestLxd::Error(400, "no");
  EXPECT_THAT(std::string(LxdClient(lxd).Find("a/b?c %").status().message()),
              HasSubstr("LXD says: no"));
}

// Every call has an error, which names the instance.
TEST(LxdClient, AnAnswerThatIsNoneOfLxdsIsAnError) {
  for (const std::string body :
       {"", "no JSON", "null", "[]", "7", R"("text")", "{}", R"({"type":7})",
        R"({"type":"sync"})", R"({"type":"sync","metadata":1})",
        R"({"type":"sync","metadata":{"name":"other"}})",
        R"({"type":"sync","metadata":{"name":["a"],"config":3}})",
        R"({"type":"async","operation":"/1.0/operations/"})",
        R"({"type":"async","operation":7})"}) {
    TestLxd lxd;
    for (const std::string request :
         {"GET /1.0", "GET /1.0/instances/a", "GET /1.0/instances?recursion=1",
          "GET /1.0/images/aliases/snf", "PUT /1.0/instances/a/state"}) {
      lxd.instead[request] = {.status = 200, .body = body};
    }
    lxd.instead["GET /1.0/operations//wait?timeout=300"] = {.status = 200,
                                                            .body = body};
    LxdClient client(lxd);
    EXPECT_TRUE(absl::IsDataLoss(client.Server().status())) << body;
    EXPECT_TRUE(absl::IsDataLoss(client.Find("a").status())) << body;
    EXPECT_TRUE(absl::IsDataLoss(client.Instances().status())) << body;
    EXPECT_TRUE(absl::IsDataLoss(client.ImageOf("snf").status())) << body;
    const absl::Status started = client.Start("a");
    EXPECT_TRUE(absl::IsDataLoss(started)) << body << " " << started;
    EXPECT_THAT(std::string(started.message()), HasSubstr("\"a\"")) << body;
  }
}

TEST(LxdClient, TellsOfErrorsByKind) {
  TestLxd lxd;
  LxdClient client(lxd);
  lxd.instead["PUT /1.0/instances/a/state"] =
      TestLxd::Error(403, "not authorized");
  EXPECT_TRUE(absl::IsFailedPrecondition(client.Start("a")));
  lxd.instead["PUT /1.0/instances/a/state"] = TestLxd::Error(409, "busy");
  EXPECT_TRUE(absl::IsAlreadyExists(client.Start("a")));
  lxd.instead["PUT /1.0/instances/a/state"] = TestLxd::Error(404, "none");
  EXPECT_TRUE(absl::IsNotFound(client.Start("a")));
  // A proxy's error has no JSON; terminals get no control characters.
  lxd.instead["PUT /1.0/instances/a/state"] =
      TestLxd::Error(500, "\\u001b[31mred");
  const std::string told(client.Start("a").message());
  EXPECT_THAT(told, HasSubstr("?[31mred"));
}

TEST(LxdClient, TellsThatLxdIsNotDoneInTime) {
  TestLxd lxd;
  lxd.instances["a"] = {};
  lxd.instead["GET /1.0/operations/7b1f-0/wait?timeout=300"] =
      TestLxd::Sync(R"({"status":"Running","err":""})");
  EXPECT_THAT(std::string(LxdClient(lxd).Start("a").message()),
              HasSubstr("not done after 300 s"));
}

TEST(LxdClient, ImportsAnImageThatLxdDoesNotHave) {
  TestLxd lxd;
  LxdClient client(lxd);
  ASSERT_TRUE(client.Import("/images/snf.tar", "f00d").ok());
  EXPECT_THAT(lxd.changes(), ElementsAre());
  ASSERT_TRUE(client.Import("/images/snf.tar", "beef").ok());
  ASSERT_TRUE(client.SetAlias("snf", "beef", false).ok());
  ASSERT_TRUE(client.SetAlias("new", "beef", true).ok());
  EXPECT_THAT(lxd.changes(), ElementsAre("POST /1.0/images",
                                         R"(PUT /1.0/images/aliases/snf )"
                                         R"({"name":"snf","target":"beef"})",
                                         R"(POST /1.0/images/aliases )"
                                         R"({"name":"new","target":"beef"})"));
}

TEST(LxdClient, AnImageThatAnotherClientImportsMeanwhileIsThere) {
  TestLxd lxd;
  LxdClient client(lxd);
  lxd.failures["POST /1.0/images"] =
      "Image with same fingerprint already exists";
  EXPECT_TRUE(client.Import("/images/snf.tar", "beef").ok());
  lxd.failures["POST /1.0/images"] = "no space left on device";
  EXPECT_TRUE(
      absl::IsFailedPrecondition(client.Import("/images/snf.tar", "beef")));
}

}  // namespace
}  // namespace snf
