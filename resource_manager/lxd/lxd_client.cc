// SPDX-License-Identifier: Apache-2.0
#include "resource_manager/lxd/lxd_client.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/text/wording.h"

namespace snf {
namespace {

using Json = nlohmann::json;

constexpr unsigned kNotFound = 404;
constexpr unsigned kConflict = 409;
constexpr unsigned kFirstError = 400;
// Limits an operation that no caller limits. A member may have to copy the
// image from another member.
constexpr Nanos kPatience = Seconds(300);
// LXD answers a wait at its end; the transport waits somewhat longer.
constexpr Nanos kMargin = Seconds(10);

// --- Reading of answers, which may be anything. ---

// Returns the value of a key; null if `json` is no object that has one.
const Json& At(const Json& json, const char* key) {
  static const Json kNull;
  if (!json.is_object()) return kNull;
  const auto found = json.find(key);
  return found == json.end() ? kNull : *found;
}

std::string TextOf(const Json& json) {
  return json.is_string() ? json.get<std::string>() : std::string();
}

std::map<std::string, std::string> TextsOf(const Json& json) {
  std::map<std::string, std::string> texts;
  if (!json.is_object()) return texts;
  for (const auto& [key, value] : json.items()) texts[key] = TextOf(value);
  return texts;
}

LxdInstance InstanceOf(const Json& json) {
  LxdInstance instance = {.name = TextOf(At(json, "name")),
                          .status = TextOf(At(json, "status")),
                          .location = TextOf(At(json, "location")),
                          .profiles = {},
                          .config = TextsOf(At(json, "config"))};
  const Json& profiles = At(json, "profiles");
  if (profiles.is_array()) {
    for (const Json& profile : profiles) {
      instance.profiles.push_back(TextOf(profile));
    }
  }
  return instance;
}

absl::Status NoAnswer(const std::string& what) {
  return absl::DataLossError(
      fmt::format("{}: the answer is none of LXD's", what));
}

// A reason of LXD, in a line.
absl::Status Refused(unsigned code, const std::string& what,
                     const std::string& reason) {
  std::string text = fmt::format(
      "{}: LXD says: {}", what,
      reason.empty() ? fmt::format("error {}", code) : Printable(reason));
  if (code == kNotFound) return absl::NotFoundError(text);
  if (code == kConflict || reason.find("already exists") != std::string::npos) {
    return absl::AlreadyExistsError(text);
  }
  return absl::FailedPreconditionError(text);
}

// A part of a path; all but letters, digits and -_. is escaped.
std::string Part(const std::string& text) {
  std::string part;
  for (const char c : text) {
    const bool is_plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                          (c >= '0' && c <= '9') || c == '-' || c == '_' ||
                          c == '.';
    if (is_plain) {
      part += c;
    } else {
      part += fmt::format("%{:02X}", static_cast<unsigned char>(c));
    }
  }
  return part;
}

std::string InstancePath(const std::string& name) {
  return "/1.0/instances/" + Part(name);
}

// Prints also bytes that are no UTF-8, which JSON has no words for, as '?'.
std::string TextOfJson(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

absl::StatusOr<Json> Parse(const std::string& text, const std::string& what) {
  Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) return NoAnswer(what);
  return json;
}

}  // namespace

const std::string& LxdInstance::At(const std::string& key) const {
  static const std::string kNone;
  const auto found = config.find(key);
  return found == config.end() ? kNone : found->second;
}

// Returns the answer's metadata, as JSON; of an operation, its name.
absl::StatusOr<std::string> LxdClient::Ask(LxdRequest request,
                                           const std::string& what) {
  const absl::StatusOr<LxdResponse> response = transport_->Exchange(request);
  if (!response.ok()) return response.status();
  const absl::StatusOr<Json> answer = Parse(response->body, what);
  if (!answer.ok()) return answer.status();
  const std::string type = TextOf(At(*answer, "type"));
  if (type == "error" || response->status >= kFirstError) {
    const Json& code = At(*answer, "error_code");
    return Refused(
        code.is_number_unsigned() ? code.get<unsigned>() : response->status,
        what, TextOf(At(*answer, "error")));
  }
  if (type == "async") return TextOf(At(*answer, "operation"));
  if (type != "sync") return NoAnswer(what);
  return At(*answer, "metadata").dump();
}

absl::Status LxdClient::Await(const std::string& operation, Nanos patience,
                              const std::string& what) {
  const std::string path = operation.substr(0, operation.find('?'));
  if (!path.starts_with("/1.0/operations/")) return NoAnswer(what);
  const auto told = Ask({.target = fmt::format("{}/wait?timeout={}", path,
                                               patience.ns / Seconds(1).ns),
                         .patience = {patience.ns + kMargin.ns}},
                        what);
  if (!told.ok()) return told.status();
  const absl::StatusOr<Json> done = Parse(*told, what);
  if (!done.ok()) return done.status();
  const std::string status = TextOf(At(*done, "status"));
  if (status == "Success") return absl::OkStatus();
  if (status == "Running" || status == "Pending") {
    return absl::FailedPreconditionError(fmt::format(
        "{}: LXD is not done after {} s", what, patience.ns / Seconds(1).ns));
  }
  if (status != "Failure" && status != "Cancelled") return NoAnswer(what);
  return Refused(0, what, TextOf(At(*done, "err")));
}

absl::Status LxdClient::Do(LxdRequest request, const std::string& what) {
  const auto told = Ask(std::move(request), what);
  if (!told.ok()) return told.status();
  // A name of an operation, or metadata: an object or null.
  if (!told->starts_with('/')) return absl::OkStatus();
  return Await(*told, kPatience, what);
}

absl::StatusOr<LxdServer> LxdClient::Server() {
  const auto told = Ask({.target = "/1.0"}, "LXD");
  if (!told.ok()) return told.status();
  const absl::StatusOr<Json> json = Parse(*told, "LXD");
  if (!json.ok()) return json.status();
  const Json& environment = At(*json, "environment");
  if (!environment.is_object()) return NoAnswer("LXD");
  const Json& clustered = At(environment, "server_clustered");
  return LxdServer{
      .version = TextOf(At(environment, "server_version")),
      .is_clustered = clustered.is_boolean() && clustered.get<bool>()};
}

absl::StatusOr<bool> LxdClient::Has(const std::string& kind,
                                    const std::string& name) {
  const auto told =
      Ask({.target = fmt::format("/1.0/{}/{}", kind, Part(name))}, name);
  if (told.ok()) return true;
  if (absl::IsNotFound(told.status())) return false;
  return told.status();
}

absl::StatusOr<std::optional<std::string>> LxdClient::ImageOf(
    const std::string& alias) {
  const std::string what = fmt::format("image \"{}\"", Printable(alias));
  const auto told = Ask({.target = "/1.0/images/aliases/" + Part(alias)}, what);
  if (absl::IsNotFound(told.status())) return std::nullopt;
  if (!told.ok()) return told.status();
  const absl::StatusOr<Json> json = Parse(*told, what);
  if (!json.ok()) return json.status();
  std::string fingerprint = TextOf(At(*json, "target"));
  if (fingerprint.empty()) return NoAnswer(what);
  return fingerprint;
}

absl::StatusOr<std::map<std::string, std::string>> LxdClient::PropertiesOfImage(
    const std::string& fingerprint) {
  const std::string what = fmt::format("image {}", Printable(fingerprint));
  const auto told = Ask({.target = "/1.0/images/" + Part(fingerprint)}, what);
  if (!told.ok()) return told.status();
  const absl::StatusOr<Json> json = Parse(*told, what);
  if (!json.ok()) return json.status();
  return TextsOf(At(*json, "properties"));
}

absl::Status LxdClient::Import(const std::string& file,
                               const std::string& fingerprint) {
  const absl::StatusOr<bool> is_here = Has("images", fingerprint);
  if (!is_here.ok()) return is_here.status();
  if (*is_here) return absl::OkStatus();
  absl::Status imported = Do(
      {.method = "POST",
       .target = "/1.0/images",
       .file = file,
       .headers = {{"X-LXD-fingerprint", fingerprint}, {"X-LXD-public", "0"}},
       .patience = kPatience},
      fmt::format("image of {}", Printable(file)));
  // An import by another client came first.
  if (absl::IsAlreadyExists(imported)) return absl::OkStatus();
  return imported;
}

absl::Status LxdClient::SetAlias(const std::string& alias,
                                 const std::string& fingerprint, bool is_new) {
  const std::string path = "/1.0/images/aliases";
  const std::string what = fmt::format("image \"{}\"", Printable(alias));
  const Json body = {{"name", alias}, {"target", fingerprint}};
  return Do({.method = is_new ? "POST" : "PUT",
             .target = is_new ? path : fmt::format("{}/{}", path, Part(alias)),
             .body = TextOfJson(body)},
            what);
}

absl::StatusOr<std::optional<LxdInstance>> LxdClient::Find(
    const std::string& name) {
  const std::string what = fmt::format("instance \"{}\"", Printable(name));
  const auto told = Ask({.target = InstancePath(name)}, what);
  if (absl::IsNotFound(told.status())) return std::nullopt;
  if (!told.ok()) return told.status();
  const absl::StatusOr<Json> json = Parse(*told, what);
  if (!json.ok()) return json.status();
  LxdInstance instance = InstanceOf(*json);
  if (instance.name != name) return NoAnswer(what);
  return instance;
}

absl::StatusOr<std::vector<LxdInstance>> LxdClient::Instances() {
  const std::string what = "instances";
  const auto told = Ask({.target = "/1.0/instances?recursion=1"}, what);
  if (!told.ok()) return told.status();
  const absl::StatusOr<Json> json = Parse(*told, what);
  if (!json.ok()) return json.status();
  if (!json->is_array()) return NoAnswer(what);
  std::vector<LxdInstance> instances;
  for (const Json& one : *json) instances.push_back(InstanceOf(one));
  std::ranges::sort(instances, {}, &LxdInstance::name);
  return instances;
}

absl::Status LxdClient::Create(const LxdNewInstance& instance) {
  const Json body = {
      {"name", instance.name},
      {"type", "container"},
      {"ephemeral", true},
      {"profiles", instance.profiles},
      {"config", instance.config},
      {"source", {{"type", "image"}, {"fingerprint", instance.image}}}};
  return Do(
      {.method = "POST",
       .target = "/1.0/instances" + (instance.target.empty()
                                         ? std::string()
                                         : "?target=" + Part(instance.target)),
       .body = TextOfJson(body),
       .patience = kPatience},
      fmt::format("instance \"{}\"", Printable(instance.name)));
}

absl::Status LxdClient::ChangeState(const std::string& name,
                                    const std::string& body, Nanos patience,
                                    const std::string& what) {
  const auto told = Ask(
      {.method = "PUT", .target = InstancePath(name) + "/state", .body = body},
      what);
  if (!told.ok()) return told.status();
  return Await(*told, patience, what);
}

absl::Status LxdClient::Start(const std::string& name) {
  const Json body = {{"action", "start"}};
  return ChangeState(name, TextOfJson(body), kPatience,
                     fmt::format("start of \"{}\"", Printable(name)));
}

absl::Status LxdClient::Stop(const std::string& name, Nanos patience) {
  const Json body = {{"action", "stop"},
                     {"timeout", patience.ns / Seconds(1).ns},
                     {"force", false}};
  return ChangeState(name, TextOfJson(body), {patience.ns + kMargin.ns},
                     fmt::format("stop of \"{}\"", Printable(name)));
}

absl::Status LxdClient::Kill(const std::string& name) {
  const Json body = {{"action", "stop"}, {"timeout", 0}, {"force", true}};
  return ChangeState(name, TextOfJson(body), kPatience,
                     fmt::format("stop of \"{}\"", Printable(name)));
}

absl::Status LxdClient::Delete(const std::string& name) {
  return Do({.method = "DELETE", .target = InstancePath(name)},
            fmt::format("removal of \"{}\"", Printable(name)));
}

std::string LxdClient::Console(const std::string& name) {
  const absl::StatusOr<LxdResponse> response =
      transport_->Exchange({.target = InstancePath(name) + "/console"});
  if (!response.ok() || response->status >= kFirstError) return "";
  return response->body;
}

}  // namespace snf
