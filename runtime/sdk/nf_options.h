// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RUNTIME_SDK_NF_OPTIONS_H_
#define SNF_RUNTIME_SDK_NF_OPTIONS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/byte_order.h"
#include "base/packet/ip_address.h"
#include "base/time.h"

namespace snf {

// The options of one NF, as "key=value,key=value" gives them. An NF's
// constructor asks for each of its options in one line, with the default, the
// valid values and the purpose:
//
//     struct PolicerOptions {
//       explicit PolicerOptions(NfOptions& o)
//           : rate_bps(o.BitRate("rate", 1'000'000, 1'000, kMaxBps,
//                                "committed rate of a connection")) {}
//       int64_t rate_bps;
//     };
//
// An option that may change while packets go through is asked for in Changing.
// Its key is then also given with a time: "drain@12s=10.0.0.3" is the value for
// packets that arrive 12 s after the epoch or later (in real time, 12 s after
// the machine was started).
//
// A missing option has its default. After an invalid one the constructor
// continues with the default, and status() reports the first error; an option
// that the NF does not ask for is an error too. A value; copies share loaded
// files. Not for the packet path.
class NfOptions {
 public:
  NfOptions() = default;
  // Parses the text after the colon in --nf NAME:… . Values contain no comma; a
  // key given twice is an error.
  static absl::StatusOr<NfOptions> Parse(std::string_view text);
  explicit NfOptions(const std::map<std::string, std::string>& values);

  // `values` describes the valid values, in capitals: "ADDRESS[-ADDRESS]". This
  // method and the next ones return the value, or `otherwise` if the option is
  // missing or wrong.
  std::string Text(const std::string& key, std::string_view otherwise,
                   std::string_view values, std::string_view help);
  int64_t Integer(const std::string& key, int64_t otherwise, int64_t min,
                  int64_t max, std::string_view help);
  Nanos Duration(const std::string& key, Nanos otherwise, Nanos min, Nanos max,
                 std::string_view help);
  // Returns bit/s; reads "10Mbps".
  int64_t BitRate(const std::string& key, int64_t otherwise, int64_t min,
                  int64_t max, std::string_view help);
  int64_t Bytes(const std::string& key, int64_t otherwise, int64_t min,
                int64_t max, std::string_view help);
  // Returns the index of the value among `names`.
  size_t Choice(const std::string& key, size_t otherwise,
                std::span<const std::string_view> names, std::string_view help);
  // Reads "true" or "false".
  bool Flag(const std::string& key, bool otherwise, std::string_view help);
  // Returns the parts of a list, which + joins; no parts if it is not given.
  // `values` describes one part.
  std::vector<std::string> List(const std::string& key, std::string_view values,
                                std::string_view help);
  // An address and a port, as "192.0.2.1:80" or "[2001:db8::1]:80".
  struct Endpoint {
    IpAddress address;
    be16 port;
    bool is_ipv6 = false;
    friend bool operator==(const Endpoint&, const Endpoint&) = default;
  };
  // Reads one endpoint. Returns nothing if the text is none, or the port is 0.
  static std::optional<Endpoint> ParseEndpoint(std::string_view text);
  static std::string ToText(const Endpoint& endpoint);
  // Reads endpoints that + joins.
  std::vector<Endpoint> Endpoints(const std::string& key,
                                  std::string_view help);

  // A value, for packets that arrive at `from` or later.
  template <typename T>
  struct Dated {
    Instant from;
    T value;
  };
  // Returns what `read` makes of the options at first, and then at each time at
  // which one of them changes; at least one value, in the order of time.
  // `read(NfOptions&)` asks for the options that may change, in every call for
  // the same. All units use the same value for a packet, wherever it is.
  template <typename Read>
  auto Changing(Read read) {
    using T = decltype(read(*this));
    std::vector<Dated<T>> values;
    BeginChanging();
    do {
      values.push_back({as_of_, read(*this)});
    } while (NextChange());
    return values;
  }

  // Returns the result of `load` for the file that the option names: read-only
  // state that all objects of the NF in a run share, loaded once. Returns null
  // if no file is given or `load` fails; its error, which names file and line,
  // then becomes status().
  template <typename T>
  std::shared_ptr<const T> Load(
      const std::string& key, std::string_view help,
      absl::StatusOr<T> (*load)(const std::string& file)) {
    const std::string file = Text(key, "", "FILE", help);
    if (file.empty()) return nullptr;
    return Share<T>(key, [&] { return load(file); });
  }
  // Returns the result of `make`, an absl::StatusOr<T>, likewise: for state of
  // several options, made once. `name` is unique among the NF's shared states
  // and files.
  template <typename T, typename Make>
  std::shared_ptr<const T> Share(const std::string& name, Make make) {
    std::shared_ptr<const void>& kept = (*loaded_)[name];
    if (kept == nullptr) {
      absl::StatusOr<T> value = make();
      if (!value.ok()) {
        FailWith(value.status());
        return nullptr;
      }
      kept = std::make_shared<const T>(*std::move(value));
    }
    return std::static_pointer_cast<const T>(kept);
  }

  // Reports an error that only the NF can detect; `message` says what is right.
  void Fail(const std::string& key, const std::string& message);
  // Called after all options were asked for. Returns OK, or InvalidArgument
  // with key and value.
  absl::Status status() const;

  // The options that were asked for, in order.
  struct Description {
    std::string key;
    std::string values;  // the valid ones: "TIME, 1 ms to 1 d"
    std::string otherwise;
    std::string help;
  };
  std::span<const Description> described() const { return described_; }
  // The text that Parse reads, sorted by key; empty without options.
  std::string text() const;
  // The given values, by key.
  std::map<std::string, std::string> values() const;

 private:
  struct Value {
    std::string text;
    bool asked = false;
  };
  // Between the two, Ask returns values as of as_of_. NextChange goes to the
  // next time; it returns false, and ends this, if there is none.
  void BeginChanging();
  bool NextChange();
  // The time behind @ in a key; nothing if there is none.
  static std::optional<Instant> TimeOf(std::string_view key);

  // Returns the option's text, or null if it is not given.
  const std::string* Ask(const std::string& key, std::string values,
                         std::string otherwise, std::string_view help);
  template <typename T, typename ParseOne, typename PrintOne>
  T Quantity(const std::string& key, std::string_view kind, T otherwise, T min,
             T max, std::string_view help, ParseOne parse, PrintOne print);
  void FailWith(const absl::Status& status);

  std::map<std::string, Value> values_;
  std::vector<Description> described_;
  Instant as_of_ = Instant::min();
  bool is_changing_ = false;
  absl::Status error_;
  std::shared_ptr<std::map<std::string, std::shared_ptr<const void>>> loaded_ =
      std::make_shared<std::map<std::string, std::shared_ptr<const void>>>();
};

}  // namespace snf

#endif  // SNF_RUNTIME_SDK_NF_OPTIONS_H_
