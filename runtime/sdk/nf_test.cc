// SPDX-License-Identifier: Apache-2.0
#include "runtime/sdk/nf.h"

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/sdk/test_state.h"

namespace snf {
namespace {

using ::testing::ElementsAre;

// The example of nf.h, word for word.
class DropOdd final : public NetworkFunction {
  Verdict process_packet(Packet& packet, FlowState&) override {
    return packet.bytes().size() % 2 ? Verdict::drop(0) : Verdict::forward();
  }
  std::span<const std::string_view> drop_reasons() const override {
    static constexpr std::string_view kReasons[] = {"odd_length"};
    return kReasons;
  }
};
SNF_REGISTER_NF(DropOdd, "drop_odd", "drops frames of odd length");

class Sink final : public NetworkFunction {
  Verdict process_packet(Packet&, FlowState&) override {
    return Verdict::consume();
  }
};
SNF_REGISTER_NF(Sink, "sink", "keeps every packet");

class Alarm final : public NetworkFunction {
  Verdict process_packet(Packet&, FlowState& flow) override {
    flow.set_timer(Seconds(1));
    return Verdict::forward();
  }
};
SNF_REGISTER_NF(Alarm, "alarm", "sets a timer");

// The other example of nf.h.
class Count final : public NetworkFunction {
  Slot<uint64_t> packets_ = declare<uint64_t>("packets");
  Verdict process_packet(Packet&, FlowState& flow) override {
    flow.put(packets_, flow.get(packets_) + 1);
    return Verdict::forward();
  }
};
SNF_REGISTER_NF(Count, "count", "counts the packets of a flow");

class SameSlots final : public NetworkFunction {
  Slot<uint64_t> packets_ = declare<uint64_t>("packets");
  Verdict process_packet(Packet&, FlowState& flow) override {
    flow.put(packets_, 1);
    return Verdict::forward();
  }
};
SNF_REGISTER_NF(SameSlots, "same_slots", "has the slots of count");

// Declares a slot as its option says.
class Declares final : public NetworkFunction {
 public:
  explicit Declares(NfOptions& options) {
    const std::string what = options.Text("what", "", "TEXT", "");
    if (what == "slots") {
      for (int i = 0; i < 65; ++i) declare<char>("s" + std::to_string(i));
    } else if (what == "bytes") {
      declare_blob("half", 32 * 1024);
      declare_blob("other", 32 * 1024);
    } else if (what == "blob") {
      declare_blob("all", 0x1'0000'0000 - 4);
    } else if (what == "nothing") {
      declare_blob("none", 0);
    } else if (what == "name") {
      declare<uint64_t>("packets");
      declare_blob("packets", 4);
      declare_counter("odd", "the first of what is wrong is told");
      declare_counter("odd", "");
    } else if (what == "counter") {
      declare_counter("odd", "");
      declare_counter("odd", "");
    } else if (what == "pool") {
      declare_pool("ports", 1024, 65'536);
    } else if (what == "pools") {
      declare_pool("ports", 1, 2);
      declare_pool("ports", 1, 2);
    } else if (what == "tables") {
      Table("all", 1);
      Table("all", 1);
    } else if (what == "no entries") {
      Table("all", 0);
    } else if (what == "entries") {
      Table("all", TableShape::kMaxEntries + 1);
    } else if (what == "expires") {
      declare_shared<uint64_t, uint64_t>("all", 1, SumOfWords{},
                                         TableReader::kPacket, Nanos{0});
    } else if (what == "every") {
      Table("all", 1).every(Nanos{0}, [](uint64_t&, uint64_t) { return true; });
    } else if (what == "no name") {
      declare<char>("");
    } else if (what == "control") {
      declare_counter("a\nb", "");
    } else if (what == "help") {
      declare_counter("odd", "a\nb");
    } else if (what == "33 reasons") {
      AddNames(reasons_, 33);
    } else if (what == "33 labels") {
      AddNames(labels_, 33);
    } else if (what == "all names") {
      AddNames(reasons_, kMaxDropReasons);
      AddNames(labels_, kMaxLabels);
    } else if (what == "reasons") {
      reasons_ = {"full", "empty", "full"};
    } else if (what == "labels") {
      labels_ = {"red", ""};
    }
  }
  std::span<const std::string_view> drop_reasons() const override {
    return reasons_;
  }
  std::span<const std::string_view> labels() const override { return labels_; }

 private:
  SharedTable<uint64_t, uint64_t> Table(const char* name, uint32_t entries) {
    return declare_shared<uint64_t, uint64_t>(name, entries);
  }
  void AddNames(std::vector<std::string_view>& names, size_t count) {
    for (size_t i = 0; i < count; ++i) {
      names.push_back(texts_.emplace_back("n" + std::to_string(i)));
    }
  }

  std::deque<std::string> texts_;
  std::vector<std::string_view> reasons_;
  std::vector<std::string_view> labels_;
  Verdict process_packet(Packet&, FlowState&) override {
    return Verdict::forward();
  }
};
SNF_REGISTER_NF(Declares, "declares", "declares what its option says");

Verdict Process(NetworkFunction& nf, const PacketInfo& info,
                std::vector<std::byte> bytes,
                std::span<std::byte> record = {}) {
  TestFlow test(record);
  Packet packet(info, bytes);
  return nf.process_packet(packet, test.flow);
}

TEST(Registry, ListsNetworkFunctionsByName) {
  std::vector<std::string_view> names;
  for (const NfRegistration* nf : ListNfs()) names.push_back(nf->name);
  EXPECT_THAT(names, ElementsAre("alarm", "count", "declares", "drop_odd",
                                 "same_slots", "sink"));
}

TEST(Registry, FindsByTheWholeNameOnly) {
  ASSERT_NE(FindNf("sink"), nullptr);
  EXPECT_EQ(FindNf("sink")->summary, "keeps every packet");
  EXPECT_EQ(FindNf("sin"), nullptr);
  EXPECT_EQ(FindNf("Sink"), nullptr);
  EXPECT_EQ(FindNf(""), nullptr);
}

TEST(Registry, CreatesANewObjectEachTime) {
  const NfRegistration* drop_odd = FindNf("drop_odd");
  ASSERT_NE(drop_odd, nullptr);
  const std::unique_ptr<NetworkFunction> one = drop_odd->create();
  const std::unique_ptr<NetworkFunction> other = drop_odd->create();
  EXPECT_NE(one, other);
  EXPECT_THAT(one->drop_reasons(), ElementsAre("odd_length"));
  EXPECT_EQ(Process(*one, {}, std::vector<std::byte>(3)).kind(),
            Verdict::Kind::kDrop);
  EXPECT_EQ(Process(*one, {}, std::vector<std::byte>(4)).kind(),
            Verdict::Kind::kForward);
}

TEST(Registry, AbortsOnASecondFunctionOfOneName) {
  EXPECT_DEATH(NfRegistration("sink", "another", nullptr),
               "nf_test.cc:[0-9]+: check failed: there is an NF .sink. "
               "already, of .*nf_test.cc:[0-9]+");
}

TEST(NetworkFunction, HasNoDropReasonsAndIgnoresTimersByDefault) {
  const std::unique_ptr<NetworkFunction> sink = FindNf("sink")->create();
  EXPECT_TRUE(sink->drop_reasons().empty());
  TestFlow test({});
  sink->on_timer(test.flow);
  EXPECT_EQ(test.flow.timer(), Instant::max());
}

TEST(NetworkFunction, KeepsWhatItDeclared) {
  const std::unique_ptr<NetworkFunction> count = FindNf("count")->create();
  ASSERT_EQ(count->schema().record_bytes(), 16u);
  std::vector<std::byte> record(16);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(Process(*count, {}, {}, record).kind(), Verdict::Kind::kForward);
  }
  EXPECT_EQ(record[0], std::byte{1});
  EXPECT_EQ(record[8], std::byte{3});
  EXPECT_EQ(FindNf("sink")->create()->schema().record_bytes(), 0u);
}

TEST(NetworkFunction, HasASchemaOfItsOwnThoughAnotherHasTheSameSlots) {
  const uint64_t count = FindNf("count")->create()->schema().hash();
  EXPECT_EQ(FindNf("count")->create()->schema().hash(), count);
  EXPECT_NE(FindNf("same_slots")->create()->schema().hash(), count);
  EXPECT_NE(FindNf("sink")->create()->schema().hash(),
            FindNf("alarm")->create()->schema().hash());
}

NfOptions What(const std::string& what) {
  return NfOptions(std::map<std::string, std::string>{{"what", what}});
}

TEST(NetworkFunction, IsRefusedWhereItDeclaresWhatCannotBe) {
  const NfRegistration& nf = *FindNf("declares");
  EXPECT_TRUE(nf.check({}).ok());
  const auto wrong = [&nf](const std::string& what) {
    return std::string(nf.check(What(what)).message());
  };
  EXPECT_EQ(wrong("slots"),
            "it cannot have a slot \"s64\": more than 64 slots");
  EXPECT_EQ(wrong("bytes"),
            "it cannot have a slot \"other\": with its 32768 bytes there are "
            "more than 65536 of a flow");
  EXPECT_EQ(
      wrong("blob"),
      "it cannot have a slot \"all\": with its 4294967292 bytes there are "
      "more than 65536 of a flow");
  EXPECT_EQ(wrong("nothing"),
            "it cannot have a slot \"none\": it has no bytes");
  EXPECT_EQ(wrong("name"),
            "it cannot have a slot \"packets\": there is one of that name");
  EXPECT_EQ(wrong("counter"),
            "it cannot have a counter \"odd\": there is one of that name");
  EXPECT_EQ(wrong("pool"),
            "it cannot have a pool \"ports\": its pieces are not first <= last "
            "<= 65535");
  EXPECT_DEATH(nf.create(What("name")), "check failed");
}

TEST(NetworkFunction, IsRefusedForNamesTablesAndPoolsThatCannotBe) {
  const NfRegistration& nf = *FindNf("declares");
  const auto wrong = [&nf](const std::string& what) {
    const std::string why(nf.check(What(what)).message());
    const std::string_view begin = "it cannot have a ";
    EXPECT_TRUE(why.starts_with(begin)) << why;
    return why.substr(std::min(begin.size(), why.size()));
  };
  EXPECT_TRUE(nf.check(What("all names")).ok());
  EXPECT_EQ(wrong("pools"), "pool \"ports\": there is one of that name");
  EXPECT_EQ(wrong("tables"), "table \"all\": there is one of that name");
  EXPECT_EQ(wrong("no entries"), "table \"all\": it has no entries");
  EXPECT_EQ(wrong("entries"),
            "table \"all\": it has more than 67108864 entries");
  EXPECT_EQ(wrong("expires"),
            "table \"all\": its expires_after is not above 0");
  EXPECT_EQ(wrong("every"),
            "table \"all\": the period of its every() is not above 0");
  EXPECT_EQ(wrong("no name"), "slot \"\": it has no name");
  EXPECT_EQ(wrong("control"),
            "counter \"a\nb\": its name has a control character");
  EXPECT_EQ(wrong("help"), "counter \"odd\": its help has a control character");
  EXPECT_EQ(wrong("33 reasons"),
            "drop reason \"n32\": more than 32 drop reasons");
  EXPECT_EQ(wrong("33 labels"), "label \"n32\": more than 32 labels");
  EXPECT_EQ(wrong("reasons"),
            "drop reason \"full\": there is one of that name");
  EXPECT_EQ(wrong("labels"), "label \"\": it has no name");
}

TEST(NetworkFunction, CannotRunWhereItDeclaresWhatCannotBe) {
  NfOptions options = What("name");
  EXPECT_DEATH(Declares(options).schema(), "check failed");
}

TEST(Verdict, CarriesItsReason) {
  EXPECT_EQ(Verdict::forward().kind(), Verdict::Kind::kForward);
  EXPECT_EQ(Verdict::drop(31).kind(), Verdict::Kind::kDrop);
  EXPECT_EQ(Verdict::drop(31).reason(), 31);
  EXPECT_EQ(Verdict::consume().kind(), Verdict::Kind::kConsume);
}

TEST(Packet, ShowsWhatWasCapturedAndRewritesInPlace) {
  PacketInfo info;
  info.arrival = Instant{5};
  info.length = 2;
  info.original_length = 1'500;
  info.link = LinkType::kRawIp;
  info.headers.l4_offset = 20;
  std::vector<std::byte> bytes = {std::byte{1}, std::byte{2}};
  Packet packet(info, bytes);
  EXPECT_EQ(packet.arrival(), Instant{5});
  EXPECT_EQ(packet.original_length(), 1'500u);
  EXPECT_EQ(packet.link(), LinkType::kRawIp);
  EXPECT_EQ(packet.headers().l4_offset, 20);
  packet.bytes()[1] = std::byte{9};
  EXPECT_THAT(bytes, ElementsAre(std::byte{1}, std::byte{9}));
}

TEST(FlowState, CountsATimerFromNow) {
  NoServices services;
  StateView no_state({});
  FlowState flow(FlowId{3}, Instant{100}, Instant{150}, no_state, services);
  EXPECT_EQ(flow.id(), FlowId{3});
  EXPECT_EQ(flow.timer(), Instant{150});
  flow.set_timer(Nanos{20});
  EXPECT_EQ(flow.timer(), Instant{120});
  flow.cancel_timer();
  EXPECT_EQ(flow.timer(), Instant::max());
  flow.set_timer(Nanos::max());
  EXPECT_EQ(flow.timer(), Instant::max());
}

}  // namespace
}  // namespace snf
