// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_OUTCOME_IPFIX_EXPORTER_H_
#define SNF_PLATFORM_OUTCOME_IPFIX_EXPORTER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/ipfix/ipfix_log.h"
#include "base/ipfix/ipfix_writer.h"
#include "base/time.h"
#include "platform/report/collector_socket.h"

namespace snf {

// Theory of operation. Writes log records of NFs as IPFIX (RFC 7011), into a
// file (RFC 5655) or to a collector over UDP. Records wait until Send, which
// puts them into messages that bear the time of the last one.
//
// Worked example: a NAT makes two bindings within a millisecond. Add is called
// twice, Send once: a datagram leaves, with the template of a binding and two
// records. A collector that begins to listen later understands the next
// datagram, for each has the templates. A file has a template once, and once
// more after Open, Reopen and a write that failed. Each process is an
// observation domain of its own in a file, as several may append to it.
//
// Owner-thread only.
class IpfixExporter {
 public:
  // Opens the file, which is emptied unless `appends`, or the socket to
  // udp://HOST[:PORT]. Unavailable names which of them cannot be opened.
  static absl::StatusOr<std::unique_ptr<IpfixExporter>> Open(
      const std::string& to, bool appends);
  ~IpfixExporter();
  IpfixExporter(const IpfixExporter&) = delete;
  IpfixExporter& operator=(const IpfixExporter&) = delete;

  // Adds a record, if the NF exports it.
  void Add(const IpfixLog& nf, const LogRecord& record);
  // Counts the bytes that wait.
  size_t waiting_bytes() const { return waiting_bytes_; }
  // Writes the records. Returns how many are lost, also of calls before, and
  // sets `status` to the error if it is OK.
  uint64_t Send(absl::Status& status);
  // Opens the file by its name again, as after a rotation.
  absl::Status Reopen();

 private:
  struct Template {
    std::span<const IpfixField> fields;
    uint16_t number = 0;  // 0: the writer does not have it
  };
  struct Waiting {
    size_t of = 0;  // index in templates_
    std::string values;
  };

  explicit IpfixExporter(std::string to) : to_(std::move(to)) {}
  absl::Status OpenFile(bool appends);
  void BeginFile();
  // Returns the index of the template with the fields. Adds it if there is room
  // for all templates in a datagram, else returns nothing.
  std::optional<size_t> TemplateOf(std::span<const IpfixField> fields);
  absl::Status SendMessage(std::string_view message);
  absl::Status WriteToFile(std::string_view message) const;

  const std::string to_;
  int fd_ = -1;  // of the file
  std::optional<CollectorSocket> socket_;
  std::vector<Waiting> waiting_;
  size_t waiting_bytes_ = 0;
  uint64_t lost_ = 0;  // records, not returned yet
  Instant newest_;
  std::optional<IpfixWriter> writer_;
  std::vector<Template> templates_;
  size_t template_bytes_ = 0;  // of all templates
};

}  // namespace snf

#endif  // SNF_PLATFORM_OUTCOME_IPFIX_EXPORTER_H_
