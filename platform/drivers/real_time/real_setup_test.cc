// SPDX-License-Identifier: Apache-2.0
#include "platform/drivers/real_time/real_setup.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>

#include "traces/fixture_folder.h"

namespace snf {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

// Reads some files, and names a written file.
class Reader final : public NetworkFunction {
 public:
  explicit Reader(NfOptions& options) {
    options.Load<std::string>("rules", "a file", Load);
    options.List("more", "FILE", "more files");
    options.Text("log", "", "FILE, written", "a file");
  }
  static absl::StatusOr<std::string> Load(const std::string& /*file*/) {
    return "";
  }
  Verdict process_packet(Packet& /*packet*/, FlowState& /*flow*/) override {
    return Verdict::forward();
  }
};
SNF_REGISTER_NF(Reader, "identity_reader", "reads files");

template <TableReader reader>
class SetupTable final : public NetworkFunction {
 public:
  explicit SetupTable(NfOptions& /*options*/) {
    declare_shared<uint64_t, uint64_t>("n", 8, SumOfWords{}, reader);
  }
  Verdict process_packet(Packet& /*packet*/, FlowState& /*flow*/) override {
    return Verdict::forward();
  }
};
using SetupReported = SetupTable<TableReader::kReport>;
using SetupRead = SetupTable<TableReader::kPacket>;
SNF_REGISTER_NF(SetupReported, "setup_reported", "has a table for reports");
SNF_REGISTER_NF(SetupRead, "setup_read", "has a table that packets read");

class KeptIdentityTest : public testing::Test {
 protected:
  std::string Identity(const std::string& nf) const {
    const auto spec = NfSpec::Parse(nf);
    EXPECT_TRUE(spec.ok()) << spec.status();
    return KeptIdentity(run_, real_, {}, *spec);
  }

  const TestFolder folder_;
  RunOptions run_;
  RealOptions real_;
};

TEST_F(KeptIdentityTest, ChangesWithWhatTheFilesOfTheNfHave) {
  const std::string rules = folder_.Write("rules", "allow any");
  const std::string one = folder_.Write("one", "1");
  const std::string two = folder_.Write("two", "2");
  const std::string nf =
      "identity_reader(rules=" + rules + ",more=" + one + "+" + two + ")";
  const std::string before = Identity(nf);
  EXPECT_THAT(before, HasSubstr("\nfile " + rules +
                                " (identity_reader: rules)\t9 bytes, hash "));
  EXPECT_THAT(before,
              HasSubstr("\nfile " + two + " (identity_reader: more)\t1 bytes"));
  EXPECT_EQ(Identity(nf), before);
  folder_.Write("rules", "deny  any");  // of the same length
  EXPECT_NE(Identity(nf), before);
  folder_.Write("rules", "allow any");
  EXPECT_EQ(Identity(nf), before);
  folder_.Write("two", "3");
  EXPECT_NE(Identity(nf), before);
}

TEST_F(KeptIdentityTest, NamesAFileThatIsGone) {
  const std::string gone = folder_.Path("gone");
  EXPECT_THAT(Identity("identity_reader(rules=" + gone + ")"),
              HasSubstr("\nfile " + gone +
                        " (identity_reader: rules)\tnot readable\n"));
}

TEST_F(KeptIdentityTest, ReadsAFileWhoseNameHasAPlus) {
  const std::string file = folder_.Write("a+b", "12");
  EXPECT_THAT(Identity("identity_reader(rules=" + file + ")"),
              HasSubstr("file " + file + " (identity_reader: rules)\t2 bytes"));
}

TEST_F(KeptIdentityTest, LeavesFilesThatAreWrittenAlone) {
  const std::string log = folder_.Write("log", "");
  const std::string nf = "identity_reader(log=" + log + ")";
  const std::string before = Identity(nf);
  folder_.Write("log", "something");
  EXPECT_EQ(Identity(nf), before);
  EXPECT_THAT(before, Not(HasSubstr("file " + log)));
}

TEST_F(KeptIdentityTest, ChangesWithFlagsAndTheProgram) {
  const std::string before = Identity("identity_reader");
  EXPECT_THAT(before, HasSubstr("--nf\tidentity_reader\n"));
  run_.controller.max_flows += 1;
  EXPECT_NE(Identity("identity_reader"), before);
  run_.controller.max_flows -= 1;
  EXPECT_EQ(Identity("identity_reader"), before);
  real_.host_state = true;
  EXPECT_NE(Identity("identity_reader"), before);
  real_.host_state = false;
  EXPECT_EQ(Identity("identity_reader"), before);
  real_.program = folder_.Write("program", "");
  EXPECT_NE(Identity("identity_reader"), before);
}

// T6: packets may read tables although a controller fails.
TEST(RealSetup, TakesTablesThatPacketsReadIfAControllerFails) {
  RunOptions run;
  run.loggers = true;
  Kill kill;
  kill.victim = Kill::Victim::kController;
  run.faults.kills.push_back(kill);
  RealOptions real;
  real.threads = 2;
  const auto made = [&](const std::string& nf) {
    return RealSetup::Make(run, real, *NfSpec::Parse(nf)).status();
  };
  EXPECT_TRUE(made("setup_reported").ok()) << made("setup_reported");
  EXPECT_TRUE(made("setup_read").ok()) << made("setup_read");
}

TEST(PinPlace, GivesASingleRunTheFirstCpus) {
  const std::vector<int> cpus = {2, 3, 5, 7};
  EXPECT_THAT(*PinPlace().CpusOf(cpus, 3), ElementsAre(2, 3, 5));
  EXPECT_THAT(*PinPlace().CpusOf(cpus, 1), ElementsAre(2));
  EXPECT_EQ(PinPlace().CpusOf(cpus, 5).status().message(),
            "5 threads cannot be pinned to 4 CPUs");
  EXPECT_EQ(PinPlace().ThreadsOn(4, 1), 4u);
}

TEST(PinPlace, GivesRunsSideBySideCpusOfTheirOwnButTheFirst) {
  const std::vector<int> cpus = {0, 1, 2, 3, 4, 5, 6, 7};
  for (uint32_t runs = 1; runs <= 4; ++runs) {
    const uint32_t threads = PinPlace{.runs = runs}.ThreadsOn(8, 1);
    std::set<int> given;
    for (uint32_t number = 0; number < runs; ++number) {
      const auto mine =
          PinPlace{.number = number, .runs = runs}.CpusOf(cpus, threads);
      ASSERT_TRUE(mine.ok());
      ASSERT_EQ(mine->size(), threads);
      EXPECT_EQ(mine->front(), 0);
      for (size_t i = 1; i < mine->size(); ++i) {
        EXPECT_TRUE(given.insert((*mine)[i]).second);
      }
    }
    EXPECT_LE(given.size(), 7u);
  }
  const PinPlace third = {.number = 2, .runs = 3};
  EXPECT_THAT(*third.CpusOf(cpus, 3), ElementsAre(0, 5, 6));
  EXPECT_EQ(third.CpusOf(cpus, 4).status().message(),
            "4 threads for each of 3 chains cannot be pinned to 8 CPUs: they "
            "need 10, of which all share one");
  EXPECT_EQ(third.ThreadsOn(2, 2), 2u);
}

}  // namespace
}  // namespace snf
