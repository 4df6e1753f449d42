// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_DAEMON_GROUP_HOST_HOMES_H_
#define SNF_PLATFORM_DAEMON_GROUP_HOST_HOMES_H_

#include <cstdint>
#include <functional>
#include <utility>

#include "base/packet/flow_key.h"
#include "base/packet/ip_address.h"
#include "base/rendezvous.h"
#include "platform/ports/host_bucket.h"
#include "platform/ports/steering.h"

namespace snf {

// Says whose hosts flows have, by the hosts' places (Steering). A value.
class HostHomes {
 public:
  // Returns the home of a host inside.
  using Of = std::function<uint32_t(const IpAddress& host, bool is_v6)>;

  HostHomes() = default;
  explicit HostHomes(Of of) : of_(std::move(of)) {}

  // By the places of a group's controllers.
  static HostHomes By(const Steering& steering) {
    const uint32_t count = steering.controller().count;
    const auto owners = Steering::OwnersAmong(FirstOf(count), count);
    return HostHomes([owners](const IpAddress& host, bool is_v6) {
      return uint32_t{owners[BucketOf(host, is_v6)]};
    });
  }

  // Returns false if nothing is known of homes.
  bool are_known() const { return of_ != nullptr; }
  uint32_t OfHost(const IpAddress& host, FlowKeyForm form) const {
    return of_(host, form == FlowKeyForm::kIpv6 ||
                         form == FlowKeyForm::kIpv6Endpoint ||
                         form == FlowKeyForm::kIpv6Fragment);
  }
  // Returns the home of the host inside, if the key names it, else `other`.
  uint32_t OfFlow(const FlowKey& key, uint32_t other) const {
    return IsEnd(key) ? OfHost(key.source, key.form) : other;
  }
  // Returns true if the host inside may have one of these homes: a connection's
  // key does not tell which end is inside.
  bool MayBe(MemberSet homes, const FlowKey& key) const {
    return Has(homes, OfHost(key.source, key.form)) ||
           (!IsEnd(key) && Has(homes, OfHost(key.destination, key.form)));
  }

 private:
  static bool IsEnd(const FlowKey& key) {
    return key.form == FlowKeyForm::kIpv4Endpoint ||
           key.form == FlowKeyForm::kIpv6Endpoint;
  }

  Of of_;
};

}  // namespace snf

#endif  // SNF_PLATFORM_DAEMON_GROUP_HOST_HOMES_H_
