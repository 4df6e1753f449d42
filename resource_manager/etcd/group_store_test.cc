// SPDX-License-Identifier: Apache-2.0
#include "resource_manager/etcd/group_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>

#include "resource_manager/etcd/test_etcd_fixture.h"

namespace snf {
namespace {

using testing::HasSubstr;

class GroupStoreTest : public EtcdTest {
 protected:
  void Begin() override {
    client_ = NewClient();
    store_.emplace(*GroupStore::Of(*client_, "test", "edge"));
  }

  std::unique_ptr<EtcdClient> client_;
  std::optional<GroupStore> store_;
};

TEST_F(GroupStoreTest, ATableIsReadAsItWasPut) {
  auto look = store_->Look();
  ASSERT_TRUE(look.ok()) << look.status();
  EXPECT_FALSE(look->table.has_value());
  EXPECT_EQ(look->revision, 0);
  const GatewayTable table = {.epoch = 7,
                              .key = ~uint64_t{0},
                              .shape = {.controllers = 3,
                                        .program = "nat",
                                        .version = "1",
                                        .silence = Seconds(2)},
                              .members = {{.number = 0,
                                           .name = "a",
                                           .address = "10.0.0.1:6083",
                                           .incarnation = uint64_t{1} << 63,
                                           .states = "10.0.0.1:7"}},
                              .history = ~uint64_t{0} - 1,
                              .mark = ~uint64_t{0} - 2};
  ASSERT_TRUE(*store_->Swap({.table = table}));
  const GatewayBeat beat = {
      .incarnation = 9, .epoch = 6, .mark = 5, .is_active = true};
  ASSERT_TRUE(store_->Beat(2, beat).ok());
  look = store_->Look();
  ASSERT_TRUE(look.ok()) << look.status();
  EXPECT_EQ(look->table, table);
  EXPECT_EQ(look->beats.at(2).beat.incarnation, 9u);
  EXPECT_EQ(look->beats.at(2).beat.epoch, 6u);
  EXPECT_EQ(look->beats.at(2).beat.mark, 5u);
  EXPECT_TRUE(look->beats.at(2).beat.is_active);
  EXPECT_GT(look->beats.at(2).revision, look->revision);
}

TEST_F(GroupStoreTest, AChangeHasTheTableAndBeatsAsConditions) {
  const GatewayTable table = {.epoch = 1, .shape = {.controllers = 2}};
  ASSERT_TRUE(*store_->Swap({.table = table}));
  EXPECT_FALSE(*store_->Swap({.table = table}));  // there is one
  ASSERT_TRUE(store_->Beat(1, {.incarnation = 9}).ok());
  const auto before = store_->Look();
  // The member gives another sign of life.
  ASSERT_TRUE(store_->Beat(1, {.incarnation = 9}).ok());
  GatewayGroup::Swap swap = {.table = table,
                             .revision = before->revision,
                             .beats = {{1, before->beats.at(1).revision}}};
  EXPECT_FALSE(*store_->Swap(swap));
  swap.beats[1] = store_->Look()->beats.at(1).revision;
  EXPECT_TRUE(*store_->Swap(swap));
  EXPECT_FALSE(*store_->Swap(swap));
}

TEST_F(GroupStoreTest, ValuesOfOtherProgramsAreRefusedByTheirKeys) {
  const auto why = [this] {
    return std::string(store_->Look().status().message());
  };
  const std::string key = "/snf/test/groups/edge/table";
  ASSERT_TRUE(client_->Put(key, "7").ok());
  EXPECT_THAT(why(), HasSubstr("key " + key + ": \"7\" is of another program"));
  for (const char* table :
       {"{}", R"({"controllers": 17})",
        R"({"controllers": 2, "epoch": "9223372036854775808"})",
        R"({"controllers": 2, "takeover_ns": "9223372036854775807"})",
        R"({"controllers": 2, "member": [{"number": 1}]})",
        R"({"controllers": 2, "member": [{"number": 2, "incarnation": 1}]})",
        R"({"controllers": 2, "member": [{"number": 1, "incarnation": 1},
                                         {"number": 1, "incarnation": 2}]})"}) {
    ASSERT_TRUE(client_->Put(key, table).ok());
    EXPECT_THAT(why(), HasSubstr("its values cannot be")) << table;
  }
  EXPECT_THAT(
      std::string(GroupStore::Of(*client_, "test", "a/b").status().message()),
      HasSubstr("\"a/b\" is no name of a group"));
}

TEST_F(GroupStoreTest, AStrangeBeatIsNobodysAndHidesNone) {
  const std::string beats = "/snf/test/groups/edge/beats/";
  ASSERT_TRUE(store_->Beat(1, {.incarnation = 9}).ok());
  for (const char* of_none : {"01", "1x", "16", "99", "4294967297", "", "x"}) {
    ASSERT_TRUE(client_->Put(beats + of_none, "?").ok());
  }
  auto look = store_->Look();
  ASSERT_TRUE(look.ok()) << look.status();
  EXPECT_EQ(look->beats.size(), 1u);
  EXPECT_EQ(look->beats.at(1).beat.incarnation, 9u);
  EXPECT_EQ(store_->unread(), "");
  ASSERT_TRUE(client_->Put(beats + "1", "?").ok());
  look = store_->Look();
  ASSERT_TRUE(look.ok()) << look.status();
  EXPECT_THAT(store_->unread(), HasSubstr("beats/1: \"?\" is of another"));
  // Its member can still be taken out.
  const GatewayTable table = {.epoch = 1, .shape = {.controllers = 2}};
  EXPECT_EQ(look->beats.at(1).beat.incarnation, 0u);
  EXPECT_TRUE(*store_->Swap(
      {.table = table, .beats = {{1, look->beats.at(1).revision}}}));
}

}  // namespace
}  // namespace snf
