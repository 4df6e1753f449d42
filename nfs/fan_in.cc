// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <numbers>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/packet/flow_key.h"
#include "base/packet/ip_address.h"
#include "base/packet/ip_prefix.h"
#include "runtime/sdk/nf.h"

namespace snf {
namespace {

// Theory of operation. Estimates how many different sources each destination
// has, as scans and floods have many, in a HyperLogLog sketch (Flajolet et al.,
// AofA 2007): a source is hashed; some bits of the hash name a register, and
// the register keeps the longest run of zeros that the other bits began with.
// The estimate is that of Ertl (arXiv:1702.01284, §4), which never falls when a
// register grows. Its standard error is 1.04 / √128 = 9 %.
//
// The sketch is a value of the author's own in a shared table: units merge
// sketches by the greatest of each register. That has no inverse, and a source
// that two units count is counted once. When a destination has `many` sources,
// the table's trigger marks it.
//
// Example: many=100. At 60 units, 2 sources each, of which 20 are counted
// twice, are sent to 10.0.0.1: its sketch has 100 sources, and 10.0.0.1 is
// marked.
class FanIn final : public NetworkFunction {
 public:
  explicit FanIn(NfOptions& options)
      : top_(static_cast<size_t>(options.Integer(
            "top", 10, 0, 1'000, "most destinations in the report"))),
        many_(static_cast<uint32_t>(
            options.Integer("many", 1'000, 1, 1'000'000'000,
                            "sources from which on a destination is marked"))),
        sources_(declare_shared<IpAddress, Sketch, MergeSketches>(
            "sources",
            static_cast<uint32_t>(options.Integer(
                "destinations", 16'384, 1, 1'048'576,
                "destinations that are told apart; others are counted as one")),
            {}, TableReader::kReport)) {
    sources_.when(
        [](const Sketch& sketch) { return sketch.Estimate() >= sketch.many; },
        [](Sketch& sketch) { sketch.is_marked = 1; });
  }

  Verdict process_packet(Packet& packet, FlowState& flow) override {
    if (flow.has(counted_)) return Verdict::forward();
    flow.put(counted_, {1});
    const FlowKey key =
        FiveTuple(packet.bytes(), packet.headers(), /*with_vlan=*/false);
    sources_.update(key.destination, Sketch::Of(key.source, many_));
    return Verdict::forward();
  }

  bool takes_merged() const override { return true; }

  NfReport report() const override {
    using Row = std::pair<IpAddress, Sketch>;
    std::vector<Row> all;
    sources_.for_each([&](const IpAddress& address, const Sketch& sketch) {
      all.emplace_back(address, sketch);
    });
    std::ranges::sort(all, [](const Row& a, const Row& b) {
      return std::make_tuple(b.second.Estimate(), a.first) <
             std::make_tuple(a.second.Estimate(), b.first);
    });
    NfReport::Table table = {.title = "Destinations by sources",
                             .columns = {"destination", "sources", "many"},
                             .rows = {}};
    const auto add = [&table](const std::string& name, const Sketch& sketch) {
      table.rows.push_back({name, sketch.Estimate(),
                            std::string(sketch.is_marked != 0 ? "yes" : "no")});
    };
    for (size_t i = 0; i < std::min(top_, all.size()); ++i) {
      const IpPrefix host = {.address = all[i].first, .length = 128};
      add(FormatPrefixes({&host, 1}), all[i].second);
    }
    if (sources_.rest().Estimate() > 0) add("(no room for)", sources_.rest());
    return {.tables = {table}, .files = {}};
  }

 private:
  struct Sketch {
    static constexpr uint32_t kRegisters = 128;

    static Sketch Of(const IpAddress& source, uint32_t many) {
      uint64_t words[2];
      std::memcpy(words, source.bytes.data(), sizeof words);
      const uint64_t hash = Mix(words[0] ^ Mix(words[1]));
      Sketch sketch;
      // A one behind the hash's bits bounds the run.
      const int zeros = std::countl_zero(hash | (kRegisters - 1));
      sketch.registers[hash % kRegisters] = static_cast<uint8_t>(zeros + 1);
      sketch.many = many;
      return sketch;
    }
    uint64_t Estimate() const {
      double sum = 0;
      double zeros = 0;
      for (const uint8_t run : registers) {
        if (run == 0) {
          ++zeros;
        } else {
          sum += std::ldexp(1.0, -run);
        }
      }
      if (zeros == kRegisters) return 0;
      sum += kRegisters * Sigma(zeros / kRegisters);
      constexpr double kAlpha = 0.5 / std::numbers::ln2;
      return static_cast<uint64_t>(
          std::lround(kAlpha * kRegisters * kRegisters / sum));
    }

    std::array<uint8_t, kRegisters> registers{};
    uint32_t many = 0;
    uint32_t is_marked = 0;

   private:
    // Splitmix64 (Steele et al., OOPSLA 2014).
    static uint64_t Mix(uint64_t word) {
      word += 0x9e37'79b9'7f4a'7c15;
      word = (word ^ word >> 30) * 0xbf58'476d'1ce4'e5b9;
      word = (word ^ word >> 27) * 0x94d0'49bb'1331'11eb;
      return word ^ word >> 31;
    }
    // Ertl's σ, for x < 1: x + Σ x^(2^k) · 2^(k-1).
    static double Sigma(double x) {
      double sum = x;
      double before = -1;
      for (double y = 1; sum != before; y += y) {
        x *= x;
        before = sum;
        sum += x * y;
      }
      return sum;
    }
  };
  struct MergeSketches {
    void operator()(Sketch& sketch, const Sketch& more) const {
      for (uint32_t i = 0; i < Sketch::kRegisters; ++i) {
        sketch.registers[i] = std::max(sketch.registers[i], more.registers[i]);
      }
      sketch.many = std::max(sketch.many, more.many);
      sketch.is_marked = std::max(sketch.is_marked, more.is_marked);
    }
  };
  struct Counted {
    uint64_t is_counted = 0;
  };

  size_t top_;
  uint32_t many_;
  Slot<Counted> counted_ = declare<Counted>("counted");
  SharedTable<IpAddress, Sketch> sources_;
};
SNF_REGISTER_NF(FanIn, "fan_in",
                "estimates the sources of each destination, and marks many");

}  // namespace
}  // namespace snf
