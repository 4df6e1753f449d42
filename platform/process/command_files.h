// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_PROCESS_COMMAND_FILES_H_
#define SNF_PLATFORM_PROCESS_COMMAND_FILES_H_

#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace snf {

// Names a file that a command is to write, as the command line does.
struct WrittenFile {
  std::string flag;  // flag such as "--json"; empty: an argument
  std::string name;  // empty: there is none; "-" is stdout

  std::string Printed() const {
    return flag.empty() ? name : flag + "=" + name;
  }
};

// Returns InvalidArgument if a file that is to be written is also read, or
// written twice, however it is spelt. "-" and files that only pass on what is
// written to them, as pipes and devices do, are not looked at.
absl::Status CheckFiles(const std::vector<std::string>& read,
                        std::span<const WrittenFile> written);

// Returns InvalidArgument unless the name of a capture to write ends in .pcap
// or .pcapng, possibly followed by .gz or .zst. Checks the same files as
// CheckFiles.
absl::Status CheckCaptureName(const WrittenFile& file);
// Returns true if such a name is one of pcapng.
bool NamesPcapng(const std::string& name);

}  // namespace snf

#endif  // SNF_PLATFORM_PROCESS_COMMAND_FILES_H_
