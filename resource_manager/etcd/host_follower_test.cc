// SPDX-License-Identifier: Apache-2.0
#include "resource_manager/etcd/host_follower.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace snf {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

EtcdPair HostAt(const std::string& name, int64_t created) {
  return {.key = "/snf/default/hosts/" + name,
          .value = R"({"name":")" + name + R"("})",
          .create_revision = created,
          .mod_revision = created};
}

class HostFollowerTest : public testing::Test {
 protected:
  std::vector<std::string> Told() { return std::exchange(told_, {}); }

  HostFollower follower_{[this](const HostFollower::Change& change) {
    told_.push_back((change.is_joined ? "+" : "-") + change.name +
                    (change.host.ok() ? "" : " unreadable"));
  }};

 private:
  std::vector<std::string> told_;
};

TEST_F(HostFollowerTest, TellsEachHostOnce) {
  follower_.on_all({.pairs = {HostAt("a", 1), HostAt("b", 2)}});
  EXPECT_THAT(Told(), ElementsAre("+a", "+b"));
  follower_.on_change(HostAt("c", 3), false);
  follower_.on_change(HostAt("c", 3), false);
  follower_.on_change(HostAt("b", 2), true);
  follower_.on_change(HostAt("b", 2), true);
  EXPECT_THAT(Told(), ElementsAre("+c", "-b"));
}

TEST_F(HostFollowerTest, TellsWhatChangedWhileChangesWereMissed) {
  follower_.on_all({.pairs = {HostAt("a", 1), HostAt("b", 2)}});
  Told();
  follower_.on_all({.pairs = {HostAt("a", 1), HostAt("b", 2)}});
  EXPECT_THAT(Told(), IsEmpty());
  // a has left, b has left and joined again, and c has joined.
  follower_.on_all({.pairs = {HostAt("b", 5), HostAt("c", 4)}});
  EXPECT_THAT(Told(), ElementsAre("-a", "-b", "+b", "+c"));
}

TEST_F(HostFollowerTest, TellsAHostThatJoinsAgainByAChange) {
  follower_.on_change(HostAt("a", 1), false);
  follower_.on_change(HostAt("a", 2), false);
  EXPECT_THAT(Told(), ElementsAre("+a", "-a", "+a"));
}

TEST_F(HostFollowerTest, TellsAValueThatIsNoHost) {
  EtcdPair pair = HostAt("a", 1);
  pair.value = "{";
  follower_.on_change(pair, false);
  EXPECT_THAT(Told(), ElementsAre("+a unreadable"));
}

}  // namespace
}  // namespace snf
