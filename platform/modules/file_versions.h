// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_MODULES_FILE_VERSIONS_H_
#define SNF_PLATFORM_MODULES_FILE_VERSIONS_H_

#include <map>
#include <string>

#include "runtime/sdk/nf_spec.h"

namespace snf {

// The files that NFs read by their options, each with its version, as
// {"fw.txt (firewall: rules)", "34 bytes, hash 00c0ffee00c0ffee"}. Two versions
// of a file are equal if its content is, in processes of one program; that of a
// file that cannot be read is "not readable".
using FileVersions = std::map<std::string, std::string>;

// Reads the files as they are now, not as the NFs have loaded them. Files that
// a file includes are not looked at. For set-up only.
FileVersions FileVersionsOf(const NfSpec& nf);
std::string FileVersionOf(const std::string& file);

}  // namespace snf

#endif  // SNF_PLATFORM_MODULES_FILE_VERSIONS_H_
