// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_NFS_SNORT_PAYLOAD_OPTIONS_H_
#define SNF_NFS_SNORT_PAYLOAD_OPTIONS_H_

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "nfs/snort/option_answer.h"
#include "nfs/snort/rule.h"

namespace snf::snort {

// Reads the options of a rule about payload (Snort 2.9 manual, §3.5): in the
// order of the rule, as later ones refer to earlier ones. Thread-compatible;
// the rule must outlive the object.
class PayloadOptions {
 public:
  explicit PayloadOptions(Rule& rule) : rule_(rule) {}

  // Returns nothing if the option is not about payload.
  std::optional<Answer> Read(std::string_view name, std::string_view value);
  // Why the option that was read last has no effect; "" if it has.
  const std::string& ignored() const { return ignored_; }
  // The checks of what belongs together, behind the last option.
  Answer End() const;

 private:
  Answer ReadContent(std::string_view value);
  Answer ReadUriContent(std::string_view value);
  Answer ReadNocase(std::string_view value);
  template <bool kRelative, bool kIsBegin>
  Answer ReadPosition(std::string_view value);
  Answer ReadFastPattern(std::string_view value);
  Answer ReadRawBytes(std::string_view value);
  template <Buffer kBuffer>
  Answer ReadBuffer(std::string_view value);
  Answer ReadFileData(std::string_view value);
  Answer ReadPacketData(std::string_view value);
  Answer ReadPcre(std::string_view value);
  Answer ReadByteTest(std::string_view value);
  Answer ReadByteJump(std::string_view value);
  Answer ReadByteExtract(std::string_view value);
  Answer ReadDataAt(std::string_view value);

  Content* LastContent() {
    return last_content_ < 0
               ? nullptr
               : &std::get<Content>(
                     rule_.payload_tests[static_cast<size_t>(last_content_)]
                         .test);
  }
  template <typename Test>
  void Add(Test test) {
    rule_.payload_tests.push_back({std::move(test), sticky_, false});
  }
  std::optional<Amount> ReadAmount(std::string_view text) const;
  // Reads one of the words behind the fixed arguments of byte_test and its
  // like. Returns false if it is none.
  bool ReadNumberWord(std::string_view word, NumberAt& at) const;

  Rule& rule_;
  Buffer sticky_ = Buffer::kPayload;
  ptrdiff_t last_content_ = -1;
  std::vector<std::string> variables_;
  std::string ignored_;
};

}  // namespace snf::snort

#endif  // SNF_NFS_SNORT_PAYLOAD_OPTIONS_H_
