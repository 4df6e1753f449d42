// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RESOURCE_MANAGER_LXD_TEST_LXD_H_
#define SNF_RESOURCE_MANAGER_LXD_TEST_LXD_H_

#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "resource_manager/lxd/lxd_transport.h"

namespace snf {

// A server of LXD in memory, which answers as LXD 5.0.2 does. Tests change
// its members between calls.
class TestLxd final : public LxdTransport {
 public:
  struct Instance {
    std::string status = "Running";
    std::string location = "one";
    std::vector<std::string> profiles = {"default"};
    std::map<std::string, std::string> config{};
  };

  absl::StatusOr<LxdResponse> Exchange(const LxdRequest& request) override;

  // Returns the requests that change something, "POST /1.0/instances {…}".
  std::vector<std::string> changes() const { return changes_; }
  void Forget() { changes_.clear(); }

  bool is_clustered = true;
  std::map<std::string, Instance> instances;
  std::map<std::string, std::string> aliases = {{"snf", "f00d"}};
  // The properties of images, by fingerprint.
  std::map<std::string, std::map<std::string, std::string>> images = {
      {"f00d", {{"snf.version", "0.1.0"}}}};
  std::set<std::string> profiles = {"default", "gold"};
  std::set<std::string> groups = {"default", "edge"};
  std::set<std::string> members = {"one", "two"};
  // Answers by request, "PUT /1.0/instances/a/state", instead of the usual.
  std::map<std::string, LxdResponse> instead;
  // Does something before the answer to a request, once: as another client.
  std::map<std::string, std::function<void()>> before;
  // Results of operations, by request: the "err" of a failure.
  std::map<std::string, std::string> failures;

  static LxdResponse Sync(const std::string& metadata);
  static LxdResponse Error(unsigned code, const std::string& text);

 private:
  LxdResponse Async(const std::string& request);
  LxdResponse Answer(const LxdRequest& request, const std::string& what);
  LxdResponse Get(const std::string& target);
  LxdResponse Change(const LxdRequest& request, const std::string& what);

  std::vector<std::string> changes_;
  std::map<std::string, std::string> operations_;  // their errors, by id
};

}  // namespace snf

#endif  // SNF_RESOURCE_MANAGER_LXD_TEST_LXD_H_
