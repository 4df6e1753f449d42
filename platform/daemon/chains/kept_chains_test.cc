// SPDX-License-Identifier: Apache-2.0
#include "platform/daemon/chains/kept_chains.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <cstdint>
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>

#include "base/rng.h"
#include "base/test_seeds.h"

namespace snf {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class KeptChainsTest : public testing::Test {
 protected:
  KeptChainsTest() {
    EXPECT_NE(mkdtemp(folder_.data()), nullptr);
    file_ = folder_ + "/chains";
  }
  ~KeptChainsTest() override {
    unlink(file_.c_str());
    rmdir(folder_.c_str());
  }

  const KeptChain first_ = {.began = {{"keep", "9s"}},
                            .flags = {{"nf", "firewall | nat(ip=1.2.3.4)"}}};
  const KeptChain second_ = {.number = 2,
                             .began = {},
                             .place = 3,
                             .end_of_older = Instant{17},
                             .flags = {{"alpha", "0.5"}},
                             .texts = {{"", "nat \"of\"\nlines"}},
                             .modules = {"/a/b.so", "/c.so"}};
  std::string folder_ = "/tmp/snf_chains_XXXXXX";
  std::string file_;
};

TEST_F(KeptChainsTest, ReadsWhatItHasNoted) {
  const KeptChains chains(file_);
  EXPECT_THAT(chains.Read(), IsEmpty());
  ASSERT_TRUE(chains.Begin({first_}).ok());
  ASSERT_TRUE(chains.Add(second_).ok());
  EXPECT_THAT(KeptChains(file_).Read(), ElementsAre(first_, second_));
  ASSERT_TRUE(chains.Begin({second_}).ok());
  EXPECT_THAT(chains.Read(), ElementsAre(second_));
}

TEST_F(KeptChainsTest, LeavesOutWhatIsNoWholeLine) {
  const KeptChains chains(file_);
  ASSERT_TRUE(chains.Begin({first_}).ok());
  std::ofstream(file_, std::ios::app)
      << "{}\n[3]\n{\"number\": \"x\"}\n{\"number\": 2, \"pla";
  ASSERT_TRUE(chains.Add(second_).ok());
  std::ifstream file(file_);
  const std::string all{std::istreambuf_iterator<char>(file), {}};
  EXPECT_THAT(chains.Read(), ElementsAre(first_, second_));
  std::ofstream(file_) << all.substr(0, all.size() - 1);
  EXPECT_THAT(chains.Read(), ElementsAre(first_));
}

// A daemon may be killed while it writes the file, and a disk may fail.
TEST_F(KeptChainsTest, ReadsAnyBytesAsChainsOrNone) {
  ASSERT_TRUE(KeptChains(file_).Begin({first_, second_}).ok());
  std::ifstream in(file_);
  const std::string good{std::istreambuf_iterator<char>(in), {}};
  int read = 0;
  int left_out = 0;
  for (const uint64_t seed : TestSeeds(2'000, 100'000).all()) {
    SCOPED_TRACE(TestSeeds::Name(seed));
    Rng rng(seed);
    std::string bytes = good;
    for (uint64_t n = 1 + rng.Below(3); n > 0; --n) {
      const uint64_t byte = rng.Below(2) == 0 ? 'a' + rng.Below(26)  // a text's
                                              : rng.Below(256);
      bytes[rng.Below(bytes.size())] = static_cast<char>(byte);
    }
    if (rng.Below(4) == 0) bytes.resize(rng.Below(bytes.size()));
    std::ofstream(file_) << bytes;
    const auto chains = KeptChains(file_).Read();
    ASSERT_LE(chains.size(), 2u);
    ++(chains.size() == 2 ? read : left_out);
  }
  std::cout << read << " read, " << left_out << " left out\n";
  EXPECT_GT(read, 10);
  EXPECT_GT(left_out, 100);
}

TEST_F(KeptChainsTest, SaysWhyItCannotNote) {
  const KeptChains chains(folder_ + "/none/chains");
  EXPECT_EQ(chains.Begin({first_}).message(),
            folder_ + "/none/chains: No such file or directory");
  EXPECT_FALSE(chains.Add(first_).ok());
}

}  // namespace
}  // namespace snf
