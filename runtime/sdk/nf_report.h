// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RUNTIME_SDK_NF_REPORT_H_
#define SNF_RUNTIME_SDK_NF_REPORT_H_

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

namespace snf {

// What an NF tells when a run is over (NetworkFunction::report).
struct NfReport {
  using Cell = std::variant<uint64_t, std::string>;
  // For people a section of the report, for programs an array of objects.
  struct Table {
    std::string title;                 // "Top talkers"
    std::vector<std::string> columns;  // "bytes_sent": keys of the objects
    std::vector<std::vector<Cell>> rows;
  };
  // To be written, where the user named the path.
  struct File {
    std::string path;
    std::string bytes;
  };
  std::vector<Table> tables;
  std::vector<File> files;
};

}  // namespace snf

#endif  // SNF_RUNTIME_SDK_NF_REPORT_H_
