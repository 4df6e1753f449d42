// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_NFS_SNORT_REGEX_H_
#define SNF_NFS_SNORT_REGEX_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/statusor.h"

namespace snf::snort {

// A compiled regular expression (PCRE2). Immutable; threads share it.
class Regex {
 public:
  struct Flags {
    bool nocase = false;      // i
    bool dot_all = false;     // s
    bool multiline = false;   // m
    bool extended = false;    // x
    bool anchored = false;    // A
    bool dollar_end = false;  // E
    bool ungreedy = false;    // G
    friend bool operator==(const Flags&, const Flags&) = default;
  };

  // InvalidArgument says why, with the offset in the pattern.
  static absl::StatusOr<Regex> Compile(std::string_view pattern, Flags flags);

 private:
  friend class RegexMatcher;
  std::shared_ptr<void> code_;
};

// Finds matches; holds the memory for that. Owner-thread only.
class RegexMatcher {
 public:
  // Steps that one search may take; it ends without a match beyond.
  explicit RegexMatcher(uint32_t match_limit);
  ~RegexMatcher();
  RegexMatcher(const RegexMatcher&) = delete;
  RegexMatcher& operator=(const RegexMatcher&) = delete;

  // Returns the first match that begins at `from` or later, as begin and end.
  std::optional<std::pair<size_t, size_t>> Find(const Regex& regex,
                                                std::string_view subject,
                                                size_t from);
  // Counts searches that reached a limit.
  uint64_t limits_reached() const { return limits_reached_; }

 private:
  void* context_;
  void* match_;
  uint64_t limits_reached_ = 0;
};

}  // namespace snf::snort

#endif  // SNF_NFS_SNORT_REGEX_H_
