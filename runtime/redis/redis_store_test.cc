// SPDX-License-Identifier: Apache-2.0
#include "runtime/redis/redis_store.h"

#include <gtest/gtest.h>
#include <hiredis/hiredis.h>
#include <signal.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "runtime/redis/test_redis.h"
#include "runtime/ring/real_clock.h"

namespace snf {
namespace {

constexpr std::string_view kKey = "snf:test";

StoreOptions Options() {
  return {.timeout = Milliseconds(20), .patience = Milliseconds(200)};
}

State StateOf(uint64_t flow, uint64_t clock) {
  return {.flow = FlowId{flow},
          .applied = Clock{clock},
          .schema = 77,
          .bytes = 16,
          .pushed = true};
}

std::vector<std::byte> RecordOf(uint64_t flow, uint64_t clock) {
  std::vector<std::byte> record(16);
  record[0] = static_cast<std::byte>(flow);
  record[8] = static_cast<std::byte>(clock);
  return record;
}

Pull PullOf(uint64_t flow, uint64_t need, uint16_t unit = 1) {
  return {FlowId{flow}, Clock{need}, UnitId{unit}};
}

// A store, and what it has answered.
struct Client {
  explicit Client(const RedisServer& server,
                  const StoreOptions& options = Options())
      : store({.path = server.socket(), .host = ""}, std::string(kKey), options,
              is_gone) {}

  void Write(uint64_t flow, uint64_t clock) {
    store.Write(StateOf(flow, clock), RecordOf(flow, clock));
  }
  // Polls until that is so, for 10 s at most.
  bool PollUntil(const std::function<bool()>& is_so) {
    const Instant end = RealClock::Monotonic() + Seconds(10);
    while (!is_so() && RealClock::Monotonic() < end) {
      store.Poll([this](const StoreAnswer& answer) { Take(answer); });
      if (!is_so()) store.Wait(Milliseconds(1));
    }
    return is_so();
  }
  void Take(const StoreAnswer& answer) {
    if (!answer.is_there) {
      ++silences;
      return;
    }
    ++answers;
    last = answer.state;
    const std::vector<std::byte> record =
        RecordOf(value(answer.state.flow), value(answer.state.applied));
    EXPECT_TRUE(std::ranges::equal(answer.record, record));
    EXPECT_EQ(answer.state.schema, 77u);
    EXPECT_FALSE(answer.state.pushed);
  }
  bool PollUntilQuiet() {
    return PollUntil([this] { return !store.is_waiting(); });
  }

