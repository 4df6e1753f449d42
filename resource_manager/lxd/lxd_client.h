// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RESOURCE_MANAGER_LXD_LXD_CLIENT_H_
#define SNF_RESOURCE_MANAGER_LXD_LXD_CLIENT_H_

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/time.h"
#include "resource_manager/lxd/lxd_transport.h"

namespace snf {

struct LxdServer {
  std::string version;  // "5.0.2"
  bool is_clustered = false;
};

// An instance, as LXD describes it.
struct LxdInstance {
  std::string name;
  std::string status;    // "Running", "Stopped", …
  std::string location;  // the member of LXD's cluster; "none" without one
  std::vector<std::string> profiles;
  std::map<std::string, std::string> config;  // of its own, without profiles

  // Returns a key's value; "" if there is none.
  const std::string& At(const std::string& key) const;
  bool is_running() const { return status == "Running"; }
};

// An instance to create.
struct LxdNewInstance {
  std::string name;
  std::string image;   // fingerprint
  std::string target;  // a member, @GROUP, or "": LXD decides
  std::vector<std::string> profiles;
  std::map<std::string, std::string> config;
};

// Calls of LXD's REST API, /1.0. A call that LXD does in the background is
// awaited. Each error has the object's name and LXD's words: NotFound;
// AlreadyExists; FailedPrecondition, LXD refuses otherwise; DataLoss, an answer
// that is none of LXD's; errors of the transport. Owner-thread only. The
// transport must outlive the client.
class LxdClient {
 public:
  explicit LxdClient(LxdTransport& transport) : transport_(&transport) {}

  absl::StatusOr<LxdServer> Server();
  // Returns true if LXD knows such an object, as "profiles", "gold";
  // "cluster/groups", "edge"; "cluster/members", "one".
  absl::StatusOr<bool> Has(const std::string& kind, const std::string& name);

  // Returns the image's fingerprint, or nothing if there is no such alias.
  absl::StatusOr<std::optional<std::string>> ImageOf(const std::string& alias);
  absl::StatusOr<std::map<std::string, std::string>> PropertiesOfImage(
      const std::string& fingerprint);
  // Enters an image, with this SHA-256 sum in hexadecimal, if LXD has none yet.
  absl::Status Import(const std::string& file, const std::string& fingerprint);
  // Lets an alias name an image; `is_new` tells that there is none so far.
  absl::Status SetAlias(const std::string& alias,
                        const std::string& fingerprint, bool is_new);

  // Returns nothing if there is no such instance.
  absl::StatusOr<std::optional<LxdInstance>> Find(const std::string& name);
  // Returns all instances, in the order of their names.
  absl::StatusOr<std::vector<LxdInstance>> Instances();
  // Creates an ephemeral container, which does not run yet.
  absl::Status Create(const LxdNewInstance& instance);
  absl::Status Start(const std::string& name);
  // Asks the instance to stop, which removes an ephemeral one. Error:
  // FailedPrecondition, it has not stopped within `patience`.
  absl::Status Stop(const std::string& name, Nanos patience);
  absl::Status Kill(const std::string& name);
  absl::Status Delete(const std::string& name);
  // Returns what the instance's processes have printed; "" if that is unknown.
  std::string Console(const std::string& name);

 private:
  absl::StatusOr<std::string> Ask(LxdRequest request, const std::string& what);
  absl::Status Do(LxdRequest request, const std::string& what);
  absl::Status Await(const std::string& operation, Nanos patience,
                     const std::string& what);
  absl::Status ChangeState(const std::string& name, const std::string& body,
                           Nanos patience, const std::string& what);

  LxdTransport* transport_;
};

}  // namespace snf

#endif  // SNF_RESOURCE_MANAGER_LXD_LXD_CLIENT_H_
