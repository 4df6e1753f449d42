// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_OPTIONS_CONFIG_SETTINGS_H_
#define SNF_PLATFORM_OPTIONS_CONFIG_SETTINGS_H_

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "platform/process/flags.h"

namespace snf {

// Holds the ports and settings of a configuration file (proto/config.proto),
// which are values of flags: FlagSet alone knows names, ranges and defaults.
// Owner-thread only.
class ConfigSettings {
 public:
  // Parses a file. Errors: DataLoss, as ParseConfig.
  static absl::StatusOr<ConfigSettings> Parse(const std::string& text,
                                              const std::string& file);

  // Gives flags their values, except flags that the command line has given.
  // Returns a line for each error, which begins with the place in the file.
  std::vector<std::string> GiveTo(FlagSet& flags);
  // Returns a line for each flag whose value on the command line is another
  // one. Only after GiveTo.
  const std::vector<std::string>& overridden() const { return overridden_; }

  // Returns true if the flag has its value from here. Only after GiveTo.
  bool gave(std::string_view flag) const;
  // Puts the place in the file before an error that begins with "--NAME" of a
  // flag that the file gave.
  std::string Placed(std::string_view error) const;

 private:
  struct Entry {
    std::string flag;
    std::string value;
    std::string place;     // "edge.conf:3:1"
    bool is_port = false;  // of a field of its own
    bool is_given = false;
  };
  std::string WhatIsWrong(const Entry& entry, const FlagSet& flags) const;

  std::string file_;
  std::vector<Entry> entries_;
  std::vector<std::string> overridden_;
};

// Returns the text of a configuration file (proto/config.proto) with other
// values of settings: each in place of the earlier one, or in a line at the end
// of the text. Everything else stays, also comments and blanks. Errors:
// DataLoss, the text is no such file; InvalidArgument, it is JSON.
absl::StatusOr<std::string> WithSettings(
    std::string text, const std::string& file,
    const std::map<std::string, std::string>& values);

// Changes the file so. A part of the new file is never visible, and its
// permissions stay. Errors: as of WithSettings, ReadConfigFile and WriteFile.
absl::Status SaveSettings(const std::string& file,
                          const std::map<std::string, std::string>& values);

}  // namespace snf

#endif  // SNF_PLATFORM_OPTIONS_CONFIG_SETTINGS_H_
