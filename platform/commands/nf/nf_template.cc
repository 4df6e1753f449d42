// SPDX-License-Identifier: Apache-2.0
#include "platform/commands/nf/nf_template.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "absl/strings/str_replace.h"
#include "controller/core/placement.h"
#include "fmt/format.h"
#include "runtime/sdk/nf.h"

namespace snf {
namespace {

constexpr size_t kMaxName = 40;

constexpr char kLicence[] = "// SPDX-License-Identifier: Apache-2.0\n";

constexpr char kSource[] = R"(#include "runtime/sdk/nf.h"

namespace snf {
namespace {

// Forwards the first packets of each flow and drops the others.
class CLASS final : public NetworkFunction {
 public:
  explicit CLASS(NfOptions& options)
      : limit_(options.Integer("limit", 1'000, 1, 1'000'000'000,
                               "packets of a flow that are forwarded")) {}

  // Called for every packet, for those of one flow in order.
  Verdict process_packet(Packet& packet, FlowState& flow) override {
    const int64_t packets = flow.get(packets_);
    if (packets == limit_) return Verdict::drop(kOverLimit);
    flow.put(packets_, packets + 1);
    count(bytes_, packet.bytes().size());
    return Verdict::forward();
  }

  std::span<const std::string_view> drop_reasons() const override {
    static constexpr std::string_view kNames[] = {"over_limit"};
    return kNames;
  }

 private:
  enum : uint8_t { kOverLimit };

  const int64_t limit_;
  // What is kept of each flow, on whichever unit its next packet is.
  const Slot<int64_t> packets_ = declare<int64_t>("packets");
  const Counter bytes_ = declare_counter("bytes", "bytes forwarded");
};
SNF_REGISTER_NF(CLASS, "NAME", "forwards the first packets of each flow");

}  // namespace
}  // namespace snf
)";

constexpr char kTest[] = R"(#include "runtime/sdk/nf_test.h"

namespace snf {
namespace {

constexpr char kHello[] = "udp 10.0.0.1:5000 > 192.0.2.9:53 \"hello\"";
constexpr char kOther[] = "udp 10.0.0.1:5001 > 192.0.2.9:53 \"hello\"";

TEST(CLASS, ForwardsTheFirstPacketsOfEachFlow) {
  NfTest nf("NAME:limit=2");
  EXPECT_EQ(nf.Send(kHello), kHello);
  EXPECT_EQ(nf.Send(kHello), kHello);
  EXPECT_EQ(nf.Send(kHello), "drop over_limit");
  EXPECT_EQ(nf.Send(kOther), kOther);
  EXPECT_GT(nf.count("bytes"), 0u);
}

// On many units, each packet on another one: what the NF keeps goes along.
TEST(CLASS, DoesTheSameOnManyUnits) {
  EXPECT_TRUE(RunEverywhere("NAME:limit=2",
                            Packets({kHello, kOther, kHello, kHello})));
}

}  // namespace
}  // namespace snf
)";

constexpr char kPolicy[] = R"(#include "controller/sdk/policy.h"

namespace snf {
namespace {

// Best fit: the fullest unit that has room, but where the state is already if
// there is room.
class CLASS final : public Policy {
 public:
  // Called for every flowlet. The header says what is known of it, and what the
  // units can tell.
  UnitId Choose(const PolicyRequest& request,
                const PolicyUnits& units) const override {
    const UnitId owner = request.owner;
    if (units.Has(owner) && units.HasRoom(owner, request)) return owner;
    for (const UnitId replica : request.replicas) {
      if (units.Has(replica) && units.HasRoom(replica, request)) {
        return replica;
      }
    }
    return units.FullestWithRoom(request);  // kNoUnit: another unit is started
  }
};
SNF_REGISTER_POLICY(CLASS, "NAME", "the fullest unit, or where the state is");

}  // namespace
}  // namespace snf
)";

