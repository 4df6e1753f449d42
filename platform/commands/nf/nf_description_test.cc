// SPDX-License-Identifier: Apache-2.0
#include "platform/commands/nf/nf_description.h"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace snf {
namespace {

// Has one of everything.
class Everything final : public NetworkFunction {
 public:
  explicit Everything(NfOptions& options) {
    static constexpr std::string_view kModes[] = {
        "first_of_all", "second_to_none", "third_time_lucky", "fourth_estate"};
    options.Integer("limit", 3, 0, 9, "packets of a flow");
    options.Choice("mode", 1, kModes, "what becomes of others");
    // Without a file it could not run.
    if (options.Text("rules", "", "FILE", "what is forwarded").empty()) {
      options.Fail("rules", "a file");
    }
  }
  Verdict process_packet(Packet&, FlowState&) override {
    return Verdict::forward();
  }
  std::span<const std::string_view> drop_reasons() const override {
    static constexpr std::string_view kNames[] = {"denied", "over_limit"};
    return kNames;
  }
  std::span<const std::string_view> labels() const override {
    static constexpr std::string_view kNames[] = {"clean", "suspicious"};
    return kNames;
  }
  bool has_timer() const override { return true; }

 private:
  const Slot<uint32_t> packets_ = declare<uint32_t>("packets");
  const Blob past_ = declare_blob("past", 20);
  const PoolId ports_ = declare_pool("ports", 1, 65'000);
  const Counter seen_ = declare_counter("seen", "packets that were looked at");
  const SharedTable<uint32_t, uint64_t> hosts_ =
      declare_shared<uint32_t, uint64_t>("hosts", 4'096);
  const SharedTable<uint64_t, uint64_t> ended_ =
      declare_shared<uint64_t, uint64_t>("ended", 16, SumOfWords{},
                                         TableReader::kReport);
};
SNF_REGISTER_NF(Everything, "everything", "has one of everything");

class Nothing final : public NetworkFunction {
  Verdict process_packet(Packet&, FlowState&) override {
    return Verdict::forward();
  }
};
SNF_REGISTER_NF(Nothing, "nothing", "has nothing");

std::string HashOf(std::string_view nf) {
  return SchemaHashOf(*FindNf(nf)->example());
}

TEST(NfDescription, TellsAllThatAnNfSaysOfItself) {
  EXPECT_EQ(DescriptionOf(*FindNf("everything")),
            R"(everything: has one of everything

A flow is a connection, or what --flow_key says. It has a timer.

Options, as in --nf everything:limit=…,…:
  limit=WHOLE NUMBER, 0 to 9  [3]
      packets of a flow
  mode=VALUE  [second_to_none]
      what becomes of others: first_of_all, second_to_none, third_time_lucky,
      fourth_estate
  rules=FILE
      what is forwarded

Labels:
  clean, suspicious

Drop reasons:
  denied, over_limit

Counters:
  seen  packets that were looked at

State, 48 bytes of each flow (schema )" +
                HashOf("everything") + R"():
  packets  4 bytes
  past     up to 20 bytes

Pools:
  ports  65,000 pieces, 1 to 65000

Tables, shared by all units:
  hosts  at most 4,096 entries, keys of 4 bytes, values of 8 bytes
  ended  at most 16 entries, keys of 8 bytes, values of 8 bytes, for reports
)");
  EXPECT_EQ(DescriptionOf(*FindNf("nothing")), R"(nothing: has nothing

A flow is a connection, or what --flow_key says.

State: none kept of a flow (schema )" + HashOf("nothing") +
                                                   ")\n");
}

TEST(NfDescription, TellsTheSameAsJson) {
  const auto json =
      nlohmann::json::parse(JsonDescriptionOf(*FindNf("everything")));
  EXPECT_EQ(json["name"], "everything");
  EXPECT_EQ(json["flow_scope"], "connection");
  EXPECT_EQ(json["has_timer"], true);
  EXPECT_EQ(json["labels"], nlohmann::json::parse(R"(["clean","suspicious"])"));
  EXPECT_EQ(json["options"].size(), 3u);
  EXPECT_EQ(json["options"][0], nlohmann::json::parse(R"({
      "key": "limit", "values": "WHOLE NUMBER, 0 to 9", "default": "3",
      "help": "packets of a flow"})"));
  EXPECT_EQ(json["drop_reasons"],
            nlohmann::json::parse(R"(["denied", "over_limit"])"));
  EXPECT_EQ(json["counters"], nlohmann::json::parse(R"([{
      "name": "seen", "help": "packets that were looked at"}])"));
  EXPECT_EQ(json["state"]["schema_hash"], HashOf("everything"));
  EXPECT_EQ(json["state"]["record_bytes"], 48);
  EXPECT_EQ(json["state"]["slots"][1], nlohmann::json::parse(R"({
      "name": "past", "offset": 16, "bytes": 20, "is_blob": true})"));
  EXPECT_EQ(json["pools"], nlohmann::json::parse(
                               R"([{"name": "ports", "first": 1,
                                    "last": 65000}])"));
  EXPECT_EQ(json["tables"], nlohmann::json::parse(R"([{
      "name": "hosts", "key_bytes": 4, "value_bytes": 8,
      "max_entries": 4096, "for_reports": false}, {
      "name": "ended", "key_bytes": 8, "value_bytes": 8,
      "max_entries": 16, "for_reports": true}])"));
}

TEST(NfDescription, ListsNfsInTwoColumns) {
  static const NfRegistration wordy(
      "wordy",
      "has a summary that says so much that it does not fit into a line that "
      "is as short as this one",
      MakeNf<Nothing>);
  const std::vector<const NfRegistration*> nfs = {FindNf("everything"), &wordy};
  EXPECT_EQ(ListOf(nfs), R"(  everything  has one of everything
  wordy       has a summary that says so much that it does not fit into a line
              that is as short as this one
)");
  EXPECT_EQ(nlohmann::json::parse(JsonListOf(nfs))[0],
            nlohmann::json::parse(R"({"name": "everything",
                                      "summary": "has one of everything"})"));
}

}  // namespace
}  // namespace snf
