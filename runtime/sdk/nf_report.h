// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RUNTIME_SDK_NF_REPORT_H_
#define SNF_RUNTIME_SDK_NF_REPORT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/time.h"

namespace snf {

// The state of an object that an NF watches, such as a server, during a run
// (NetworkFunction::states).
struct NfState {
  std::string object;  // "tcp 10.0.0.1:8080", unique in the NF
  std::string state;   // a word: "up", "down"
  // Absent if the object has been so since the beginning, or longer than the NF
  // knows.
  std::optional<Instant> since = std::nullopt;
  std::string why = {};  // "checks fail: no answer"; may be empty
};

// The report of an NF after a run (NetworkFunction::report).
struct NfReport {
  using Cell = std::variant<uint64_t, std::string>;
  // A table, which is a section of the text report and an array of objects in
  // JSON.
  struct Table {
    std::string title;                 // "Top talkers"
    std::vector<std::string> columns;  // "bytes_sent": keys of the objects
    std::vector<std::vector<Cell>> rows;
  };
  // A file to be written at a path that the user named.
  struct File {
    std::string path;
    std::string bytes;
  };
  // A place to which messages are sent: over UDP, or over TCP, in order.
  struct Collector {
    std::string host;
    uint16_t port;
    bool is_udp;
    friend bool operator==(const Collector&, const Collector&) = default;
  };
  // Messages for a collector; over UDP each is a datagram.
  struct Export {
    Collector to;
    std::vector<std::string> messages;
  };
  std::vector<Table> tables;
  std::vector<File> files;
  std::vector<Export> exports = {};
};

}  // namespace snf

#endif  // SNF_RUNTIME_SDK_NF_REPORT_H_