constexpr char kCmake[] = R"(cmake_minimum_required(VERSION 3.25)
project(NAME LANGUAGES CXX)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE RelWithDebInfo)
endif()
add_compile_options(-Wall -Wextra)
enable_testing()

# In the build directory of SNF: cmake -DCMAKE_PREFIX_PATH=…
find_package(snf REQUIRED)
)";
constexpr char kAddPolicy[] = "snf_add_policy(NAME NAME.cc)\n";
constexpr char kAddNf[] = R"(snf_add_nf(NAME NAME.cc)
snf_add_nf_test(NAME_test NAME NAME_test.cc)
)";

// "MyNf" of "my_nf" and of "my", if the end is "Nf": never the name of a class
// of the SDK.
std::string ClassOf(const std::string& name, std::string_view end) {
  std::string text;
  bool begins = true;
  for (const char c : name) {
    if (c != '_') text += begins && c >= 'a' ? static_cast<char>(c - 32) : c;
    begins = c == '_';
  }
  return text.ends_with(end) ? text : text + std::string(end);
}

// Returns an error if a file, a class or a CMake target cannot have the name,
// or if it `is_taken`.
absl::Status CheckName(const std::string& name, std::string_view of,
                       bool is_taken) {
  const auto bad = [&name, of](std::string_view what) {
    return absl::InvalidArgumentError(
        fmt::format("\"{}\" cannot be the name of {}: {}", name, of, what));
  };
  // Names that CMake, or a function of the SDK, has taken.
  constexpr std::array<std::string_view, 11> kTaken = {
      "all",     "clean",         "edit_cache", "find", "help", "install",
      "package", "rebuild_cache", "make",       "snf",  "test"};
  const bool is_snake_case =
      !name.empty() && name.front() >= 'a' && name.front() <= 'z' &&
      name.back() != '_' && name.find("__") == name.npos &&
      std::ranges::all_of(name, [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
      });
  if (!is_snake_case) {
    return bad("it must be as in my_nf, of a-z, 0-9 and single _");
  }
  if (name.size() > kMaxName) {
    return bad(fmt::format("it has more than {} characters", kMaxName));
  }
  if (std::ranges::find(kTaken, name) != kTaken.end()) {
    return bad("the build has something else of that name");
  }
  if (name.starts_with("test_") || name.ends_with("_test") ||
      name.ends_with("_bench")) {
    return bad("files of tests are called so");
  }
  if (is_taken) return bad("there is one of that name");
  return absl::OkStatus();
}

// Fills in the names.
std::string Filled(std::string_view text, const std::string& name,
                   std::string_view end) {
  return absl::StrReplaceAll(std::string(text),
                             {{"CLASS", ClassOf(name, end)}, {"NAME", name}});
}

}  // namespace

absl::Status CheckNfName(const std::string& name) {
  return CheckName(name, "an NF", FindNf(name) != nullptr);
}

absl::Status CheckPolicyName(const std::string& name) {
  return CheckName(name, "a policy", FindPlacementPolicy(name) != nullptr);
}

NfTemplate MakeNfTemplate(const std::string& name, bool in_tree) {
  const auto fill = [&](std::string_view text) {
    return Filled(text, name, "Nf");
  };
  const std::string licence = in_tree ? kLicence : "";
  NfTemplate files = {.files = {{name + ".cc", licence + fill(kSource)},
                                {name + "_test.cc", licence + fill(kTest)}}};
  if (!in_tree) {
    files.files.push_back({"CMakeLists.txt", fill(kCmake) + fill(kAddNf)});
  }
  return files;
}

NfTemplate MakePolicyTemplate(const std::string& name) {
  const auto fill = [&](std::string_view text) {
    return Filled(text, name, "Policy");
  };
  return {.files = {{name + ".cc", fill(kPolicy)},
                    {"CMakeLists.txt", fill(kCmake) + fill(kAddPolicy)}}};
}

}  // namespace snf
