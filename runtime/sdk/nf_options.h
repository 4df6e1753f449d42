// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RUNTIME_SDK_NF_OPTIONS_H_
#define SNF_RUNTIME_SDK_NF_OPTIONS_H_

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/time.h"

namespace snf {

// The options of one NF, as "key=value,key=value" gives them. An NF's
// constructor asks for each that it has; what is missing has the default, and
// what is wrong is remembered: the constructor goes on with the default, and
// status() tells of the first thing wrong, an option that nobody asked for
// among them. Values contain no comma; a key given twice is an error. A value;
// not for the packet path.
class NfOptions {
 public:
  NfOptions() = default;
  // Of the text after the colon in --nf NAME:… .
  static absl::StatusOr<NfOptions> Parse(std::string_view text);

  std::string Text(const std::string& key, std::string_view otherwise);
  int64_t Integer(const std::string& key, int64_t otherwise, int64_t min,
                  int64_t max);
  Nanos Duration(const std::string& key, Nanos otherwise, Nanos min, Nanos max);
  // The index of the value among `names`.
  size_t Choice(const std::string& key, size_t otherwise,
                std::span<const std::string_view> names);
  bool Flag(const std::string& key, bool otherwise);  // "true" or "false"

  // For what only the NF can see: `message` says what is right.
  void Fail(const std::string& key, const std::string& message);
  // Call when all were asked for. InvalidArgument, naming key and value.
  absl::Status status() const;

 private:
  struct Value {
    std::string text;
    bool asked = false;
  };
  // Null where it is not given.
  const std::string* Ask(const std::string& key);

  std::map<std::string, Value> values_;
  absl::Status error_;
};

}  // namespace snf

#endif  // SNF_RUNTIME_SDK_NF_OPTIONS_H_
