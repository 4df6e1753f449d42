// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_HOSTS_HOST_PLACE_H_
#define SNF_PLATFORM_HOSTS_HOST_PLACE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/outage.h"

namespace snf {

// The way that frames of the mirrors take to a host.
enum class HostWire : uint32_t { kTcp, kGeneve };

// A host of a cluster beside the daemon's own, and how many processes of units
// run there.
struct HostPlace {
  static constexpr size_t kMost = 8;

  std::array<char, 48> name{};     // ends with a zero
  std::array<char, 64> address{};  // ADDRESS:PORT of its agent
  uint32_t processes = 0;
  HostWire wire = HostWire::kTcp;

  // Errors: InvalidArgument, naming the part. The address is of an agent that
  // daemons of other hosts connect to (ParseReachable).
  static absl::Status CheckName(const std::string& name);
  static absl::Status CheckAddress(const std::string& address);
  static absl::StatusOr<HostPlace> Of(const std::string& name,
                                      const std::string& address,
                                      uint32_t processes);
  friend bool operator==(const HostPlace&, const HostPlace&) = default;
};
static_assert(std::is_trivially_copyable_v<HostPlace>);

// Tells which hosts there are, as they join and leave. Thread-safe.
class HostSource {
 public:
  // The hosts of places 0, 1 … and further places have none.
  using Places = std::vector<std::optional<HostPlace>>;

  virtual ~HostSource() = default;
  // Returns a number that grows with each change of the hosts.
  virtual uint64_t version() const = 0;
  virtual std::vector<HostPlace> Hosts() const = 0;
  // Says where the process of each place is to run, and not only which hosts
  // there are; none: the starter of processes fills the hosts.
  virtual std::optional<Places> Assigned() const { return std::nullopt; }
  // Says how etcd answers; none: the hosts are not read from there.
  virtual std::optional<Outage::State> etcd() const { return std::nullopt; }
};

// A part of each host's units, for a chain of a controller. The controllers of
// a group share a host, and so do chains that run side by side. All parts
// together are the host's units. A part depends on the host's name and units
// alone, so a host that joins or leaves changes no other host's part. Of one
// host, the parts of two controllers differ by at most a unit.
//
// Worked example: of a host with 5 units, two chains have 3 and 2 units. A host
// with 1 unit is one chain's, and the other chain has no part of that host. Of
// a host with 2 units, two controllers have one each, for one of their chains.
//
// Thread-safe.
class HostShare final : public HostSource {
 public:
  // A chain's number, or a controller's, and how many share the host.
  struct Sharer {
    uint32_t number = 0;
    uint32_t count = 1;
  };
  // The source must outlive the object.
  HostShare(const HostSource& source, Sharer chain, Sharer controller)
      : source_(source),
        part_(chain.number * controller.count + controller.number),
        parts_(chain.count * controller.count) {}
  uint64_t version() const override { return source_.version(); }
  std::vector<HostPlace> Hosts() const override;

 private:
  const HostSource& source_;
  const uint32_t part_;  // neighbours are of different controllers
  const uint32_t parts_;
};

// The hosts of a run. Processes of units have numbers from 0 on: the first ones
// are on the daemon's own host, the next ones on the first other host, and so
// on. Policies fill units of low numbers first, so the own host comes first.
//
// Worked example: of 6 processes, with b=10.0.0.2:7000,units=2 and
// c=10.0.0.3:7000,units=1, 0 to 2 are here, 3 and 4 on b, and 5 on c.
class HostPlaces {
 public:
  // Takes NAME=ADDRESS:PORT[,units=COUNT][,wire=tcp|geneve]. Errors:
  // InvalidArgument, naming the part.
  absl::Status Add(const std::string& text);
  // Returns what Add takes, one for each host, with spaces between.
  std::string text() const;

  // Sets the directory of the daemon's certificate (ReadTlsFiles). Errors:
  // InvalidArgument for a name that is too long.
  absl::Status SetTls(const std::string& directory);
  std::string tls() const { return tls_.data(); }  // "": no encryption

  size_t size() const { return count_; }
  std::span<const HostPlace> hosts() const {
    return std::span(hosts_).first(count_);
  }
  bool empty() const { return count_ == 0; }
  // Counts the processes on other hosts.
  uint32_t processes() const;
  // Errors: InvalidArgument if none of `processes` processes stays here.
  absl::Status Check(uint32_t processes) const;
  // Returns true if GENEVE goes to a host.
  bool has_geneve() const;
  // Returns the host of a process among `processes`; null: the own host.
  const HostPlace* Of(uint32_t process, uint32_t processes) const;

 private:
  std::array<HostPlace, HostPlace::kMost> hosts_{};
  uint32_t count_ = 0;
  std::array<char, 256> tls_{};  // ends with a zero
};
static_assert(std::is_trivially_copyable_v<HostPlaces>);

}  // namespace snf

#endif  // SNF_PLATFORM_HOSTS_HOST_PLACE_H_
