// SPDX-License-Identifier: Apache-2.0
#include "base/quantity.h"

#include <cstdlib>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "base/rng.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace snf {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kMin = std::numeric_limits<int64_t>::min();
constexpr int64_t kMax = std::numeric_limits<int64_t>::max();

int64_t DurationNs(const std::string& text) {
  const absl::StatusOr<Nanos> parsed = ParseDuration(text);
  EXPECT_TRUE(parsed.ok()) << parsed.status();
  return parsed.value_or(Nanos{-1}).ns;
}

int64_t Bytes(const std::string& text) {
  const absl::StatusOr<int64_t> parsed = ParseBytes(text);
  EXPECT_TRUE(parsed.ok()) << parsed.status();
  return parsed.value_or(-1);
}

int64_t BitRate(const std::string& text) {
  const absl::StatusOr<int64_t> parsed = ParseBitRate(text);
  EXPECT_TRUE(parsed.ok()) << parsed.status();
  return parsed.value_or(-1);
}

TEST(Quantity, ParsesDurationsExactly) {
  EXPECT_EQ(DurationNs("500us"), 500'000);
  EXPECT_EQ(DurationNs("1.5ms"), 1'500'000);
  EXPECT_EQ(DurationNs("30s"), 30'000'000'000);
  EXPECT_EQ(DurationNs("2h"), 7'200'000'000'000);
  EXPECT_EQ(DurationNs("5m"), 300'000'000'000);
  EXPECT_EQ(DurationNs("5min"), 300'000'000'000);
  EXPECT_EQ(DurationNs("17ns"), 17);
  EXPECT_EQ(DurationNs("0"), 0);
  EXPECT_EQ(DurationNs("0s"), 0);
  EXPECT_EQ(DurationNs("0.1us"), 100);
  EXPECT_EQ(DurationNs("0.000000001s"), 1);
  EXPECT_EQ(DurationNs("1.100000000000000000000s"), 1'100'000'000);
  EXPECT_EQ(DurationNs("0000000000000000000000001us"), 1'000);
  EXPECT_EQ(DurationNs("500 µs"), 500'000);
  EXPECT_EQ(DurationNs("500\u03bcs"), 500'000);
  EXPECT_EQ(DurationNs("9223372036854775807ns"), kMax);
  EXPECT_EQ(DurationNs("9223372036.854775807s"), kMax);
}

TEST(Quantity, ParsesInfinityOnlyWhereItIsAllowed) {
  EXPECT_EQ(ParseDurationOrInfinity("inf").value(), Nanos::max());
  EXPECT_EQ(ParseDurationOrInfinity("1us").value(), Microseconds(1));
  EXPECT_FALSE(ParseDuration("inf").ok());
  EXPECT_FALSE(ParseBytes("inf").ok());
}

TEST(Quantity, ParsesBytes) {
  EXPECT_EQ(Bytes("15KB"), 15'000);
  EXPECT_EQ(Bytes("15kB"), 15'000);
  EXPECT_EQ(Bytes("1MiB"), 1'048'576);
  EXPECT_EQ(Bytes("1.5KiB"), 1'536);
  EXPECT_EQ(Bytes("0.5TiB"), int64_t{1} << 39);
  EXPECT_EQ(Bytes("96B"), 96);
  EXPECT_EQ(Bytes("96"), 96);
  EXPECT_EQ(Bytes("0"), 0);
  EXPECT_EQ(Bytes("2.5 GB"), 2'500'000'000);
  EXPECT_EQ(Bytes("3GiB"), int64_t{3} << 30);
  EXPECT_EQ(Bytes("7MB"), 7'000'000);
  EXPECT_EQ(Bytes("9223372.036854775807TB"), kMax);
}

TEST(Quantity, ParsesBitRates) {
  EXPECT_EQ(BitRate("1Gbps"), 1'000'000'000);
  EXPECT_EQ(BitRate("500Mbps"), 500'000'000);
  EXPECT_EQ(BitRate("93.5Gbps"), 93'500'000'000);
  EXPECT_EQ(BitRate("100kbit/s"), 100'000);
  EXPECT_EQ(BitRate("100Kbps"), 100'000);
  EXPECT_EQ(BitRate("812 Mbit/s"), 812'000'000);
  EXPECT_EQ(BitRate("1.6Tbps"), 1'600'000'000'000);
  EXPECT_EQ(BitRate("9bps"), 9);
}

TEST(Quantity, ParsesAndPrintsPacketRates) {
  EXPECT_EQ(ParsePacketRate("1Mpps").value(), 1'000'000);
  EXPECT_EQ(ParsePacketRate("14.88 Mpps").value(), 14'880'000);
  EXPECT_EQ(ParsePacketRate("250kpps").value(), 250'000);
  EXPECT_EQ(ParsePacketRate("7pps").value(), 7);
  EXPECT_EQ(ParsePacketRate("1Mbps").status().message(),
            "rate \"1Mbps\" has no known unit; want for example \"1Mpps\", "
            "\"250kpps\" or \"900pps\"");
  EXPECT_EQ(FormatPacketRate(1'250'000), "1.25 Mpps");
  EXPECT_EQ(FormatPacketRate(1'250'001, Precision::kExact), "1.250001 Mpps");
}

TEST(Quantity, RefusesJunkWithTheValueAndAnExample) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", "is no number with a unit"},
      {"us", "is no number with a unit"},
      {"-5us", "is no number with a unit"},
      {"+5us", "is no number with a unit"},
      {" 5us", "is no number with a unit"},
      {".5us", "is no number with a unit"},
      {"5.us", "has no digit after its point"},
      {"5", "has no unit"},
      {"5 ", "ends in a space"},
      {"5  us", "has no known unit"},
      {"5us ", "has no known unit"},
      {"5US", "has no known unit"},
      {"1e3us", "has no known unit"},
      {"1,000us", "has no known unit"},
      {"1h30m", "has no known unit"},
      {"1.2.3s", "has no known unit"},
      {std::string("5us\0", 4), "has no known unit"},
      {"0.5ns", "is finer than 1 ns"},
      {"1.0001us", "is finer than 1 ns"},
      {"0.0000000000000000001h", "more than 18 digits after its point"},
  };
  for (const auto& [text, what] : cases) {
    SCOPED_TRACE(text);
    const absl::Status status = ParseDuration(text).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("duration \"" + text + "\" "));
    EXPECT_THAT(std::string(status.message()), HasSubstr(what));
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("; want for example \"500us\""));
  }
}

TEST(Quantity, RefusesWhatIsNoSizeOrRate) {
  EXPECT_EQ(ParseBytes("0.5B").status().message(),
            "size \"0.5B\" is finer than 1 byte; want for example \"96B\", "
            "\"15KB\" or \"1MiB\"");
  EXPECT_FALSE(ParseBytes("0.3KiB").ok());
  EXPECT_FALSE(ParseBytes("15kb").ok());
  EXPECT_FALSE(ParseBytes("15us").ok());
  EXPECT_EQ(ParseBitRate("500").status().message(),
            "rate \"500\" has no unit; want for example \"500Mbps\", "
            "\"1Gbps\" or \"100kbit/s\"");
  EXPECT_FALSE(ParseBitRate("5MB/s").ok());
  EXPECT_FALSE(ParseBitRate("5mbps").ok());
  EXPECT_FALSE(ParseBitRate("0.1bps").ok());
}

TEST(Quantity, RefusesWhatDoesNotFit) {
  for (const char* text :
       {"9223372036854775808ns", "9223372036.854775808s", "9223372036855us000",
        "99999999999999999999999999999999999999999h", "18446744073709551617ns",
        "2562048h"}) {
    SCOPED_TRACE(text);
    EXPECT_FALSE(ParseDuration(text).ok());
  }
  const absl::Status status = ParseBytes("8388608TiB").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kOutOfRange);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("size \"8388608TiB\" is too large"));
  EXPECT_EQ(Bytes("8388607TiB"), kMax - (int64_t{1} << 40) + 1);
}

TEST(Quantity, PrintsDurationsForReading) {
  const std::vector<std::pair<int64_t, std::string>> cases = {
      {0, "0 ns"},
      {7, "7 ns"},
      {999, "999 ns"},
      {1'000, "1.00 µs"},
      {500'000, "500 µs"},
      {1'250'000, "1.25 ms"},
      {1'254'999, "1.25 ms"},
      {1'255'000, "1.26 ms"},
      {9'994'999, "9.99 ms"},
      {9'995'000, "10.0 ms"},
      {99'949'999, "99.9 ms"},
      {99'950'000, "100 ms"},
      {999'499'999, "999 ms"},
      {999'500'000, "1.00 s"},
      {30'000'000'000, "30.0 s"},
      {1'000'000'000'000, "16.7 min"},
      {7'200'000'000'000, "2.00 h"},
      {142'449'834'964'568'000, "39,569 h"},
      {kMax, "inf"},
      {-1'250'000, "-1.25 ms"},
      {kMin, "-9,223,372,037 s"},
  };
  for (const auto& [ns, text] : cases) {
    EXPECT_EQ(FormatDuration(Nanos{ns}), text) << ns;
  }
}

TEST(Quantity, PrintsBytesRatesAndCountsForReading) {
  EXPECT_EQ(FormatBytes(96), "96 B");
  EXPECT_EQ(FormatBytes(15'000), "15.0 KB");
  EXPECT_EQ(FormatBytes(1'048'576), "1.05 MB");
  EXPECT_EQ(FormatBytes(kMax), "9,223,372 TB");
  EXPECT_EQ(FormatBitRate(812'000'000), "812 Mbit/s");
  EXPECT_EQ(FormatBitRate(1'000'000'000), "1.00 Gbit/s");
  EXPECT_EQ(FormatBitRate(9), "9 bit/s");
  EXPECT_EQ(FormatBitRate(100'000), "100 kbit/s");
  EXPECT_EQ(FormatCount(0), "0");
  EXPECT_EQ(FormatCount(999), "999");
  EXPECT_EQ(FormatCount(1'000), "1,000");
  EXPECT_EQ(FormatCount(182'637), "182,637");
  EXPECT_EQ(FormatCount(~uint64_t{0}), "18,446,744,073,709,551,615");
}

TEST(Quantity, PrintsExactlyWhenAsked) {
  EXPECT_EQ(FormatDuration(Nanos{1'234'500}, Precision::kExact), "1.2345 ms");
  EXPECT_EQ(FormatDuration(Microseconds(500), Precision::kExact), "500 µs");
  EXPECT_EQ(FormatDuration(Seconds(7'200), Precision::kExact), "7200 s");
  EXPECT_EQ(FormatDuration(Nanos{0}, Precision::kExact), "0 ns");
  EXPECT_EQ(FormatBytes(1'536, Precision::kExact), "1.536 KB");
  EXPECT_EQ(FormatBytes(1'000'001, Precision::kExact), "1.000001 MB");
  EXPECT_EQ(FormatBitRate(93'500'000'000, Precision::kExact), "93.5 Gbit/s");
}

TEST(Quantity, ParsesBackAllThatItPrintsExactly) {
  constexpr uint64_t kSeed = 41;
  SCOPED_TRACE(testing::Message() << "seed " << kSeed);
  Rng rng(kSeed);
  for (int i = 0; i < 20'000; ++i) {
    const auto n = static_cast<int64_t>(rng.Next() >> rng.Uniform(1, 63));
    EXPECT_EQ(DurationNs(FormatDuration(Nanos{n}, Precision::kExact)), n);
    EXPECT_EQ(Bytes(FormatBytes(n, Precision::kExact)), n);
    EXPECT_EQ(BitRate(FormatBitRate(n, Precision::kExact)), n);
  }
}

TEST(Quantity, PrintsForReadingToHalfAPercent) {
  constexpr uint64_t kSeed = 42;
  SCOPED_TRACE(testing::Message() << "seed " << kSeed);
  Rng rng(kSeed);
  for (int i = 0; i < 20'000; ++i) {
    // Below 999 s, TB and Tbit/s, from where separators and minutes come in.
    const int64_t n = static_cast<int64_t>(rng.Next() >> 25 >> rng.Below(39));
    EXPECT_LE(std::abs(DurationNs(FormatDuration(Nanos{n})) - n), n / 200);
    EXPECT_LE(std::abs(Bytes(FormatBytes(n)) - n), n / 200);
    EXPECT_LE(std::abs(BitRate(FormatBitRate(n)) - n), n / 200);
  }
}

}  // namespace
}  // namespace snf
