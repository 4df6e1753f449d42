// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_BASE_TEXT_WORDING_H_
#define SNF_BASE_TEXT_WORDING_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace snf {

// How names, counts and shares are put into words. All are pure functions.

// Shows control characters, which a terminal would not take as text, as '?'.
std::string Printable(std::string text);

// Lists at most three files: "a.pcap, b.pcap, c.pcap and 2 more". The list is
// printable.
std::string FileList(const std::vector<std::string>& files);

// Counts things that have a regular plural: "1 packet", "1,234 packets", "2
// processes".
std::string Plural(uint64_t count, std::string_view one);

// Writes a share of 1 with as many digits as matter: "23 %", "4.1 %", "less
// than 0.1 %".
std::string Percent(double share);

// Quotes a word so that a POSIX shell reads it as it is. One with control
// characters is quoted as bash does it: $'\x0a'.
std::string ShellWord(const std::string& word);

// Takes out blanks and writes µ as u, so that a quantity can be pasted into a
// command line: "100us".
std::string FlagText(std::string quantity);

}  // namespace snf

#endif  // SNF_BASE_TEXT_WORDING_H_