  std::atomic<bool> is_gone{false};
  RedisStore store;
  int answers = 0;
  int silences = 0;
  State last;
};

// What the server says to a command.
std::string Tell(const RedisServer& server,
                 std::initializer_list<std::string_view> words) {
  auto connection =
      ConnectToRedis({.path = server.socket(), .host = ""}, Seconds(5));
  EXPECT_TRUE(connection.ok()) << connection.status();
  auto reply = AskRedis(**connection, words);
  EXPECT_TRUE(reply.ok()) << reply.status();
  if (!reply.ok()) return "";
  return (*reply)->type == REDIS_REPLY_INTEGER
             ? std::to_string((*reply)->integer)
             : std::string((*reply)->str, (*reply)->len);
}

TEST(RedisStore, BringsWhatAnotherWroteOnceItsClockIsRight) {
  const auto server = StartTestRedis();
  SNF_SKIP_WITHOUT_REDIS(server);
  const IgnoreBrokenPipes ignore;
  Client writer(*server);
  Client reader(*server);
  EXPECT_TRUE(reader.store.Read(PullOf(5, 3)));
  EXPECT_FALSE(reader.store.Read(PullOf(5, 3)));
  // There is none; then there is an older one.
  const auto asked_again = [&](uint64_t times) {
    return
        [&reader, times] { return reader.store.figures().read_again >= times; };
  };
  EXPECT_TRUE(reader.PollUntil(asked_again(2)));
  writer.Write(5, 2);
  EXPECT_TRUE(writer.PollUntilQuiet());
  EXPECT_TRUE(
      reader.PollUntil(asked_again(reader.store.figures().read_again + 3)));
  EXPECT_EQ(reader.answers, 0);
  writer.Write(5, 3);
  EXPECT_TRUE(writer.PollUntilQuiet());
  EXPECT_TRUE(reader.PollUntilQuiet());
  EXPECT_EQ(reader.answers, 1);
  EXPECT_EQ(reader.last.applied, Clock{3});
  EXPECT_EQ(reader.silences, 0);
  EXPECT_EQ(reader.store.figures().reads, 1u);
  EXPECT_EQ(writer.store.figures().writes, 2u);
  EXPECT_EQ(writer.store.figures().round_trip_ns.count(), 2u);
  // Its hash has one field, until that is forgotten.
  EXPECT_EQ(Tell(*server, {"HLEN", kKey}), "1");
  writer.store.Write({.flow = FlowId{5}}, {});
  EXPECT_TRUE(writer.PollUntilQuiet());
  EXPECT_EQ(Tell(*server, {"HLEN", kKey}), "0");
  EXPECT_EQ(writer.store.figures().writes_lost, 0u);
}

TEST(RedisStore, HasManyRequestsUnderWay) {
  const auto server = StartTestRedis();
  SNF_SKIP_WITHOUT_REDIS(server);
  const IgnoreBrokenPipes ignore;
  constexpr int kFlows = 2'000;
  Client client(*server, {.timeout = Seconds(5), .patience = Seconds(10)});
  for (int flow = 1; flow <= kFlows; ++flow) {
    client.Write(static_cast<uint64_t>(flow), 4);
    EXPECT_TRUE(client.store.Read(PullOf(static_cast<uint64_t>(flow), 4)));
  }
  EXPECT_TRUE(client.PollUntilQuiet());
  EXPECT_EQ(client.answers, kFlows);
  EXPECT_EQ(client.store.figures().round_trip_ns.count(), 2u * kFlows);
}

TEST(RedisStore, OutlivesTheEndOfItsConnection) {
  const auto server = StartTestRedis();
  SNF_SKIP_WITHOUT_REDIS(server);
  const IgnoreBrokenPipes ignore;
  Client client(*server);
  client.Write(5, 1);
  EXPECT_TRUE(client.PollUntilQuiet());
  for (uint64_t round = 1; round <= 3; ++round) {
    Tell(*server, {"CLIENT", "KILL", "TYPE", "normal"});
    EXPECT_TRUE(client.store.Read(PullOf(5, 1)));
    EXPECT_TRUE(client.PollUntilQuiet());
    EXPECT_EQ(client.answers, static_cast<int>(round));
    EXPECT_EQ(client.store.figures().reconnects, round);
  }
  EXPECT_EQ(client.silences, 0);
  EXPECT_FALSE(client.is_gone);
}

TEST(RedisStore, TellsOfAServerThatIsSilentAndGoesOnWhenItIsNot) {
  const auto server = StartTestRedis();
  SNF_SKIP_WITHOUT_REDIS(server);
  const IgnoreBrokenPipes ignore;
  Client client(*server);
  client.Write(5, 1);
  EXPECT_TRUE(client.PollUntilQuiet());
  kill(server->process(), SIGSTOP);
  EXPECT_TRUE(client.store.Read(PullOf(5, 1)));
  EXPECT_TRUE(client.PollUntil([&] { return client.silences > 0; }));
  EXPECT_GE(client.store.figures().timeouts, 1u);
  EXPECT_EQ(client.answers, 0);
  EXPECT_FALSE(client.is_gone);
  kill(server->process(), SIGCONT);
  EXPECT_TRUE(client.PollUntilQuiet());
  EXPECT_EQ(client.answers, 1);
}

// Whoever polls may stand still itself, as where its process is stopped.
TEST(RedisStore, TakesAPauseOfItsOwnForNoSilence) {
  const auto server = StartTestRedis();
  SNF_SKIP_WITHOUT_REDIS(server);
  const IgnoreBrokenPipes ignore;
  Client client(*server,
                {.timeout = Milliseconds(5), .patience = Milliseconds(20)});
  client.Write(5, 1);
  EXPECT_TRUE(client.PollUntilQuiet());
  EXPECT_TRUE(client.store.Read(PullOf(5, 1)));
  client.store.Poll([&](const StoreAnswer& answer) { client.Take(answer); });
  const auto resumed =
      std::chrono::steady_clock::now() + std::chrono::milliseconds(300);
  while (std::chrono::steady_clock::now() < resumed) {
  }
  EXPECT_TRUE(client.PollUntilQuiet());
  EXPECT_EQ(client.answers, 1);
  EXPECT_EQ(client.silences, 0);
  EXPECT_EQ(client.store.figures().reconnects, 0u);
  EXPECT_FALSE(client.is_gone);
}

TEST(RedisStore, SaysThatADeadServerIsGone) {
  const auto server = StartTestRedis();
  SNF_SKIP_WITHOUT_REDIS(server);
  const IgnoreBrokenPipes ignore;
  Client client(*server);
  client.Write(5, 1);
  EXPECT_TRUE(client.PollUntilQuiet());
  kill(server->process(), SIGKILL);
  const auto is_gone = [&] { return client.is_gone.load(); };
  client.store.Read(PullOf(5, 1));
  client.Write(6, 1);
  EXPECT_TRUE(client.PollUntil(is_gone));
  EXPECT_GE(client.silences, 1);
  EXPECT_EQ(client.answers, 0);
  EXPECT_GE(client.store.figures().writes_lost, 1u);
}

TEST(RedisStore, TakesNoValueThatCannotBe) {
  const auto server = StartTestRedis();
  SNF_SKIP_WITHOUT_REDIS(server);
  const IgnoreBrokenPipes ignore;
  Client client(*server);
  const uint64_t flow = 5;
  const std::string field(reinterpret_cast<const char*>(&flow), sizeof flow);
  Tell(*server, {"HSET", kKey, field, "nonsense"});
  EXPECT_TRUE(client.store.Read(PullOf(flow, 1)));
  EXPECT_TRUE(
      client.PollUntil([&] { return client.store.figures().refused >= 3; }));
  EXPECT_EQ(client.answers, 0);
  client.Write(flow, 1);
  EXPECT_TRUE(client.PollUntilQuiet());
  EXPECT_EQ(client.answers, 1);
  // Something else has the name: every command is an error.
  Tell(*server, {"DEL", kKey});
  Tell(*server, {"SET", kKey, "other"});
  client.Write(flow, 2);
  EXPECT_TRUE(client.store.Read(PullOf(flow, 2)));
  EXPECT_TRUE(client.PollUntil([&] { return client.silences > 0; }));
  EXPECT_EQ(client.answers, 1);
  EXPECT_EQ(client.store.figures().writes_lost, 1u);
}

}  // namespace
}  // namespace snf
