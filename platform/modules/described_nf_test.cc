// SPDX-License-Identifier: Apache-2.0
#include "platform/modules/described_nf.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "platform/modules/module_stand_ins.h"
#include "runtime/sdk/nf.h"
#include "runtime/sdk/nf_registry.h"
#include "runtime/sdk/nf_spec.h"

namespace snf {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr const char* kNat = "nat(ip=192.0.2.1,log_bindings=true)";

class OwnKey final : public NetworkFunction {
  FlowScope flow_scope() const override { return FlowScope::kOwnKey; }
  Verdict process_packet(Packet&, FlowState&) override {
    return Verdict::forward();
  }
};
SNF_REGISTER_NF(OwnKey, "own_key", "has a flow key of its own");

class OwnMerge final : public NetworkFunction {
  SharedTable<uint64_t, uint64_t> peaks_ = declare_shared<uint64_t, uint64_t>(
      "peaks", 8, [](uint64_t& value, const uint64_t& more) {
        value = std::max(value, more);
      });
  Verdict process_packet(Packet&, FlowState&) override {
    peaks_.update(1, 1);
    return Verdict::forward();
  }
};
SNF_REGISTER_NF(OwnMerge, "own_merge", "merges by code of its own");

template <typename Word>
class OneSlot final : public NetworkFunction {
  Slot<Word> word_ = declare<Word>("word");
  Verdict process_packet(Packet&, FlowState& flow) override {
    flow.put(word_, flow.get(word_));
    return Verdict::forward();
  }
};
using OneWord = OneSlot<uint64_t>;
SNF_REGISTER_NF(OneWord, "one_word", "keeps a word");

// Returns the description of the first NF of a chain.
proto::NfDescription DescriptionOf(const std::string& text) {
  const NfSpec spec = *NfSpec::Parse(text);
  const NfSpec::GivenNf given = spec.nfs().front();
  return Describe(*given.nf, NfOptions(given.options));
}

TEST(DescribedNf, DeclaresWhatEachNfDeclares) {
  int described = 0;
  for (const NfRegistration* nf : ListNfs()) {
    SCOPED_TRACE(std::string(nf->name));
    const HeldDescription held(Describe(*nf, {}));
    ASSERT_TRUE(CheckDescription(held.description).ok())
        << CheckDescription(held.description);
    const std::unique_ptr<NetworkFunction> own = nf->example();
    const DescribedNf stand_in(held);
    ASSERT_TRUE(stand_in.declared().ok()) << stand_in.declared();
    EXPECT_EQ(stand_in.schema().record_bytes(), own->schema().record_bytes());
    EXPECT_EQ(stand_in.schema().slots(), own->schema().slots());
    for (uint32_t i = 0; i < own->schema().slots(); ++i) {
      EXPECT_EQ(stand_in.schema().type(i), own->schema().type(i));
    }
    EXPECT_EQ(stand_in.flow_scope(), own->flow_scope());
    EXPECT_EQ(stand_in.is_barrier(), own->is_barrier());
    EXPECT_EQ(stand_in.needs_first_fragment(), own->needs_first_fragment());
    EXPECT_EQ(stand_in.takes_merged(), own->takes_merged());
    EXPECT_EQ(stand_in.has_timer(), own->has_timer());
    EXPECT_TRUE(
        std::ranges::equal(stand_in.drop_reasons(), own->drop_reasons()));
    EXPECT_TRUE(std::ranges::equal(stand_in.labels(), own->labels()));
    ASSERT_EQ(stand_in.counters().size(), own->counters().size());
    ASSERT_EQ(stand_in.logs().size(), own->logs().size());
    ASSERT_EQ(stand_in.pools().size(), own->pools().size());
    for (size_t i = 0; i < own->pools().size(); ++i) {
      EXPECT_EQ(stand_in.pools()[i].first, own->pools()[i].first);
      EXPECT_EQ(stand_in.pools()[i].last, own->pools()[i].last);
      EXPECT_EQ(stand_in.pools()[i].address, own->pools()[i].address);
    }
    ASSERT_EQ(stand_in.tables().size(), own->tables().size());
    for (size_t i = 0; i < own->tables().size(); ++i) {
      const TableShape& shape = stand_in.tables()[i]->shape();
      EXPECT_EQ(shape.name, own->tables()[i]->shape().name);
      EXPECT_EQ(shape.max_entries, own->tables()[i]->shape().max_entries);
      EXPECT_EQ(shape.for_reports, own->tables()[i]->shape().for_reports);
      EXPECT_EQ(shape.expires_after, own->tables()[i]->shape().expires_after);
    }
    ++described;
  }
  EXPECT_GE(described, 10);
}

TEST(DescribedNf, HasThePoolsAndLogsOfItsOptions) {
  const HeldDescription held(DescriptionOf(kNat));
  EXPECT_THAT(held.description.error(), IsEmpty());
  const DescribedNf nat(held);
  ASSERT_FALSE(nat.pools().empty());
  EXPECT_EQ(nat.pools()[0].address, be32(0xc0000201));
  ASSERT_EQ(nat.logs().size(), 1u);
  EXPECT_EQ(nat.logs()[0].name, "bindings");
}

TEST(DescribedNf, ErrorsOfOptionsAreThoseOfTheNf) {
  EXPECT_THAT(DescriptionOf("nat(ip=192.0.2.300)").error(),
              HasSubstr("ip=192.0.2.300"));
  EXPECT_THAT(DescriptionOf("policer(rat=1Mbps)").error(), HasSubstr("rat"));
}

TEST(DescribedNf, WhatControllersWouldRunIsRefused) {
  EXPECT_THAT(Describe(*FindNf("own_key"), {}).error(),
              HasSubstr("it has a flow key of its own"));
  EXPECT_THAT(
      Describe(*FindNf("own_merge"), {}).error(),
      HasSubstr("table \"peaks\" has a merge, timer or trigger of its own"));
  EXPECT_EQ(Describe(*FindNf("one_word"), {}).error(), "");
}

TEST(DescribedNf, DescriptionsOutOfBoundsAreRefused) {
  const auto refusal = [](auto change) {
    proto::NfDescription description = DescriptionOf(kNat);
    change(description);
    return std::string(CheckDescription(description).message());
  };
  EXPECT_EQ(refusal([](auto&) {}), "");
  EXPECT_THAT(refusal([](auto& d) { d.set_name(""); }), HasSubstr("name"));
  EXPECT_THAT(refusal([](auto& d) { d.set_name("a\x1b[2J"); }),
              HasSubstr("control character"));
  EXPECT_THAT(refusal([](auto& d) { d.set_flow_scope(7); }),
              HasSubstr("flow_scope: 7"));
  EXPECT_THAT(refusal([](auto& d) {
                for (int i = 0; i < 33; ++i) {
                  d.mutable_object()->add_drop_reason("r");
                }
              }),
              HasSubstr("drop_reason"));
  EXPECT_THAT(refusal([](auto& d) {
                auto& table = *d.mutable_object()->add_table();
                table.set_name("t");
                table.set_key_bytes(65);
                table.set_value_bytes(8);
                table.set_max_entries(1);
              }),
              HasSubstr("keys of 65 bytes"));
  EXPECT_THAT(
      refusal([](auto& d) {
        d.mutable_object()->add_counter()->set_name(std::string(20'000, 'x'));
      }),
      HasSubstr("20000 bytes of text"));
}

TEST(DescribedNf, SlotsThatDoNotFitAreRefusedAsThoseOfAnNf) {
  proto::NfDescription description = DescriptionOf(kNat);
  auto& slot = *description.mutable_object()->add_slot();
  slot.set_name("huge");
  slot.set_bytes(70'000);
  const HeldDescription held(description);
  EXPECT_FALSE(DescribedNf(held).declared().ok());
}

// A module's process may write any bytes as its answer.
TEST(DescribedNf, DescriptionsOfAnyBytes) {
  std::random_device device;
  const uint64_t seed = device();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  const std::string good = DescriptionOf(kNat).SerializeAsString();
  int made = 0;
  int refused = 0;
  for (int i = 0; i < 5'000; ++i) {
    std::string bytes = good;
    for (uint64_t n = random() % 4 + 1; n > 0; --n) {
      bytes[random() % bytes.size()] = static_cast<char>(random());
    }
    proto::NfDescription description;
    if (!description.ParseFromString(bytes) ||
        !CheckDescription(description).ok()) {
      ++refused;
      continue;
    }
    const HeldDescription held(description);
    const DescribedNf nf(held);
    made += nf.declared().ok() ? 1 : 0;
  }
  EXPECT_GT(made, 100);
  EXPECT_GT(refused, 100);
}

TEST(LaunchedNf, IsTheSameChainInAnotherProcess) {
  const NfSpec chain = *NfSpec::Parse("firewall(rules=\"\") | monitor");
  const auto read = ReadLaunchedNf(LaunchedNfOf(chain).SerializeAsString());
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->nf.text(), chain.text());
  EXPECT_FALSE(read->launched.is_confined());
  EXPECT_FALSE(ReadLaunchedNf("\xff\xff nonsense").ok());
}

// A module may describe itself otherwise in the process of a unit.
TEST(LaunchedNf, IsRefusedIfItDiffersFromItsDescription) {
  proto::LaunchedNf launched;
  launched.set_text("one_word");
  launched.set_is_confined(true);
  *launched.add_nf() = Describe(*FindNf("one_word"), {});
  const auto load = [&](NfRegistration::Factory factory) {
    const auto read = MakeKnown(launched);
    EXPECT_TRUE(read.ok()) << read.status();
    CaughtNfs caught;  // as if a module were loaded then
    static std::vector<std::unique_ptr<NfRegistration>> made;
    made.push_back(std::make_unique<NfRegistration>("one_word", "is loaded",
                                                    std::move(factory)));
    caught.Add();
    return read->Load().status();
  };
  EXPECT_TRUE(load(MakeNf<OneWord>).ok());
  const absl::Status differs = load(MakeNf<OneSlot<uint32_t>>);
  EXPECT_EQ(differs.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(differs.message()),
              HasSubstr("differs from what its modules have described"));
}

}  // namespace
}  // namespace snf
