// SPDX-License-Identifier: Apache-2.0
#include "runtime/sdk/nf_test.h"

#include <utility>

#include "absl/strings/str_split.h"
#include "base/packet/flow_key_text.h"
#include "base/quantity.h"
#include "platform/commands/nf/test_nf_platform.h"
#include "platform/process/nf_guard.h"

namespace snf {
namespace {

// Whether a text could be read; the test has failed if not.
template <typename T>
bool IsGood(const absl::StatusOr<T>& parsed) {
  if (parsed.ok()) return true;
  ADD_FAILURE() << parsed.status().message();
  return false;
}

bool AreGood(const std::string& text, std::vector<IpPrefix>& prefixes) {
  if (text.empty()) return true;
  const absl::StatusOr<std::vector<IpPrefix>> parsed = ParsePrefixes(text);
  if (!IsGood(parsed)) return false;
  prefixes = *parsed;
  return true;
}

}  // namespace

NfTest::NfTest(const std::string& nf, const std::string& inside) {
  GuardNfCalls("NfTest");
  const absl::StatusOr<NfSpec> spec = NfSpec::Parse(nf);
  std::vector<IpPrefix> prefixes;
  if (!IsGood(spec) || !AreGood(inside, prefixes)) return;
  const absl::Status status = spec->check();
  if (status.ok()) {
    platform_ = std::make_unique<Platform>(*spec, std::move(prefixes));
  } else {
    ADD_FAILURE() << status.message();
  }
}

NfTest::~NfTest() = default;

NfResult NfTest::Send(const std::string& packet) {
  const absl::StatusOr<TestPacket> parsed = ParsePacket(packet);
  return IsGood(parsed) ? Send(*parsed) : NfResult{};
}

NfResult NfTest::Send(const TestPacket& packet) {
  return platform_ == nullptr ? NfResult{} : platform_->Send(packet);
}

void NfTest::Pass(Nanos time) {
  if (platform_ != nullptr) platform_->Pass(time);
}

void NfTest::EndFlow(const std::string& packet) {
  const absl::StatusOr<TestPacket> parsed = ParsePacket(packet);
  if (platform_ == nullptr || !IsGood(parsed)) return;
  const FlowId id = platform_->Find(*parsed);
  if (id == kNoFlow) {
    ADD_FAILURE() << "no flow has \"" << packet << "\"";
  } else {
    platform_->End(id);
  }
}

void NfTest::EndFlows() {
  if (platform_ != nullptr) platform_->EndFlows();
}

std::vector<std::string> NfTest::TakeEmitted() {
  std::vector<std::string> texts;
  for (const TestPacket& packet : TakeEmittedPackets()) {
    texts.push_back(ToText(packet));
  }
  return texts;
}

std::vector<TestPacket> NfTest::TakeEmittedPackets() {
  if (platform_ == nullptr) return {};
  return std::exchange(platform_->emitted, {});
}

std::vector<std::string> NfTest::TakeLog(const std::string& log) {
  if (platform_ == nullptr) return {};
  const auto found = platform_->logs.find(log);
  if (found == platform_->logs.end()) {
    ADD_FAILURE() << "no log \"" << log << "\"";
    return {};
  }
  const std::string text = std::exchange(found->second, {});
  return absl::StrSplit(text, '\n', absl::SkipEmpty());
}

uint64_t NfTest::count(const std::string& counter) const {
  if (platform_ == nullptr) return 0;
  std::string known;
  for (const NetworkFunction::Part& part : platform_->nf().parts()) {
    const auto counters = part.nf->counters();
    for (size_t i = 0; i < counters.size(); ++i) {
      std::string name = std::string(part.name);
      name += (name.empty() ? "" : ".") + counters[i].name;
      if (name == counter) return part.nf->counts()[i];
      known += " " + name;
    }
  }
  ADD_FAILURE() << "no counter \"" << counter << "\"; there is"
                << (known.empty() ? " none" : ":" + known);
  return 0;
}

std::vector<std::string> NfTest::states() const {
  std::vector<std::string> lines;
  if (platform_ == nullptr) return lines;
  for (const NetworkFunction::Part& part : platform_->nf().parts()) {
    if (!part.nf->has_states()) continue;
    for (const NfState& one : part.nf->states(platform_->now())) {
      std::string& line = lines.emplace_back(one.object + " " + one.state);
      if (one.since.has_value()) {
        line += " for " + FormatDuration(platform_->now() - *one.since);
      }
      if (!one.why.empty()) line += ": " + one.why;
    }
  }
  return lines;
}

size_t NfTest::flows() const {
  return platform_ == nullptr ? 0 : platform_->flows();
}

std::optional<std::vector<std::byte>> NfTest::SlotBytes(
    const std::string& name, const std::string& packet) const {
  const absl::StatusOr<TestPacket> parsed = ParsePacket(packet);
  if (platform_ == nullptr || !IsGood(parsed)) return std::nullopt;
  return platform_->SlotBytes(name, platform_->Find(*parsed));
}

void NfTest::set_supply(const std::string& pool, Supply supply) {
  if (platform_ == nullptr) return;
  const size_t index = platform_->PoolNamed(pool);
  if (index < platform_->nf().pools().size()) {
    platform_->pool(index).supply = supply;
  }
}

uint32_t NfTest::pieces_in_use(const std::string& pool) const {
  if (platform_ == nullptr) return 0;
  const size_t index = platform_->PoolNamed(pool);
  if (index == platform_->nf().pools().size()) return 0;
  return static_cast<uint32_t>(platform_->pool(index).in_use.size());
}

std::string NfTest::alias(const std::string& packet) const {
  const absl::StatusOr<TestPacket> parsed = ParsePacket(packet);
  if (platform_ == nullptr || !IsGood(parsed)) return "";
  return platform_->AliasOf(platform_->Find(*parsed));
}

void NfTest::RefuseNextAlias(AliasResult why) {
  if (platform_ != nullptr) platform_->next_alias = why;
}

NetworkFunction& NfTest::nf() { return platform_->nf(); }

bool operator==(const NfResult& result, const std::string& expected) {
  if (result.text == expected) return true;
  if (expected == "consume" || expected.starts_with("drop ")) return false;
  std::string label;
  std::string packet = expected;
  const size_t colon = packet.find(": ");
  if (colon != std::string::npos && colon < packet.find(' ')) {
    label = packet.substr(0, colon + 2);
    packet = packet.substr(colon + 2);
  }
  const absl::StatusOr<TestPacket> parsed = ParsePacket(packet);
  return IsGood(parsed) && result.text == label + ToText(*parsed);
}

std::ostream& operator<<(std::ostream& out, const NfResult& result) {
  return out << result.text;
}

}  // namespace snf
