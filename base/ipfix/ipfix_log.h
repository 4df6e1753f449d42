// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_BASE_IPFIX_IPFIX_LOG_H_
#define SNF_BASE_IPFIX_IPFIX_LOG_H_

#include <span>
#include <string>

#include "base/ipfix/ipfix_writer.h"
#include "base/messages/log_batch.h"

namespace snf {

// A part of an NF that has log records for collectors of IPFIX too (--ipfix).
// Such an NF derives from NetworkFunction and from this:
//
//     std::span<const IpfixField> write_ipfix(const LogRecord& record,
//                                             std::string& values) const {
//       static constexpr std::array kFields = {kIpfixTime, kIpfixSource4};
//       AppendIpfix(record.time.ns / 1'000'000, 8, values);
//       …
//       return kFields;
//     }
//
// Thread-compatible, as the NF.
class IpfixLog {
 public:
  virtual ~IpfixLog() = default;

  // Returns true if the NF, with its options, writes such records.
  virtual bool has_ipfix() const = 0;
  // Appends the values of a record in network order, and returns their fields,
  // which live as long as the program. No fields: the record is not exported,
  // and nothing was appended. `record` may come from a unit that is not
  // trusted.
  virtual std::span<const IpfixField> write_ipfix(
      const LogRecord& record, std::string& values) const = 0;
};

}  // namespace snf

#endif  // SNF_BASE_IPFIX_IPFIX_LOG_H_
