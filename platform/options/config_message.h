// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_OPTIONS_CONFIG_MESSAGE_H_
#define SNF_PLATFORM_OPTIONS_CONFIG_MESSAGE_H_

#include <google/protobuf/text_format.h>

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "proto/config.pb.h"

namespace snf {

// Holds where the entries of a configuration are in its text.
class ConfigPlaces {
 public:
  // `name` is that of the file.
  explicit ConfigPlaces(std::string name) : name_(std::move(name)) {}

  // Returns the place of the field's entry with that index, -1 for its only
  // one: "sites.conf:12:1"; in JSON, of which protobuf keeps no lines,
  // "sites.conf: chain[2]".
  std::string Of(const std::string& field, int index) const;
  // Returns the place of a field in such an entry, and that of the entry if it
  // has no such field.
  std::string Of(const std::string& field, int index,
                 const std::string& inner) const;
  const std::string& name() const { return name_; }
  google::protobuf::TextFormat::ParseInfoTree* tree() { return &tree_; }

 private:
  std::string name_;
  google::protobuf::TextFormat::ParseInfoTree tree_;
};

// Reads JSON if `text` begins with a brace, else protobuf's text format. The
// error is DataLoss, and begins with the place, as ParseConfig's.
absl::Status ParseConfigMessage(const std::string& text, ConfigPlaces& places,
                                proto::Config& config);

}  // namespace snf

#endif  // SNF_PLATFORM_OPTIONS_CONFIG_MESSAGE_H_
