// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_SYSTEM_TEST_TEST_CAPTURES_H_
#define SNF_PLATFORM_SYSTEM_TEST_TEST_CAPTURES_H_

#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

namespace snf {

// Real captures that are not part of the project, with a table of what is in
// them (MANIFEST.tsv): SNF_TRACES names their folder. Tests run from the
// source root, and are skipped where the captures are not.
inline std::string CapturesDir() {
  const char* named = std::getenv("SNF_TRACES");
  return named != nullptr ? named : "../shared/traces";
}

using TableRow = std::map<std::string, std::string>;

// The rows of a tab-separated table by its heading; empty where there is none.
inline std::vector<TableRow> ReadTable(const std::string& path) {
  std::ifstream in(path);
  std::vector<std::string> heading;
  std::vector<TableRow> rows;
  for (std::string line; std::getline(in, line);) {
    std::vector<std::string> cells;
    std::istringstream split(line);
    for (std::string cell; std::getline(split, cell, '\t');) {
      cells.push_back(cell);
    }
    if (heading.empty()) {
      heading = cells;
      continue;
    }
    TableRow& row = rows.emplace_back();
    for (size_t i = 0; i < cells.size() && i < heading.size(); ++i) {
      row[heading[i]] = cells[i];
    }
  }
  return rows;
}

}  // namespace snf

#endif  // SNF_PLATFORM_SYSTEM_TEST_TEST_CAPTURES_H_
