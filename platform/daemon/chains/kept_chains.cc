// SPDX-License-Identifier: Apache-2.0
#include "platform/daemon/chains/kept_chains.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>

namespace snf {
namespace {

using Json = nlohmann::json;

std::string LineOf(const KeptChain& chain) {
  const Json line = {{"number", chain.number},
                     {"name", chain.name},
                     {"began", chain.began},
                     {"place", chain.place},
                     {"end_of_older_ns", chain.end_of_older.ns},
                     {"flags", chain.flags},
                     {"texts", chain.texts},
                     {"modules", chain.modules}};
  return line.dump(-1, ' ', true, Json::error_handler_t::replace) + "\n";
}

std::optional<KeptChain> ChainOf(const std::string& text) {
  const Json line = Json::parse(text, nullptr, false);
  if (!line.is_object()) return std::nullopt;
  try {
    return KeptChain{.number = line.at("number"),
                     .name = line.at("name"),
                     .began = line.at("began"),
                     .place = line.at("place"),
                     .end_of_older = Instant{line.at("end_of_older_ns")},
                     .flags = line.at("flags"),
                     .texts = line.at("texts"),
                     .modules = line.at("modules")};
  } catch (const Json::exception&) {
    return std::nullopt;
  }
}

}  // namespace

std::vector<KeptChain> KeptChains::Read() const {
  std::vector<KeptChain> chains;
  std::ifstream file(file_);
  for (std::string line; std::getline(file, line) && !file.eof();) {
    const auto chain = ChainOf(line);
    if (chain.has_value()) chains.push_back(*chain);
  }
  return chains;
}

absl::Status KeptChains::Begin(const std::vector<KeptChain>& chains) const {
  std::string text;
  for (const KeptChain& chain : chains) text += LineOf(chain);
  unlink(file_.c_str());
  return Write(text, O_CREAT | O_EXCL);
}

absl::Status KeptChains::Add(const KeptChain& chain) const {
  return Write("\n" + LineOf(chain), O_APPEND);  // behind half a line
}

absl::Status KeptChains::Write(const std::string& text, int flags) const {
  const int file =
      open(file_.c_str(), O_WRONLY | O_CLOEXEC | O_NOFOLLOW | flags, 0600);
  const bool is_written = file >= 0 && write(file, text.data(), text.size()) ==
                                           static_cast<ssize_t>(text.size());
  const int error = errno;
  if (file >= 0) close(file);
  if (is_written) return absl::OkStatus();
  return absl::UnavailableError(
      fmt::format("{}: {}", file_, std::strerror(error)));
}

}  // namespace snf
