// SPDX-License-Identifier: Apache-2.0
#include "resource_manager/lxd/test_lxd.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string_view>

namespace snf {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kInstances = "/1.0/instances";
constexpr std::string_view kOperations = "/1.0/operations/";

// Returns the rest of a text behind its beginning; "" if the text begins
// otherwise.
std::string Behind(const std::string& text, const std::string& beginning) {
  return text.starts_with(beginning) ? text.substr(beginning.size()) : "";
}

Json JsonOf(const std::string& name, const TestLxd::Instance& instance) {
  return {{"name", name},
          {"status", instance.status},
          {"status_code", 103},
          {"location", instance.location},
          {"profiles", instance.profiles},
          {"config", instance.config},
          {"ephemeral", true},
          {"type", "container"}};
}

}  // namespace

LxdResponse TestLxd::Sync(const std::string& metadata) {
  return {.status = 200,
          .body = fmt::format(
              R"({{"type":"sync","status":"Success","status_code":200,)"
              R"("operation":"","error_code":0,"error":"","metadata":{}}})",
              metadata)};
}

LxdResponse TestLxd::Error(unsigned code, const std::string& text) {
  return {.status = code,
          .body = fmt::format(R"({{"type":"error","status":"","status_code":0,)"
                              R"("operation":"","error_code":{},"error":"{}",)"
                              R"("metadata":null}})",
                              code, text)};
}

LxdResponse TestLxd::Async(const std::string& request) {
  const std::string id = fmt::format("7b1f-{}", operations_.size());
  const auto failed = failures.find(request);
  operations_[id] = failed == failures.end() ? "" : failed->second;
  return {.status = 202,
          .body = fmt::format(
              R"({{"type":"async","status":"Operation created",)"
              R"("status_code":100,)"
              R"("operation":"/1.0/operations/{}?project=default",)"
              R"("error_code":0,"error":"","metadata":{{"id":"{}"}}}})",
              id, id)};
}

absl::StatusOr<LxdResponse> TestLxd::Exchange(const LxdRequest& request) {
  const std::string what = request.method + " " + request.target;
  if (request.method != "GET") {
    changes_.push_back(request.body.empty() ? what : what + " " + request.body);
  }
  if (const auto first = before.extract(what); !first.empty()) {
    first.mapped()();
  }
  const auto other = instead.find(what);
  if (other != instead.end()) return other->second;
  return Answer(request, what);
}

LxdResponse TestLxd::Answer(const LxdRequest& request,
                            const std::string& what) {
  return request.method == "GET" ? Get(request.target) : Change(request, what);
}

LxdResponse TestLxd::Get(const std::string& target) {
  if (target == "/1.0") {
    return Sync(fmt::format(R"({{"environment":{{"server_version":"5.0.2",)"
                            R"("server_clustered":{}}}}})",
                            is_clustered));
  }
  if (target.starts_with(kOperations)) {
    const std::string rest = target.substr(kOperations.size());
    const std::string& reason = operations_.at(rest.substr(0, rest.find('/')));
    return Sync(fmt::format(R"({{"status":"{}","err":"{}"}})",
                            reason.empty() ? "Success" : "Failure", reason));
  }
  const std::map<std::string, const std::set<std::string>*> sets = {
      {"/1.0/profiles/", &profiles},
      {"/1.0/cluster/groups/", &groups},
      {"/1.0/cluster/members/", &members}};
  for (const auto& [path, names] : sets) {
    const std::string name = Behind(target, path);
    if (name.empty()) continue;
    return names->contains(name) ? Sync("{}") : Error(404, "not found");
  }
  if (const auto alias = Behind(target, "/1.0/images/aliases/");
      !alias.empty()) {
    const auto found = aliases.find(alias);
    if (found == aliases.end()) return Error(404, "Image alias not found");
    return Sync(Json{{"name", alias}, {"target", found->second}}.dump());
  }
  if (const auto image = Behind(target, "/1.0/images/"); !image.empty()) {
    const auto found = images.find(image);
    if (found == images.end()) return Error(404, "Image not found");
    return Sync(Json{{"properties", found->second}}.dump());
  }
  if (target == "/1.0/instances?recursion=1") {
    Json all = Json::array();
    for (const auto& [name, instance] : instances) {
      all.push_back(JsonOf(name, instance));
    }
    return Sync(all.dump());
  }
  const auto found = instances.find(Behind(target, "/1.0/instances/"));
  if (found == instances.end()) return Error(404, "Instance not found");
  return Sync(JsonOf(found->first, found->second).dump());
}

LxdResponse TestLxd::Change(const LxdRequest& request,
                            const std::string& what) {
  if (request.target == "/1.0/images") return Async(what);
  if (request.target.starts_with("/1.0/images")) {
    const Json alias = Json::parse(request.body, nullptr, false);
    const auto name = alias["name"].get<std::string>();
    const bool is_here = aliases.contains(name);
    if (is_here && request.method == "POST") {
      return Error(409, "Alias already exists");
    }
    if (!is_here && request.method == "PUT") {
      return Error(404, "Image alias not found");
    }
    aliases[name] = alias["target"].get<std::string>();
    return Sync("{}");
  }
  LxdResponse response = Async(what);
  if (failures.contains(what)) return response;
  const Json body = Json::parse(request.body, nullptr, false);
  if (request.method == "POST" && request.target.starts_with(kInstances)) {
    Instance made = {.status = "Stopped",
                     .profiles = body["profiles"],
                     .config = body["config"]};
    made.config["volatile.base_image"] = body["source"]["fingerprint"];
    instances[body["name"]] = made;
    return response;
  }
  std::string name = Behind(request.target, "/1.0/instances/");
  name = name.substr(0, name.find('/'));
  if (!instances.contains(name)) return Error(404, "Instance not found");
  if (request.method == "DELETE" || body["action"] == "stop") {
    instances.erase(name);  // also by a stop: they are ephemeral
  } else {
    instances[name].status = "Running";
  }
  return response;
}

}  // namespace snf
