// SPDX-License-Identifier: Apache-2.0
#define PCRE2_CODE_UNIT_WIDTH 8
#include "nfs/snort/regex.h"

#include <pcre2.h>

#include <algorithm>

#include "absl/status/status.h"
#include "nfs/snort/option_text.h"

namespace snf::snort {
namespace {

struct CodeDeleter {
  void operator()(void* code) const {
    pcre2_code_free(static_cast<pcre2_code*>(code));
  }
};

}  // namespace

absl::StatusOr<Regex> Regex::Compile(std::string_view pattern, Flags flags) {
  const uint32_t options =
      (flags.nocase ? PCRE2_CASELESS : 0) | (flags.dot_all ? PCRE2_DOTALL : 0) |
      (flags.multiline ? PCRE2_MULTILINE : 0) |
      (flags.extended ? PCRE2_EXTENDED : 0) |
      (flags.anchored ? PCRE2_ANCHORED : 0) |
      (flags.dollar_end ? PCRE2_DOLLAR_ENDONLY : 0) |
      (flags.ungreedy ? PCRE2_UNGREEDY : 0) | PCRE2_NEVER_BACKSLASH_C;
  // Rules were written for PCRE 1, which takes unknown escapes as letters.
  pcre2_compile_context* const context = pcre2_compile_context_create(nullptr);
  pcre2_set_compile_extra_options(context, PCRE2_EXTRA_BAD_ESCAPE_IS_LITERAL);
  int error = 0;
  size_t at = 0;
  pcre2_code* const code =
      pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()),
                    pattern.size(), options, &error, &at, context);
  pcre2_compile_context_free(context);
  if (code == nullptr) {
    unsigned char text[200] = {};
    pcre2_get_error_message(error, text, sizeof text);
    return absl::InvalidArgumentError(
        Cat(reinterpret_cast<const char*>(text), " at offset ", at));
  }
  // Without machine code for it, a search is only slower.
  pcre2_jit_compile(code, PCRE2_JIT_COMPLETE);
  Regex regex;
  regex.code_ = std::shared_ptr<void>(code, CodeDeleter{});
  return regex;
}

RegexMatcher::RegexMatcher(uint32_t match_limit)
    : context_(pcre2_match_context_create(nullptr)),
      match_(pcre2_match_data_create(1, nullptr)) {
  auto* const context = static_cast<pcre2_match_context*>(context_);
  pcre2_set_match_limit(context, match_limit);
  pcre2_set_depth_limit(context, match_limit);
  pcre2_set_heap_limit(context, 1'024);  // KiB
}

RegexMatcher::~RegexMatcher() {
  pcre2_match_data_free(static_cast<pcre2_match_data*>(match_));
  pcre2_match_context_free(static_cast<pcre2_match_context*>(context_));
}

std::optional<std::pair<size_t, size_t>> RegexMatcher::Find(
    const Regex& regex, std::string_view subject, size_t from) {
  if (from > subject.size()) return std::nullopt;
  auto* const match = static_cast<pcre2_match_data*>(match_);
  const int found =
      pcre2_match(static_cast<const pcre2_code*>(regex.code_.get()),
                  reinterpret_cast<PCRE2_SPTR>(
                      subject.data() == nullptr ? "" : subject.data()),
                  subject.size(), from, 0, match,
                  static_cast<pcre2_match_context*>(context_));
  if (found < 0) {
    if (found != PCRE2_ERROR_NOMATCH) ++limits_reached_;
    return std::nullopt;
  }
  const size_t* const ends = pcre2_get_ovector_pointer(match);
  // \K may put the begin behind the end.
  return std::pair(std::min(ends[0], ends[1]), ends[1]);
}

}  // namespace snf::snort
