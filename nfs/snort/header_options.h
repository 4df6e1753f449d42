// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_NFS_SNORT_HEADER_OPTIONS_H_
#define SNF_NFS_SNORT_HEADER_OPTIONS_H_

#include <optional>
#include <string_view>

#include "nfs/snort/option_answer.h"
#include "nfs/snort/rule.h"

namespace snf::snort {

// Reads the options of a rule about headers and sizes (Snort 2.9 manual, §3.6).
// Thread-compatible; the rule must outlive the object.
class HeaderOptions {
 public:
  explicit HeaderOptions(Rule& rule) : rule_(rule) {}

  // Returns nothing if the option is not about headers.
  std::optional<Answer> Read(std::string_view name, std::string_view value);

 private:
  template <Field kField>
  Answer ReadField(std::string_view value);
  Answer ReadIpProtocol(std::string_view value);
  Answer ReadFragmentOffset(std::string_view value);
  Answer ReadUriLength(std::string_view value);
  Answer ReadFlags(std::string_view value);
  Answer ReadFragmentBits(std::string_view value);
  Answer ReadIpOptions(std::string_view value);
  Answer ReadSameIp(std::string_view value);

  Rule& rule_;
};

}  // namespace snf::snort

#endif  // SNF_NFS_SNORT_HEADER_OPTIONS_H_
