// SPDX-License-Identifier: Apache-2.0
#include "platform/system_test/test_tiny_nat_schedule.h"

#include <fmt/format.h>

#include <set>
#include <string>
#include <utility>

#include "base/packet/ip_prefix.h"
#include "base/packet/rewrite.h"

namespace snf {
namespace {

constexpr int64_t kMs = 1'000'000;

}  // namespace

TinyNatOptions AnyTinyNat(Rng& rng, RunOptions options) {
  options.flow.kind = FlowKeyKind::kConnection;
  options.flow.vlan = false;
  if (options.controller.flow_timeout == Nanos::max()) {
    options.controller.flow_timeout = Seconds(2);
  }
  // Small pools: what is there is somewhere else.
  const int64_t ports =
      rng.Chance(32'768) ? rng.Uniform(1, 24) : rng.Uniform(30, 1'000);
  std::string text = fmt::format("first=1024,last={}", 1023 + ports);
  if (rng.Chance(10'000)) text += fmt::format(",limit={}", rng.Uniform(1, 8));
  if (rng.Chance(4'000)) text += ",one_alias=true";
  if (rng.Chance(20'000)) options.inside = *ParsePrefixes("10.0.0.0/8");
  return {options, NfSpec(TinyNat(), *NfOptions::Parse(text))};
}

std::vector<OfferedFrame> AnyTinyTraffic(Rng& rng, bool has_inside) {
  const auto hosts = static_cast<uint64_t>(rng.Uniform(1, 40));
  const int64_t gap = rng.Chance(32'768) ? 20'000 : 500'000;
  std::vector<OfferedFrame> packets;
  std::set<uint32_t> known;
  int64_t time = 0;
  for (uint32_t i = 0; i < 250; ++i) {
    time += rng.Exponential(rng.Chance(1'500) ? 20 * kMs : gap);
    FrameFields fields = {.flow = static_cast<uint32_t>(rng.Below(hosts)),
                          .sequence = i};
    const bool is_known = !known.insert(fields.flow).second || has_inside;
    fields.from_responder = is_known && rng.Chance(26'000);
    if (rng.Chance(4'000)) fields.ask = rng.Chance(32'768) ? kEnd : kBrief;
    const bool to_alias =
        is_known && !fields.from_responder && rng.Chance(4'000);
    if (to_alias) fields.sequence |= kSentToAnAlias;
    Frame frame = UdpFrame(fields);
    if (to_alias) {
      const auto port = static_cast<uint16_t>(1024 + rng.Below(hosts));
      RewriteDestination(frame, Parse(LinkType::kEthernet, frame),
                         kExternal.ipv4(), be16(port));
    }
    packets.push_back({.time = Instant{time}, .bytes = std::move(frame)});
  }
  return packets;
}

}  // namespace snf
