// SPDX-License-Identifier: Apache-2.0
#include "resource_manager/etcd/etcd_client.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <mutex>

#include "resource_manager/etcd/test_etcd.h"
#include "runtime/ring/real_clock.h"

namespace snf {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Tests fail if an expected event takes longer.
constexpr auto kEtcdPatience = std::chrono::seconds(30);

#define SNF_NEEDS_ETCD()                                                \
  if (!TestEtcd::IsHere()) {                                            \
    GTEST_SKIP() << "needs etcd and etcdctl (packages etcd-server and " \
                    "etcd-client)";                                     \
  }

std::unique_ptr<EtcdClient> ClientOf(EtcdClient::Options options) {
  auto client = EtcdClient::Create(options);
  EXPECT_TRUE(client.ok()) << client.status();
  return *std::move(client);
}

std::unique_ptr<EtcdClient> ClientAt(std::vector<std::string> endpoints) {
  return ClientOf({.endpoints = std::move(endpoints), .patience = Seconds(20)});
}

int64_t ElapsedMs(Instant since) {
  return (RealClock::Monotonic() - since).ns / 1'000'000;
}

// Keeps what a watch tells, as the range now is.
class KeptRange final : public EtcdWatcher {
 public:
  void on_all(const EtcdRange& range) override {
    const std::lock_guard lock(mutex_);
    ++reads_;
    now_.clear();
    for (const EtcdPair& pair : range.pairs) now_[pair.key] = pair.value;
    changed_.notify_all();
  }
  void on_change(const EtcdPair& pair, bool is_deleted) override {
    const std::lock_guard lock(mutex_);
    ++changes_;
    if (is_deleted) {
      now_.erase(pair.key);
    } else {
      now_[pair.key] = pair.value;
    }
    changed_.notify_all();
  }

  using Map = std::map<std::string, std::string>;
  // Returns once the range is this one, or much later.
  bool WaitFor(const Map& wanted) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kEtcdPatience,
                             [&] { return reads_ > 0 && now_ == wanted; });
  }
  int reads() {
    const std::lock_guard lock(mutex_);
    return reads_;
  }
  int changes() {
    const std::lock_guard lock(mutex_);
    return changes_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int reads_ = 0;
  int changes_ = 0;
  Map now_;
};

TEST(EtcdEndpoints, AreRefusedByName) {
  EXPECT_THAT(*ReadEndpoints("a:1,10.0.0.1:2379,[::1]:65535"),
              ElementsAre("a:1", "10.0.0.1:2379", "[::1]:65535"));
  for (const char* const wrong :
       {"", "a", ":1", "a:", "a:0", "a:65536", "a:1,", "http://a:1", "::1:1",
        "a:x", "a b:1", "a:1,,b:2", "a:-1"}) {
    const auto read = ReadEndpoints(wrong);
    ASSERT_FALSE(read.ok()) << wrong;
    EXPECT_THAT(std::string(read.status().message()),
                HasSubstr("is no endpoint of etcd"));
  }
  std::string many = "a:1";
  for (int i = 0; i < 16; ++i) many += ",a:1";
  EXPECT_THAT(std::string(ReadEndpoints(many).status().message()),
              HasSubstr("17 endpoints"));
}

TEST(EtcdClient, RefusesOptionsThatAreAtOdds) {
  const auto why = [](const EtcdClient::Options& options) {
    return std::string(EtcdClient::Create(options).status().message());
  };
  EXPECT_THAT(why({}), HasSubstr("no endpoint"));
  EXPECT_THAT(why({.endpoints = {"a:1"}, .password = "x"}),
              HasSubstr("needs a user"));
  EXPECT_THAT(why({.endpoints = {"a:1"}, .ca_file = "c", .cert_file = "c"}),
              HasSubstr("needs its key"));
  EXPECT_THAT(why({.endpoints = {"a:1"}, .cert_file = "c", .key_file = "k"}),
              HasSubstr("needs the authority's"));
  EXPECT_THAT(why({.endpoints = {"a:1"}, .ca_file = "/nonesuch/ca.pem"}),
              HasSubstr("/nonesuch/ca.pem"));
}

