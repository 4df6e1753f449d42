// SPDX-License-Identifier: Apache-2.0
#include "platform/options/config_message.h"

#include <fmt/format.h>
#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/util/json_util.h>

namespace snf {
namespace {

namespace pb = google::protobuf;

// Keeps the first error, as ":LINE:COLUMN: MESSAGE".
class FirstError final : public pb::io::ErrorCollector {
 public:
  void AddError(int line, pb::io::ColumnNumber column,
                const std::string& message) override {
    if (!text.empty()) return;
    text = fmt::format(":{}:{}: {}", line + 1, column + 1, message);
  }
  std::string text;
};

std::string Placed(const std::string& name, pb::TextFormat::ParseLocation at) {
  return fmt::format("{}:{}:{}", name, at.line + 1, at.column + 1);
}

absl::Status ParseText(const std::string& text, ConfigPlaces& places,
                       proto::Config& config) {
  pb::TextFormat::Parser parser;
  FirstError error;
  parser.RecordErrorsTo(&error);
  parser.WriteLocationsTo(places.tree());
  if (parser.ParseFromString(text, &config)) return absl::OkStatus();
  return absl::DataLossError(places.name() + error.text);
}

absl::Status ParseJson(const std::string& text, const ConfigPlaces& places,
                       proto::Config& config) {
  const auto status = pb::util::JsonStringToMessage(text, &config);
  if (status.ok()) return absl::OkStatus();
  return absl::DataLossError(
      fmt::format("{}: {}", places.name(), status.message().ToString()));
}

}  // namespace

std::string ConfigPlaces::Of(const std::string& field, int index) const {
  const auto at = tree_.GetLocation(
      proto::Config::descriptor()->FindFieldByName(field), index);
  if (at.line >= 0) return Placed(name_, at);
  return index < 0 ? name_ : fmt::format("{}: {}[{}]", name_, field, index);
}

std::string ConfigPlaces::Of(const std::string& field, int index,
                             const std::string& inner) const {
  const auto* const outer = proto::Config::descriptor()->FindFieldByName(field);
  const auto* const tree = tree_.GetTreeForNested(outer, index);
  if (tree == nullptr) return Of(field, index);
  const auto at =
      tree->GetLocation(outer->message_type()->FindFieldByName(inner), -1);
  return at.line < 0 ? Of(field, index) : Placed(name_, at);
}

absl::Status ParseConfigMessage(const std::string& text, ConfigPlaces& places,
                                proto::Config& config) {
  const size_t first = text.find_first_not_of(" \t\r\n");
  const bool is_json = first != std::string::npos && text[first] == '{';
  return is_json ? ParseJson(text, places, config)
                 : ParseText(text, places, config);
}

}  // namespace snf
