// SPDX-License-Identifier: Apache-2.0
#include "base/endpoint.h"

#include <utility>

#include "base/check.h"

namespace snf {

FlowKey EndpointKey(const IpAddress& address, be16 port, IpProtocol protocol,
                    FlowKeyForm form) {
  FlowKey key;
  key.source = address;
  key.source_port = port;
  key.protocol = protocol;
  key.form = form;
  return key;
}

bool HasEnds(const FlowKey& connection) {
  return connection.form == FlowKeyForm::kIpv4 ||
         connection.form == FlowKeyForm::kIpv6;
}

Endpoints EndpointsOf(const FlowKey& connection, Direction direction) {
  SNF_CHECK(HasEnds(connection));
  const FlowKeyForm form = connection.form == FlowKeyForm::kIpv4
                               ? FlowKeyForm::kIpv4Endpoint
                               : FlowKeyForm::kIpv6Endpoint;
  Endpoints ends = {
      .from = EndpointKey(connection.source, connection.source_port,
                          connection.protocol, form),
      .to = EndpointKey(connection.destination, connection.destination_port,
                        connection.protocol, form)};
  ends.from.vlan = ends.to.vlan = connection.vlan;
  if (direction == Direction::kReverse) std::swap(ends.from, ends.to);
  return ends;
}

}  // namespace snf
