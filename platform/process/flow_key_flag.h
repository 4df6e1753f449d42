// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_PROCESS_FLOW_KEY_FLAG_H_
#define SNF_PLATFORM_PROCESS_FLOW_KEY_FLAG_H_

#include <array>
#include <cstddef>
#include <string>

#include "base/packet/flow_key.h"
#include "platform/process/flags.h"

namespace snf {

// The flag --flow_key, which says what packets are one flow.
class FlowKeyFlag {
 public:
  // Adds the flag. This must outlive the parsing.
  void Add(FlagSet& flags, const std::string& help) {
    flags.Choice("flow_key", choice_,
                 {{"connection", "both directions of a connection"},
                  {"5tuple", "one direction: addresses, ports and protocol"},
                  {"3tuple",
                   "both directions between two addresses, by "
                   "protocol"},
                  {"connection,vlan", "connection within one VLAN"},
                  {"5tuple,vlan", "5tuple within one VLAN"},
                  {"3tuple,vlan", "3tuple within one VLAN"}},
                 help);
  }

  FlowKeyKind kind() const { return kKinds[choice_ % kKinds.size()]; }
  bool vlan() const { return choice_ >= kKinds.size(); }

 private:
  static constexpr std::array kKinds = {
      FlowKeyKind::kConnection, FlowKeyKind::k5Tuple, FlowKeyKind::k3Tuple};

  size_t choice_ = 0;
};

}  // namespace snf

#endif  // SNF_PLATFORM_PROCESS_FLOW_KEY_FLAG_H_