TEST(EtcdClient, PutsGetsListsAndDeletes) {
  SNF_NEEDS_ETCD();
  const TestEtcd etcd;
  const auto client = ClientAt(etcd.endpoints());
  ASSERT_TRUE(client->Put("/a/1", "one").ok());
  ASSERT_TRUE(client->Put("/a/2", std::string("\0\xff", 2)).ok());
  ASSERT_TRUE(client->Put("/b", "other").ok());
  const auto got = client->Get("/a/2");
  ASSERT_TRUE(got.ok() && got->has_value()) << got.status();
  EXPECT_EQ((*got)->value, std::string("\0\xff", 2));
  EXPECT_GT((*got)->mod_revision, 0);
  EXPECT_EQ(*client->Get("/a"), std::nullopt);
  auto range = client->List("/a/");
  ASSERT_TRUE(range.ok()) << range.status();
  ASSERT_EQ(range->pairs.size(), 2);
  EXPECT_EQ(range->pairs[0].key, "/a/1");
  EXPECT_EQ(range->pairs[1].key, "/a/2");
  ASSERT_TRUE(client->Delete("/a/1").ok());
  ASSERT_TRUE(client->Delete("/a/1").ok());  // also if there is none
  EXPECT_EQ(client->List("/a/")->pairs.size(), 1);
}

TEST(EtcdClient, ListsMoreThanAPage) {
  SNF_NEEDS_ETCD();
  const TestEtcd etcd;
  const auto client = ClientAt(etcd.endpoints());
  constexpr int kKeys = 1'001;
  for (int i = 0; i < kKeys; i += 91) {
    std::vector<EtcdChange> changes;
    for (int j = i; j < std::min(i + 91, kKeys); ++j) {
      changes.push_back({fmt::format("/many/{:04}", j), std::to_string(j)});
    }
    ASSERT_TRUE(client->Transact({}, changes)->is_done);
  }
  const auto range = client->List("/many/");
  ASSERT_TRUE(range.ok()) << range.status();
  ASSERT_EQ(range->pairs.size(), kKeys);
  for (size_t i = 0; i < kKeys; ++i) {
    EXPECT_EQ(range->pairs[i].value, std::to_string(i));
  }
}

TEST(EtcdClient, SwapsIfTheRevisionIsTheExpectedOne) {
  SNF_NEEDS_ETCD();
  const TestEtcd etcd;
  const auto client = ClientAt(etcd.endpoints());
  const auto swap = [&](int64_t revision, const char* value) {
    const auto outcome =
        client->Transact({{"/key", revision}}, {{"/key", value}});
    EXPECT_TRUE(outcome.ok()) << outcome.status();
    return *outcome;
  };
  const EtcdOutcome first = swap(0, "first");
  EXPECT_TRUE(first.is_done);
  const EtcdOutcome late = swap(0, "late");
  EXPECT_FALSE(late.is_done);
  ASSERT_EQ(late.found.size(), 1);
  EXPECT_EQ(late.found[0].value, "first");
  EXPECT_EQ(late.found[0].mod_revision, first.revision);
  EXPECT_TRUE(swap(first.revision, "second").is_done);
  EXPECT_FALSE(swap(first.revision, "third").is_done);
  EXPECT_EQ((*client->Get("/key"))->value, "second");
  // All of the changes are made, or none.
  const auto both = client->Transact({{"/key", 1}, {"/none", 0}},
                                     {{"/x", "x"}, {"/key", std::nullopt}});
  EXPECT_FALSE(both->is_done);
  EXPECT_EQ(both->found.size(), 1);
  EXPECT_EQ(*client->Get("/x"), std::nullopt);
}

