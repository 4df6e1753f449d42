// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_NFS_SNORT_OPTION_READER_H_
#define SNF_NFS_SNORT_OPTION_READER_H_

#include <string>
#include <string_view>

#include "nfs/snort/header_options.h"
#include "nfs/snort/option_answer.h"
#include "nfs/snort/payload_options.h"
#include "nfs/snort/rule.h"
#include "nfs/snort/rule_parser.h"

namespace snf::snort {

// Reads the options of one rule. Thread-compatible; the rule and the names must
// outlive the object.
class OptionReader {
 public:
  OptionReader(Rule& rule, FlowbitNames& flowbits)
      : rule_(rule), flowbits_(flowbits), headers_(rule), payload_(rule) {}

  Answer Read(std::string_view name, std::string_view value);
  // Why an option that was read has no effect; "" if it has.
  const std::string& ignored() const { return ignored_; }
  // The checks of what belongs together, behind the last option.
  Answer End();

 private:
  Answer ReadMessage(std::string_view value);
  Answer ReadSid(std::string_view value);
  Answer ReadGid(std::string_view value);
  Answer ReadRevision(std::string_view value);
  Answer ReadClass(std::string_view value);
  Answer ReadPriority(std::string_view value);
  Answer ReadReference(std::string_view value);
  Answer ReadMetadata(std::string_view value);
  Answer ReadNothing(std::string_view value);
  Answer ReadThreshold(std::string_view value);
  Answer ReadFilter(std::string_view value);
  Answer ReadFlowbits(std::string_view value);
  Answer ReadFlow(std::string_view value);

  Rule& rule_;
  FlowbitNames& flowbits_;
  HeaderOptions headers_;
  PayloadOptions payload_;
  std::string ignored_;
};

}  // namespace snf::snort

#endif  // SNF_NFS_SNORT_OPTION_READER_H_
