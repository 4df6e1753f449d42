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
  std::string flag;  // "--json"; empty: it stands alone
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

// Returns InvalidArgument for a name by which no capture can be written. One
// that can be ends in .pcap or .pcapng, or in one of these and .gz or .zst. The
// same files as by CheckFiles are not looked at.
absl::Status CheckCaptureName(const WrittenFile& file);
// Returns true if such a name is one of pcapng.
bool NamesPcapng(const std::string& name);

}  // namespace snf

#endif  // SNF_PLATFORM_PROCESS_COMMAND_FILES_H_