TEST(EtcdClient, LeasesEndWithTheirKeys) {
  SNF_NEEDS_ETCD();
  const TestEtcd etcd;
  const auto client = ClientAt(etcd.endpoints());
  const auto kept = client->Grant(Milliseconds(1'500));
  const auto left = client->Grant(Seconds(1));
  const auto revoked = client->Grant(Seconds(60));
  ASSERT_TRUE(kept.ok() && left.ok() && revoked.ok());
  EXPECT_GE(kept->granted, Seconds(2));
  ASSERT_TRUE(client->Put("/kept", "", kept->id).ok());
  ASSERT_TRUE(client->Put("/left", "", left->id).ok());
  ASSERT_TRUE(client->Put("/revoked", "", revoked->id).ok());
  ASSERT_TRUE(client->Revoke(revoked->id).ok());
  ASSERT_TRUE(client->Revoke(revoked->id).ok());
  EXPECT_EQ(*client->Get("/revoked"), std::nullopt);
  EXPECT_EQ((*client->Get("/kept"))->lease, kept->id);
  const Instant began = RealClock::Monotonic();
  while (client->Get("/left")->has_value() && ElapsedMs(began) < 20'000) {
    const auto renewed = client->KeepAlive(kept->id);
    ASSERT_TRUE(renewed.ok()) << renewed.status();
    EXPECT_EQ(*renewed, kept->granted);
  }
  EXPECT_EQ(*client->Get("/left"), std::nullopt);
  EXPECT_TRUE(client->Get("/kept")->has_value());
  EXPECT_TRUE(absl::IsNotFound(client->KeepAlive(left->id).status()));
  EXPECT_TRUE(absl::IsNotFound(client->Look(left->id).status()));
  const auto looked = client->Look(kept->id);
  ASSERT_TRUE(looked.ok()) << looked.status();
  EXPECT_EQ(looked->granted, kept->granted);
  EXPECT_LE(looked->left, kept->granted);
}

TEST(EtcdClient, LeavesAnEndpointThatIsDead) {
  SNF_NEEDS_ETCD();
  const TestEtcd etcd;
  const auto client =
      ClientAt({TestEtcd::FreeEndpoint(), etcd.endpoints().front()});
  ASSERT_TRUE(client->Put("/key", "value").ok());
  EXPECT_GE(client->counters().failed, 1);
  const uint64_t failed = client->counters().failed;
  ASSERT_TRUE(client->Put("/key", "value").ok());
  EXPECT_EQ(client->counters().failed, failed);  // stays where it was answered
}

TEST(EtcdClient, GivesUpByItsDeadline) {
  SNF_NEEDS_ETCD();
  const std::string dead = TestEtcd::FreeEndpoint();
  const auto client = ClientOf({.endpoints = {dead},
                                .attempt = Milliseconds(200),
                                .patience = Milliseconds(600)});
  const Instant began = RealClock::Monotonic();
  const absl::Status status = client->Put("/key", "value");
  EXPECT_LT(ElapsedMs(began), 10'000);
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(dead));
  EXPECT_EQ(client->counters().given_up, 1);
}

TEST(EtcdClient, LeavesAServerThatStandsStillByTheDeadline) {
  SNF_NEEDS_ETCD();
  TestEtcd etcd({.members = 3});
  ASSERT_TRUE(ClientAt({etcd.endpoints()[0]})->Put("/up", "").ok());
  const auto client = ClientOf({.endpoints = etcd.endpoints(),
                                .attempt = Milliseconds(500),
                                .patience = Seconds(30)});
  ASSERT_TRUE(client->Put("/key", "before").ok());
  KeptRange kept;
  const auto watch = client->Watch("/key", kept);
  ASSERT_TRUE(kept.WaitFor({{"/key", "before"}}));
  const uint64_t failed = client->counters().failed;
  const Instant began = RealClock::Monotonic();
  std::string value;
  // Usually the client is at the first; on a busy machine, it may have left it.
  // Any of the three may stop: the cluster then has a leader, if late.
  for (size_t stopped = 0; client->counters().failed == failed; ++stopped) {
    ASSERT_LT(stopped, etcd.endpoints().size());
    if (stopped > 0) etcd.Signal(stopped - 1, SIGCONT);
    etcd.Signal(stopped, SIGSTOP);
    value = fmt::format("without {}", stopped);
    ASSERT_TRUE(client->Put("/key", value).ok());
  }
  std::printf("[ stopped server  ] put after %ld ms\n", ElapsedMs(began));
  EXPECT_TRUE(kept.WaitFor({{"/key", value}}));
  std::printf("[ stopped server  ] watch after %ld ms\n", ElapsedMs(began));
  EXPECT_EQ(kept.reads(), 1);  // resumed by revision
}

TEST(EtcdClient, GoesOnWhenTheLeaderIsKilled) {
  SNF_NEEDS_ETCD();
  TestEtcd etcd({.members = 3});
  const auto client = ClientAt(etcd.endpoints());
  ASSERT_TRUE(client->Put("/n", "0").ok());
  KeptRange kept;
  const auto watch = client->Watch("/n", kept);
  etcd.Kill(etcd.Leader());
  const Instant began = RealClock::Monotonic();
  for (int i = 1; i <= 20; ++i) {
    ASSERT_TRUE(client->Put("/n", std::to_string(i)).ok());
    if (i == 1) {
      std::printf("[ killed leader   ] put after %ld ms\n", ElapsedMs(began));
    }
  }
  EXPECT_TRUE(kept.WaitFor({{"/n", "20"}}));
  EXPECT_EQ(kept.reads(), 1);
  EXPECT_EQ(kept.changes(), 20);  // none is lost, none told twice
}

TEST(EtcdWatch, ResumesByRevisionAfterARestart) {
  SNF_NEEDS_ETCD();
  TestEtcd etcd;
  const auto client = ClientAt(etcd.endpoints());
  ASSERT_TRUE(client->Put("/w/a", "1").ok());
  KeptRange kept;
  const auto watch = client->Watch("/w/", kept);
  ASSERT_TRUE(kept.WaitFor({{"/w/a", "1"}}));
  ASSERT_TRUE(client->Put("/w/b", "2").ok());
  ASSERT_TRUE(client->Put("/other", "2").ok());
  ASSERT_TRUE(kept.WaitFor({{"/w/a", "1"}, {"/w/b", "2"}}));
  etcd.Kill(0);
  etcd.Start(0);
  ASSERT_TRUE(client->Delete("/w/a").ok());
  ASSERT_TRUE(client->Put("/w/b", "3").ok());
  EXPECT_TRUE(kept.WaitFor({{"/w/b", "3"}}));
  EXPECT_EQ(kept.reads(), 1);
  EXPECT_EQ(kept.changes(), 3);
  EXPECT_GE(client->counters().resumed, 1);
  EXPECT_EQ(client->counters().compacted, 0);
}

TEST(EtcdWatch, ReadsAnewWhatHasBeenCompacted) {
  SNF_NEEDS_ETCD();
  TestEtcd etcd;
  const auto client = ClientOf({.endpoints = etcd.endpoints(),
                                .patience = Seconds(20),
                                .silence = Seconds(60)});
  const auto writer = ClientAt(etcd.endpoints());
  ASSERT_TRUE(client->Put("/c/a", "1").ok());
  KeptRange kept;
  // Holds the watch up in its callback, while changes come and are compacted.
  class Slow final : public EtcdWatcher {
   public:
    explicit Slow(EtcdWatcher& to) : to_(to) {}
    void on_all(const EtcdRange& range) override {
      to_.on_all(range);
      std::unique_lock lock(mutex_);
      went_on_.wait(lock, [this] { return goes_on_; });
    }
    void on_change(const EtcdPair& pair, bool is_deleted) override {
      to_.on_change(pair, is_deleted);
    }
    void GoOn() {
      const std::lock_guard lock(mutex_);
      goes_on_ = true;
      went_on_.notify_all();
    }

   private:
    EtcdWatcher& to_;
    std::mutex mutex_;
    std::condition_variable went_on_;
    bool goes_on_ = false;
  } slow(kept);
  const auto watch = client->Watch("/c/", slow);
  ASSERT_TRUE(kept.WaitFor({{"/c/a", "1"}}));
  ASSERT_TRUE(writer->Delete("/c/a").ok());
  for (int i = 0; i < 5; ++i) {
    ASSERT_TRUE(writer->Put("/c/b", std::to_string(i)).ok());
  }
  const int64_t revision = (*writer->Get("/c/b"))->mod_revision;
  EXPECT_THAT(etcd.Control(fmt::format("compaction {}", revision)),
              HasSubstr("compacted revision"));
  slow.GoOn();
  EXPECT_TRUE(kept.WaitFor({{"/c/b", "4"}}));
  EXPECT_EQ(kept.reads(), 2);
  EXPECT_EQ(kept.changes(), 0);
  EXPECT_EQ(client->counters().compacted, 1);
  ASSERT_TRUE(writer->Put("/c/b", "5").ok());
  EXPECT_TRUE(kept.WaitFor({{"/c/b", "5"}}));
}

TEST(EtcdWatch, ReadsAnewAStoreThatHasGoneBack) {
  SNF_NEEDS_ETCD();
  TestEtcd etcd;
  const auto client = ClientAt(etcd.endpoints());
  ASSERT_TRUE(client->Put("/r/a", "old").ok());
  const std::string saved = etcd.folder() + "/saved";
  etcd.Control("snapshot save " + saved);
  KeptRange kept;
  const auto watch = client->Watch("/r/", kept);
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(client->Put("/r/a", "new").ok());
  ASSERT_TRUE(kept.WaitFor({{"/r/a", "new"}}));
  etcd.Kill(0);
  etcd.Restore(saved);
  EXPECT_TRUE(kept.WaitFor({{"/r/a", "old"}}));
  EXPECT_EQ(client->counters().went_back, 1);
}

TEST(EtcdClient, AuthenticatesByUserAndPassword) {
  SNF_NEEDS_ETCD();
  const TestEtcd etcd;
  const auto open = ClientAt(etcd.endpoints());
  ASSERT_TRUE(open->Put("/key", "value").ok());
  etcd.Control("user add root:secret");
  etcd.Control("user grant-role root root");
  EXPECT_THAT(etcd.Control("auth enable"), HasSubstr("Enabled"));
  EXPECT_FALSE(open->Put("/key", "value").ok());
  const auto wrong = ClientOf({.endpoints = etcd.endpoints(),
                               .patience = Seconds(2),
                               .user = "root",
                               .password = "guess"});
  const absl::Status refused = wrong->Put("/key", "value");
  EXPECT_THAT(std::string(refused.message()), HasSubstr("authentication"));
  const auto client = ClientOf(
      {.endpoints = etcd.endpoints(), .user = "root", .password = "secret"});
  EXPECT_TRUE(client->Put("/key", "value").ok());
  KeptRange kept;
  const auto watch = client->Watch("/key", kept);
  EXPECT_TRUE(kept.WaitFor({{"/key", "value"}}));
  EXPECT_TRUE(client->Put("/key", "other").ok());
  EXPECT_TRUE(kept.WaitFor({{"/key", "other"}}));
  EXPECT_GE(client->counters().tokens, 1);
}

// An authority, and a certificate of it for loopback, by the openssl command.
bool MakeCertificates(const std::string& folder) {
  const std::string command = fmt::format(
      "cd {} && (openssl req -x509 -newkey ec -pkeyopt "
      "ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=authority "
      "-keyout ca.key -out ca.pem && "
      "openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes "
      "-subj /CN=peer -keyout peer.key -out peer.csr && "
      "printf 'subjectAltName=IP:127.0.0.1\\n' >ext && "
      "openssl x509 -req -in peer.csr -CA ca.pem -CAkey ca.key "
      "-CAcreateserial -days 2 -extfile ext -out peer.pem) >/dev/null 2>&1",
      folder);
  return std::system(command.c_str()) == 0;
}

TEST(EtcdClient, SpeaksTls) {
  SNF_NEEDS_ETCD();
  std::string folder = testing::TempDir() + "snf-etcd-tls-XXXXXX";
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  if (!MakeCertificates(folder)) GTEST_SKIP() << "needs the command openssl";
  {
    const TestEtcd etcd({.ca_file = folder + "/ca.pem",
                         .cert_file = folder + "/peer.pem",
                         .key_file = folder + "/peer.key"});
    const auto client = ClientOf({.endpoints = etcd.endpoints(),
                                  .patience = Seconds(20),
                                  .ca_file = folder + "/ca.pem",
                                  .cert_file = folder + "/peer.pem",
                                  .key_file = folder + "/peer.key"});
    EXPECT_TRUE(client->Put("/key", "value").ok());
    EXPECT_EQ((*client->Get("/key"))->value, "value");
    // Without a certificate, and without TLS.
    const auto nameless = ClientOf({.endpoints = etcd.endpoints(),
                                    .patience = Seconds(1),
                                    .ca_file = folder + "/ca.pem"});
    EXPECT_TRUE(absl::IsUnavailable(nameless->Put("/key", "value")));
    const auto plain =
        ClientOf({.endpoints = etcd.endpoints(), .patience = Seconds(1)});
    EXPECT_TRUE(absl::IsUnavailable(plain->Put("/key", "value")));
  }
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace snf
