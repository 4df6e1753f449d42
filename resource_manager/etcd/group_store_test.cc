// SPDX-License-Identifier: Apache-2.0
#include "resource_manager/etcd/group_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>

#include "resource_manager/etcd/test_etcd.h"

namespace snf {
namespace {

using testing::HasSubstr;

class GroupStoreTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!TestEtcd::IsHere()) {
      GTEST_SKIP() << "needs etcd and etcdctl (packages etcd-server and "
                      "etcd-client)";
    }
    etcd_.emplace();
    client_ = *EtcdClient::Create(
        {.endpoints = etcd_->endpoints(), .patience = Seconds(20)});
    store_.emplace(*GroupStore::Of(*client_, "test", "edge"));
  }

  std::optional<TestEtcd> etcd_;
  std::unique_ptr<EtcdClient> client_;
  std::optional<GroupStore> store_;
};

TEST_F(GroupStoreTest, ATableIsReadAsItWasPut) {
  auto look = store_->Look();
  ASSERT_TRUE(look.ok()) << look.status();
  EXPECT_FALSE(look->table.has_value());
  EXPECT_EQ(look->revision, 0);
  const GatewayTable table = {
      .epoch = 7,
      .key = ~uint64_t{0},
      .shape = {.controllers = 3, .program = "nat", .version = "1"},
      .members = {{.number = 0,
                   .name = "a",
                   .address = "10.0.0.1:6083",
                   .incarnation = uint64_t{1} << 63}}};
  ASSERT_TRUE(*store_->Swap({.table = table}));
  ASSERT_TRUE(store_->Beat(2, {.incarnation = 9, .epoch = 6}).ok());
  look = store_->Look();
  ASSERT_TRUE(look.ok()) << look.status();
  EXPECT_EQ(look->table, table);
  EXPECT_EQ(look->beats.at(2).beat.incarnation, 9u);
  EXPECT_EQ(look->beats.at(2).beat.epoch, 6u);
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
        R"({"controllers": 2, "member": [{"number": 2}]})",
        R"({"controllers": 2, "member": [{"number": 1}, {"number": 1}]})"}) {
    ASSERT_TRUE(client_->Put(key, table).ok());
    EXPECT_THAT(why(), HasSubstr("its members cannot be")) << table;
  }
  ASSERT_TRUE(client_->Delete(key).ok());
  ASSERT_TRUE(client_->Put("/snf/test/groups/edge/beats/1", "?").ok());
  EXPECT_THAT(why(), HasSubstr("beats/1"));
  EXPECT_THAT(
      std::string(GroupStore::Of(*client_, "test", "a/b").status().message()),
      HasSubstr("\"a/b\" is no name of a group"));
}

}  // namespace
}  // namespace snf
