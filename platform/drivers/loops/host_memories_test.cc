// SPDX-License-Identifier: Apache-2.0
#include "platform/drivers/loops/host_memories.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/ring/shared_region.h"

namespace snf {
namespace {

using ::testing::HasSubstr;

constexpr HostStore::Options kForm = {.max_units = 8,
                                      .loops = 4,
                                      .slots = 16,
                                      .record_bytes = 72,
                                      .spread = true};
const off_t kBytes = static_cast<off_t>(HostStore::BytesFor(kForm));

class HostMemoriesTest : public ::testing::Test {
 protected:
  HostMemoriesTest() = default;
  ~HostMemoriesTest() override {
    for (const int fd : given_) close(fd);
  }

  // Lets the agent take one turn.
  void Turn() {
    std::vector<pollfd> waits;
    agent_.AddTo(waits);
    ASSERT_GT(poll(waits.data(), waits.size(), 10'000), 0);
    agent_.Serve(waits);
  }
  int Open(std::string daemon = "10.0.0.1") {
    return agent_.Open(std::move(daemon)).value();
  }
  absl::StatusOr<int> Ask(int session, const HostMemoryKey& key, uint32_t loop,
                          const HostStore::Options& form = kForm) {
    std::thread agent([this] { Turn(); });
    auto fd =
        HostMemories::Ask(session, {.key = key, .loop = loop, .form = form});
    agent.join();
    if (fd.ok()) given_.push_back(*fd);
    return fd;
  }
  void End(int session) {
    close(session);
    Turn();
  }
  static ino_t Identity(int fd) {
    struct stat facts = {};
    EXPECT_EQ(fstat(fd, &facts), 0);
    EXPECT_EQ(facts.st_size, kBytes);
    return facts.st_ino;
  }

  const HostMemoryKey key_ = HostMemoryKey::Draw();
  HostMemories agent_;
  std::vector<int> given_;
};

TEST_F(HostMemoriesTest, SessionsOfARunShareAMemory) {
  const auto first = Ask(Open(), key_, 0);
  const auto second = Ask(Open(), key_, 1);
  ASSERT_TRUE(first.ok()) << first.status();
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ(Identity(*first), Identity(*second));
  EXPECT_EQ(agent_.memories(), 1u);
  auto one = SharedRegion::Map(*first, 0);
  auto other = SharedRegion::Map(*second, 0);
  ASSERT_TRUE(one.ok() && other.ok());
  one->bytes()[5] = std::byte{7};
  EXPECT_EQ(other->bytes()[5], std::byte{7});
}

TEST_F(HostMemoriesTest, RunsAndDaemonsSeeNothingOfEachOther) {
  const auto first = Ask(Open(), key_, 0);
  const auto of_other_run = Ask(Open(), HostMemoryKey::Draw(), 0);
  const auto of_other_daemon = Ask(Open("10.0.0.2"), key_, 0);
  ASSERT_TRUE(first.ok() && of_other_run.ok() && of_other_daemon.ok());
  EXPECT_NE(Identity(*first), Identity(*of_other_run));
  EXPECT_NE(Identity(*first), Identity(*of_other_daemon));
  EXPECT_NE(Identity(*of_other_run), Identity(*of_other_daemon));
  EXPECT_EQ(agent_.memories(), 3u);
}

TEST_F(HostMemoriesTest, IsFreedWithTheLastSession) {
  const int first = Open();
  const int second = Open();
  const int without = Open();  // asks for nothing
  ASSERT_TRUE(Ask(first, key_, 0).ok());
  const auto before = Ask(second, key_, 1);
  ASSERT_TRUE(before.ok());
  End(first);
  EXPECT_EQ(agent_.memories(), 1u);
  End(second);
  EXPECT_EQ(agent_.memories(), 0u);
  EXPECT_EQ(agent_.sessions(), 1u);
  // The same key names another memory then.
  const auto after = Ask(without, key_, 0);
  ASSERT_TRUE(after.ok());
  EXPECT_NE(Identity(*before), Identity(*after));
}

TEST_F(HostMemoriesTest, ALoopHasOneSessionAtATime) {
  const int old = Open();
  ASSERT_TRUE(Ask(old, key_, 3).ok());
  ASSERT_TRUE(Ask(Open(), key_, 2).ok());
  const int refused = Open();
  const auto early = Ask(refused, key_, 3);
  EXPECT_THAT(std::string(early.status().message()),
              HasSubstr("loop 3 of the same run has not ended here yet"));
  EXPECT_TRUE(Ask(Open("10.0.0.2"), key_, 3).ok());
  // The end of the refused session leaves the loop to the old one.
  End(refused);
  EXPECT_FALSE(Ask(Open(), key_, 3).ok());
  End(old);
  EXPECT_TRUE(Ask(Open(), key_, 3).ok());
}

TEST_F(HostMemoriesTest, AFormThatDiffersIsRefusedByName) {
  ASSERT_TRUE(Ask(Open(), key_, 0).ok());
  const auto expect = [this](const HostStore::Options& form, const char* why) {
    const auto other = Ask(Open(), key_, 1, form);
    EXPECT_THAT(std::string(other.status().message()), HasSubstr(why));
  };
  HostStore::Options form = kForm;
  form.record_bytes = 80;  // as many bytes in all
  ASSERT_EQ(HostStore::BytesFor(form), HostStore::BytesFor(kForm));
  expect(form, "record bytes 80, where the same run has 72");
  form = kForm;
  form.slots = 17;
  expect(form, "slots 17, where the same run has 16");
  form = kForm;
  form.max_units = 7;
  expect(form, "units 7, where the same run has 8");
  form = kForm;
  form.loops = 5;
  expect(form, "loops 5, where the same run has 4");
  EXPECT_EQ(agent_.memories(), 1u);
  EXPECT_TRUE(Ask(Open(), key_, 1).ok());
}

TEST_F(HostMemoriesTest, ASessionThatAsksAgainIsForgotten) {
  const int session = Open();
  const HostMemories::Request request = {.key = key_, .loop = 0, .form = kForm};
  // The session reads no answer; the agent would wait for it at last.
  for (int i = 0; i < 2; ++i) {
    ASSERT_EQ(send(session, &request, sizeof(request), MSG_NOSIGNAL),
              static_cast<ssize_t>(sizeof(request)));
    Turn();
  }
  EXPECT_EQ(agent_.sessions(), 0u);
  EXPECT_EQ(agent_.memories(), 0u);
  close(session);
}

TEST(CheckHostForm, TakesWhatADaemonMakes) {
  HostStore::Options form = kForm;
  form.slots = HostStore::SlotsFor(~uint32_t{0}, form);
  EXPECT_TRUE(CheckHostForm(form, kForm).ok());
  EXPECT_TRUE(CheckHostForm({}, kForm).ok()) << "no memory";
}

TEST(CheckHostForm, NamesWhatCannotBe) {
  const auto expect = [](const HostStore::Options& form, const char* why) {
    const absl::Status status = CheckHostForm(form, kForm);
    EXPECT_THAT(std::string(status.message()), HasSubstr(why));
  };
  HostStore::Options form = kForm;
  form.loops = 3;
  expect(form, "loops 3, where the set-up has 4");
  form = kForm;
  form.max_units = 9;
  expect(form, "units 9, where the set-up has 8");
  form = kForm;
  form.spread = false;
  expect(form, "spread 0");
  form = kForm;
  form.record_bytes = 70;
  expect(form, "record bytes 70");
  form.record_bytes = 80;
  expect(form, "record bytes 80");
  form = kForm;
  form.slots = 64 << 20;
  expect(form, "bytes a loop");
}

TEST(CheckHostForm, CountsNoProductThatOverflows) {
  HostStore::Options most = kForm;
  most.max_units = 1 << 16;
  most.loops = 1;
  most.record_bytes = 1 << 26;
  HostStore::Options form = most;
  // Slots of 2^16 units take a multiple of 2^64 bytes, and some.
  form.record_bytes = (1 << 16) - 64;
  form.slots = ~uint32_t{0};
  EXPECT_THAT(std::string(CheckHostForm(form, most).message()),
              HasSubstr("slots 4294967295"));
}

TEST_F(HostMemoriesTest, ASessionThatTalksNonsenseIsForgotten) {
  const int session = Open();
  ASSERT_EQ(write(session, "x", 1), 1);
  Turn();
  EXPECT_EQ(agent_.sessions(), 0u);
  close(session);
}

TEST_F(HostMemoriesTest, AnAgentThatHasEndedIsNamed) {
  const int session = Open();
  agent_.CloseAll();
  const auto fd =
      HostMemories::Ask(session, {.key = key_, .loop = 0, .form = kForm});
  EXPECT_THAT(std::string(fd.status().message()), HasSubstr("agent"));
  close(session);
}

}  // namespace
}  // namespace snf
