// SPDX-License-Identifier: Apache-2.0
#include "runtime/sdk/nf_spec.h"

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace snf {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class Text final : public NetworkFunction {
 public:
  explicit Text(NfOptions& options)
      : text(options.Text("text", "", "TEXT", "anything")),
        file(options.Load<std::string>("file", "anything", Load)) {
    options.Integer("small", 0, 0, 9, "below ten");
  }
  static absl::StatusOr<std::string> Load(const std::string& name) {
    ++loaded;
    return "in " + name;
  }
  Verdict process_packet(Packet&, FlowState&) override {
    return Verdict::forward();
  }
  std::span<const std::string_view> labels() const override {
    static constexpr std::string_view kLabels[] = {"good", "bad", "ugly-1"};
    return kLabels;
  }
  inline static int loaded = 0;
  std::string text;
  std::shared_ptr<const std::string> file;
};
SNF_REGISTER_NF(Text, "text", "has labels and options");

class Big final : public NetworkFunction {
 public:
  explicit Big(NfOptions& options) {
    const int64_t slots = options.Integer("slots", 1, 0, 64, "that it has");
    for (int64_t i = 0; i < slots; ++i) declare<uint8_t>(std::to_string(i));
    const int64_t bytes = options.Bytes("blob", 1, 1, 65'000, "of its blob");
    if (bytes > 1) declare_blob("blob", static_cast<uint32_t>(bytes));
    const int64_t reasons = options.Integer("reasons", 0, 0, 32, "it has");
    for (int64_t i = 0; i < reasons; ++i) names_.push_back(std::to_string(i));
    reasons_.assign(names_.begin(), names_.end());
  }
  Verdict process_packet(Packet&, FlowState&) override {
    return Verdict::forward();
  }
  std::span<const std::string_view> drop_reasons() const override {
    return reasons_;
  }

 private:
  std::vector<std::string> names_;
  std::vector<std::string_view> reasons_;
};
SNF_REGISTER_NF(Big, "big", "has much of everything");

class Sided final : public NetworkFunction {
  FlowScope flow_scope() const override { return FlowScope::kInsideEndpoint; }
  Verdict process_packet(Packet&, FlowState&) override {
    return Verdict::forward();
  }
};
SNF_REGISTER_NF(Sided, "sided", "has two sides");

class Keyed final : public NetworkFunction {
  FlowScope flow_scope() const override { return FlowScope::kOwnKey; }
  OwnFlow flow_key(const KeyedPacket& packet) const override {
    OwnFlow flow = {.key = packet.connection, .side = Side::kOutside};
    flow.key.vlan = be16(7);
    return flow;
  }
  Verdict process_packet(Packet&, FlowState&) override {
    return Verdict::forward();
  }
};
SNF_REGISTER_NF(Keyed, "keyed", "has flow keys of its own");

// Returns the error in a text, or the text of its spec.
std::string Parsed(std::string_view text,
                   const NfSpec::NameTable* names = nullptr) {
  const absl::StatusOr<NfSpec> spec = NfSpec::Parse(text, names);
  if (!spec.ok()) return std::string(spec.status().message());
  const absl::Status status = spec->check();
  return status.ok() ? spec->text() : std::string(status.message());
}

std::string TextOf(const NetworkFunction& nf) {
  return dynamic_cast<const Text&>(nf).text;
}

TEST(NfSpec, TakesOneNfAsEver) {
  EXPECT_EQ(Parsed("text"), "text");
  EXPECT_EQ(Parsed("text:"), "text");
  EXPECT_EQ(Parsed("text:small=3,text=a(b)"), "text(small=3,text=\"a(b)\")");
  EXPECT_EQ(Parsed("text:small"), "text: \"small\" is no key=value");
  EXPECT_EQ(Parsed("text:small=10"),
            "text: small=10: must be a whole number from 0 to 9");
  EXPECT_THAT(Parsed("txt:small=1"),
              StartsWith("\"txt\" is no NF; there is: "));
  EXPECT_EQ(Parsed("text:small=1 | big"),
            "character 14: in a chain options stand in parentheses: "
            "text(key=value)");
  const auto nf = NfSpec::Parse("text:text=a=b")->create();
  EXPECT_EQ(TextOf(*nf), "a=b");
  EXPECT_TRUE(nf->parts()[0].name.empty());
}

TEST(NfSpec, IsAChainAsItsTextSays) {
  const char* const texts[] = {
      "text | text", "text | {good: text, bad:, *: big | big}",
      "text(small=3) | big(blob=7,slots=2) | {*: sided}",
      "text | {bad: text | {bad: text}} | big",
      "[connections=16] text | sided | big"};
  for (const std::string text : texts) {
    const auto spec = NfSpec::Parse(text);
    ASSERT_TRUE(spec.ok()) << spec.status();
    EXPECT_EQ(spec->text(), text);
  }
  EXPECT_EQ(Parsed("\ttext\n|{good:text,bad:}|big ( ) |big(slots = 3)"),
            "text | {good: text, bad:} | big | big(slots=3)");
  EXPECT_EQ(Parsed("[ connections = 8 ] text"), "text");
}

TEST(NfSpec, TakesValuesInQuotes) {
  const auto text_of = [](std::string_view text) {
    const auto spec = NfSpec::Parse(text);
    EXPECT_TRUE(spec.ok()) << spec.status();
    if (!spec.ok()) return std::string();
    // The spec's own text gives the same chain.
    EXPECT_EQ(TextOf(*NfSpec::Parse(spec->text())->create()),
              TextOf(*spec->create()));
    return TextOf(*spec->create());
  };
  EXPECT_EQ(text_of("text(text=a b )"), "a b");
  EXPECT_EQ(text_of("text( text = a=b(c )"), "a=b(c");
  EXPECT_EQ(text_of("text(text=\"a, b)\" )"), "a, b)");
  EXPECT_EQ(text_of("text(text=\" \\\"\\\\\\n\")"), " \"\\n");
  EXPECT_EQ(text_of("text(text=)"), "");
  EXPECT_EQ(text_of("text(text=\"\",small=1)"), "");
  EXPECT_EQ(text_of("text(text=C:\\x)"), "C:\\x");
}

TEST(NfSpec, SaysWhereTheTextIsWrong) {
  const std::pair<const char*, const char*> wrong[] = {
      {"", "character 1: there should be the name of an NF"},
      {"text |", "character 7: there should be the name of an NF"},
      {"| text", "character 1: there should be the name of an NF"},
      {"text text", "character 6: there should be \"|\" or the end"},
      {"text | }", "character 8: there should be the name of an NF"},
      {"{good: text}", "character 1: braces follow an NF"},
      {"text | {*: {*: text}}", "character 12: braces follow an NF"},
      {"text | {*:} | {*:}", "character 15: braces cannot follow braces"},
      {"text | {", "character 9: there should be a label"},
      {"text | {}", "character 9: there should be a label"},
      {"text | {good}", "character 13: there should be \":\""},
      {"text | {good: text", "character 19: there should be \"}\""},
      {"text | {good:, good:}", "character 16: label \"good\" is there twice"},
      {"text | {*:, *:}", "character 13: label \"*\" is there twice"},
      {"text | {*:, good:}", "character 13: \"*\" must be the last label"},
      {"text(", "character 6: there should be key=value"},
      {"text(small)", "character 11: there should be \"=\""},
      {"text(small=1", "character 13: there should be \",\" or \")\""},
      {"text(small=1,)", "character 14: there should be key=value"},
      {"text(small=1,small=2)", "character 14: \"small\" is given twice"},
      {"text(text=\"a)", "character 11: these quotes have no end"},
      {"text(text=\"a\"b)", "character 14: there should be \",\" or \")\""},
      {"text(text=a\"b\")", "character 12: there should be \",\" or \")\""},
      {"[conections=3] text",
       "character 2: \"conections\" is no option of a chain; there is: "
       "connections"},
      {"[connections=0] text",
       "character 14: connections must be a whole number from 1 to 1024"},
      {"[connections=1025] text",
       "character 14: connections must be a whole number from 1 to 1024"},
      {"[connections=8 text", "character 16: there should be \"]\""},
  };
  for (const auto& [text, what] : wrong) EXPECT_EQ(Parsed(text), what) << text;
  EXPECT_THAT(Parsed("text | {good: tex}"),
              StartsWith("\"tex\" is no NF; there is: big, "));
}

TEST(NfSpec, HasLimits) {
  std::string chain = "text";
  for (int i = 1; i < 16; ++i) chain += " | text";
  EXPECT_EQ(Parsed(chain), chain);
  EXPECT_EQ(Parsed(chain + " | big"),
            "character 113: with \"big\" there are more than 16 NFs");
  std::string nested = "text";
  for (int i = 0; i < 8; ++i) nested = "text | {*: " + nested + "}";
  EXPECT_EQ(Parsed(nested), nested);
  EXPECT_EQ(Parsed("text | {*: " + nested + "}"),
            "character 96: more than 8 braces in each other");
}

TEST(NfSpec, ChecksThatItsNfsCanBeOneChain) {
  EXPECT_EQ(Parsed("text | {nice: big}"),
            "text: it finds good, bad, ugly-1, not \"nice\"");
  EXPECT_EQ(Parsed("text | {ugly-1: big}"), "text | {ugly-1: big}");
  EXPECT_EQ(Parsed("big | text | {*: big | {nice:}}"),
            "big#2: it finds nothing, not \"nice\"");
  EXPECT_EQ(Parsed("big | {*: text} | text(small=x)"),
            "text#2: small=x: must be a whole number from 0 to 9");
  EXPECT_EQ(Parsed("sided | text | sided"),
            "sided#2: it has two sides, as sided has: a chain has one such NF");
  EXPECT_EQ(Parsed("sided | keyed"),
            "keyed: it has flow keys of its own, and sided cannot stand beside "
            "it: a chain has one such NF");
  EXPECT_EQ(Parsed("keyed | keyed"),
            "keyed#2: it has flow keys of its own, as keyed has: a chain has "
            "one such NF");
  EXPECT_EQ(Parsed("keyed | {*: text}"),
            "keyed: it has flow keys of its own: it cannot be in braces, or "
            "before them");
  EXPECT_EQ(Parsed("text | {*: sided}"),
            "sided: it has two sides: it cannot be in braces, or before them");
  EXPECT_EQ(Parsed("sided | {*: text}"),
            "sided: it has two sides: it cannot be in braces, or before them");
  EXPECT_EQ(Parsed("big(slots=60) | big(slots=4)"),
            "big(slots=60) | big(slots=4)");
  EXPECT_EQ(Parsed("big(slots=60) | big(slots=5)"),
            "big#2: with it a chain keeps more than 64 slots, or 65536 bytes");
  EXPECT_EQ(Parsed("big(blob=60000) | big(blob=6000)"),
            "big#2: with it a chain keeps more than 64 slots, or 65536 bytes");
  EXPECT_EQ(Parsed("sided | big(blob=9000)"),
            "sided: with 8 connections a chain keeps more than 64 slots, or "
            "65536 bytes");
  EXPECT_EQ(Parsed("[connections=7] sided | big(blob=9000)"),
            "[connections=7] sided | big(blob=9000)");
  std::string reasons = "big(reasons=31)";
  for (int i = 0; i < 7; ++i) reasons += " | big(reasons=32)";
  EXPECT_EQ(Parsed(reasons), reasons);
  EXPECT_EQ(Parsed(reasons + " | big(reasons=1)"),
            "big#9: with it a chain drops for more than 255 reasons");
}

TEST(NfSpec, LoadsAFileOnceForAllThatItCreates) {
  const auto spec = NfSpec::Parse("big | text(file=x)");
  const int before = Text::loaded;
  ASSERT_TRUE(spec->check().ok());
  const NfSpec copy = *spec;
  const auto one = spec->create();
  const auto other = copy.create();
  EXPECT_EQ(Text::loaded, before + 1);
  EXPECT_EQ(dynamic_cast<const Text&>(*one->parts()[1].nf).file,
            dynamic_cast<const Text&>(*other->parts()[1].nf).file);
}

// --- Names ------------------------------------------------------------------

// A table that parses the text of a name when the name is looked up.
class Lazy final : public NfSpec::NameTable {
 public:
  using Texts = std::map<std::string, std::string, std::less<>>;
  explicit Lazy(Texts texts) : texts_(std::move(texts)) {}
  absl::StatusOr<const NfSpec*> Find(std::string_view name) const override {
    const auto text = texts_.find(name);
    if (text == texts_.end()) return nullptr;
    absl::StatusOr<NfSpec> spec = NfSpec::Parse(text->second, this);
    if (!spec.ok()) return spec.status();
    kept_.push_back(std::make_unique<NfSpec>(*std::move(spec)));
    return kept_.back().get();
  }

 private:
  Texts texts_;
  mutable std::vector<std::unique_ptr<NfSpec>> kept_;
};

TEST(NfSpec, TakesNamesForWhatTheyStandFor) {
  const Lazy names({{"fw", "text(small=1)"},
                    {"both", "fw | big"},
                    {"branch", "fw | {good: both}"}});
  EXPECT_EQ(Parsed("fw", &names), "text(small=1)");
  EXPECT_EQ(Parsed("fw | {good: fw} | both", &names),
            "text(small=1) | {good: text(small=1)} | text(small=1) | big");
  EXPECT_EQ(Parsed("both | {*: both}", &names),
            "text(small=1) | big | {*: text(small=1) | big}");
  EXPECT_EQ(Parsed("branch | both | branch", &names),
            "text(small=1) | {good: text(small=1) | big} | text(small=1) | big "
            "| text(small=1) | {good: text(small=1) | big}");
  EXPECT_EQ(Parsed("branch | {*:}", &names),
            "character 10: braces cannot follow braces");
  EXPECT_EQ(
      Parsed("both(small=2)", &names),
      "character 5: \"both\" stands for \"text(small=1) | big\" and takes "
      "no options");
  EXPECT_EQ(Parsed("both:small=2", &names),
            "character 1: \"both\" is a chain and takes no options");
  EXPECT_THAT(Parsed("neither", &names), HasSubstr("is no NF"));
}

TEST(NfSpec, FindsNamesThatNeedEachOther) {
  const Lazy itself(Lazy::Texts{{"text", "text(small=1)"}});
  EXPECT_EQ(Parsed("text", &itself),
            "\"text\" names itself, not the NF of this name: give the chain "
            "another name");
  const Lazy own(Lazy::Texts{{"own", "own"}});
  EXPECT_EQ(Parsed("own", &own), "\"own\" needs \"own\"");
  const Lazy cycle({{"c", "big | {*: d}"}, {"d", "e"}, {"e", "big | c"}});
  EXPECT_EQ(Parsed("big | c", &cycle),
            "\"c\" needs \"d\" needs \"e\" needs \"c\"");
  EXPECT_THAT(Parsed("e", &cycle), HasSubstr("\"e\" needs \"c\""));
  const Lazy wrong({{"a", "big | b"}, {"b", "{*: big}"}});
  EXPECT_EQ(Parsed("a", &wrong), "\"b\": character 1: braces follow an NF");
}

TEST(NfSpec, CountsWhatNamesStandForTowardsItsLimits) {
  const Lazy names({{"four", "big | big | big | big"},
                    {"deep", "big | {*: big | {*: big | {*: big}}}"}});
  EXPECT_EQ(Parsed("four | four | four | four | big", &names),
            "character 29: with \"big\" there are more than 16 NFs");
  EXPECT_EQ(Parsed("deep | big | {*: deep}", &names),
            "big | {*: big | {*: big | {*: big}}} | big | {*: big | {*: big | "
            "{*: big | {*: big}}}}");
  std::string text = "deep";
  for (int i = 0; i < 6; ++i) text = "big | {*: " + text + "}";
  EXPECT_EQ(Parsed(text, &names),
            "character 61: with \"deep\" there are more than 8 braces in each "
            "other");
}

TEST(NfSpec, HasTheFlowsOfTheNfWithKeysOfItsOwn) {
  const auto chain = NfSpec::Parse("text | keyed | big")->create();
  EXPECT_EQ(chain->flow_scope(), FlowScope::kOwnKey);
  const ParsedPacket headers;
  const OwnFlow flow = chain->flow_key({.bytes = {},
                                        .headers = headers,
                                        .connection = {},
                                        .direction = Direction::kForward});
  EXPECT_EQ(flow.key.vlan, be16(7));
  EXPECT_EQ(flow.side, Side::kOutside);
}

TEST(NfSpec, SetsAnOptionOfEachNfOfAName) {
  NfSpec spec = *NfSpec::Parse("big | {*: text(small=1)} | text");
  ASSERT_TRUE(spec.SetOption("text", "small", "7").ok());
  EXPECT_EQ(spec.text(), "big | {*: text(small=7)} | text(small=7)");
  EXPECT_TRUE(spec.check().ok());
  EXPECT_EQ(spec.SetOption("txet", "small", "7").message(),
            "there is no NF \"txet\"");
  EXPECT_EQ(spec.text(), "big | {*: text(small=7)} | text(small=7)");
}

TEST(NfSpec, NamesTheFilesThatItsNfsRead) {
  const auto spec = NfSpec::Parse(
      "text(file=a.txt) | {good: text(text=b.txt,file=c.txt), bad: sided}");
  ASSERT_TRUE(spec.ok()) << spec.status();
  std::string files;
  for (const auto& [option, file] : spec->input_files()) {
    files += option + "=" + file + "\n";
  }
  EXPECT_EQ(files, "text: file=a.txt\ntext: file=c.txt\n");
}

class Sets final : public NetworkFunction {
 public:
  explicit Sets(NfOptions& options) {
    options.Text("set", "", "NAME:@FILE[;…]", "sets");
    options.Text("mail", "", "TEXT", "an address");
  }
  Verdict process_packet(Packet&, FlowState&) override {
    return Verdict::forward();
  }
};
SNF_REGISTER_NF(Sets, "sets", "reads files of sets");

TEST(NfSpec, NamesTheFilesBehindAt) {
  const auto spec = NfSpec::Parse(
      "sets(set=\"a:@x@y.txt;b:80;@z.txt;c:1@2;d:@w+v\",mail=a:@b)");
  ASSERT_TRUE(spec.ok()) << spec.status();
  std::string files;
  for (const auto& [option, file] : spec->input_files()) {
    files += option + "=" + file + "\n";
  }
  EXPECT_EQ(files, "sets: set=x@y.txt\nsets: set=z.txt\nsets: set=w+v\n");
}

// --- Logs of NFs ---

class TwoLogs final : public NetworkFunction {
 public:
  Verdict process_packet(Packet&, FlowState&) override {
    return Verdict::forward();
  }

 private:
  LogId first_ = declare_log("first", "");
  LogId second_ = declare_log("second", "");
};
SNF_REGISTER_NF(TwoLogs, "two_logs", "for tests");

class OneLog final : public NetworkFunction {
 public:
  OneLog() { declare_log("only", ""); }
  Verdict process_packet(Packet&, FlowState&) override {
    return Verdict::forward();
  }
};
SNF_REGISTER_NF(OneLog, "one_log", "for tests");

class SameLogs final : public NetworkFunction {
 public:
  SameLogs() {
    declare_log("same", "");
    declare_log("same", "");
  }
  Verdict process_packet(Packet&, FlowState&) override {
    return Verdict::forward();
  }
};
SNF_REGISTER_NF(SameLogs, "same_logs", "for tests");

std::vector<std::string> NamesOf(const std::string& nf) {
  std::vector<std::string> names;
  const auto made = NfSpec::Parse(nf)->create();
  for (const NfLog& log : LogsOf(*made)) names.push_back(log.name);
  return names;
}

TEST(NfLogs, AreNamedAfterTheirNfs) {
  EXPECT_THAT(NamesOf("two_logs"),
              ElementsAre("two_logs.first", "two_logs.second"));
  EXPECT_THAT(NamesOf("two_logs | one_log | text"),
              ElementsAre("two_logs.first", "two_logs.second", "one_log.only"));
}

TEST(NfLogs, OfOneNameAreRefused) {
  const auto spec = NfSpec::Parse("same_logs");
  ASSERT_TRUE(spec.ok());
  EXPECT_THAT(std::string(spec->check().message()),
              HasSubstr("a log \"same\": there is one of that name"));
}

TEST(NfLogs, OfAChainAreLimited) {
  std::string chain = "two_logs";
  for (int i = 0; i < 8; ++i) chain += " | two_logs";
  const auto spec = NfSpec::Parse(chain);
  const absl::Status status = spec.ok() ? spec->check() : spec.status();
  EXPECT_THAT(std::string(status.message()), HasSubstr("more than 16 logs"));
}

}  // namespace
}  // namespace snf
