// SPDX-License-Identifier: Apache-2.0
#include "resource_manager/live/etcd_notes.h"

#include <unistd.h>

#include <memory>
#include <optional>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "resource_manager/etcd/test_etcd_fixture.h"

namespace snf {
namespace {

using EtcdNotesTest = EtcdTest;

TEST_F(EtcdNotesTest, AreRefusedOnceAnotherManagerLeads) {
  const auto client = NewClient();
  const auto leads = [](const Leadership& leadership) {
    return WaitFor([&] { return leadership.is_leader(); });
  };
  const std::string file = etcd_->folder() + "/notes";
  const MemberFile first = {.epoch = 1, .units = 2, .unit_capacity_bps = 9};
  MemberFile second = first;
  second.epoch = 2;
  const auto is_refused = [](const absl::Status& status) {
    return absl::IsFailedPrecondition(status);
  };

  const Leadership old(*client,
                       {.key = "/leader", .value = "old", .term = Seconds(60)});
  EtcdNotes of_old(*client, old, "/notes", file);
  ASSERT_TRUE(leads(old));
  EXPECT_EQ(*of_old.Read(), std::nullopt);
  ASSERT_TRUE(of_old.Write(first).ok());
  EXPECT_EQ(*MemberFile::Read(file), first);

  // As when its lease has ended at etcd, and the old leader has yet to notice.
  ASSERT_TRUE(client->Delete("/leader").ok());
  const Leadership next(
      *client, {.key = "/leader", .value = "next", .term = Seconds(60)});
  EtcdNotes of_next(*client, next, "/notes", file);
  ASSERT_TRUE(leads(next));
  ASSERT_TRUE(old.is_leader());
  EXPECT_TRUE(is_refused(of_old.Write(second)));
  EXPECT_TRUE(is_refused(of_next.Write(second)));  // it has not read them yet
  EXPECT_EQ(*of_next.Read(), first);
  EXPECT_TRUE(of_next.Write(second).ok());
  EXPECT_TRUE(is_refused(of_old.Write(first)));
  EXPECT_EQ(*of_next.Read(), second);
  of_next.Remove();
  EXPECT_NE(access(file.c_str(), F_OK), 0);
  EXPECT_EQ(*of_next.Read(), second);

  ASSERT_TRUE(client->Put("/notes", "epoch one").ok());
  EXPECT_TRUE(absl::IsDataLoss(of_next.Read().status()));
}

}  // namespace
}  // namespace snf
