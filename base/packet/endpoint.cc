// SPDX-License-Identifier: Apache-2.0
#include "base/packet/endpoint.h"

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
  const bool is_forward = direction != Direction::kReverse;
  Endpoints ends;
  SplitEnds(connection, form, is_forward ? ends.from : ends.to,
            is_forward ? ends.to : ends.from);
  return ends;
}

}  // namespace snf
