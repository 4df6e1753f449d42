// SPDX-License-Identifier: Apache-2.0
#include "platform/daemon/address_notes.h"

#include <algorithm>
#include <memory>

#include "platform/ports/port_notes.h"
#include "runtime/sdk/nf.h"

namespace snf {

std::vector<std::string> AddressNotes(const RunRequest& options) {
  if (std::ranges::none_of(options.ports, [](const PortSpec& port) {
        return port.router.is_routed();
      })) {
    return {};
  }
  std::vector<be32> addresses;
  for (const Config::Chain& chain : options.config.chains) {
    const std::unique_ptr<NetworkFunction> nf = chain.nf.create();
    for (const NetworkFunction::Pool& pool : nf->pools()) {
      // TCP and UDP have pools of their own.
      if (pool.address.has_value() &&
          std::ranges::count(addresses, *pool.address) == 0) {
        addresses.push_back(*pool.address);
      }
    }
  }
  return NotesOnExternal(options.ports, addresses);
}

}  // namespace snf
