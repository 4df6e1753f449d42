// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RUNTIME_SDK_NF_OPTIONS_H_
#define SNF_RUNTIME_SDK_NF_OPTIONS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
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
// A missing option has its default. After a wrong one the constructor goes on
// with the default, and status() reports the first error; an option that nobody
// asked for is an error too. A value; copies share loaded files. Not for the
// packet path.
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
    std::shared_ptr<const void>& kept = (*loaded_)[key];
    if (kept == nullptr) {
      absl::StatusOr<T> value = load(file);
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
  // Returns the option's text, or null if it is not given.
  const std::string* Ask(const std::string& key, std::string values,
                         std::string otherwise, std::string_view help);
  template <typename T, typename ParseOne, typename PrintOne>
  T Quantity(const std::string& key, std::string_view kind, T otherwise, T min,
             T max, std::string_view help, ParseOne parse, PrintOne print);
  void FailWith(const absl::Status& status);

  std::map<std::string, Value> values_;
  std::vector<Description> described_;
  absl::Status error_;
  std::shared_ptr<std::map<std::string, std::shared_ptr<const void>>> loaded_ =
      std::make_shared<std::map<std::string, std::shared_ptr<const void>>>();
};

}  // namespace snf

#endif  // SNF_RUNTIME_SDK_NF_OPTIONS_H_
