// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_TRACES_LINK_CHANGER_H_
#define SNF_TRACES_LINK_CHANGER_H_

#include <cstddef>
#include <vector>

#include "base/packet/link_type.h"
#include "traces/capture_reader.h"

namespace snf {

// Gives IP packets another framing: raw IP, without any, or Ethernet.
//
// What stands before the IP header (tags, labels, cooked headers) goes. In
// Ethernet, addresses are made up: from 02:00:00:00:00:01 to …:02. What pads a
// frame behind its IP packet goes too. Example: a UDP packet of 32 bytes in an
// Ethernet frame of 60 bytes is 32 bytes as raw IP, and 46 in Ethernet again.
// Owner-thread only.
class LinkChanger {
 public:
  // `to` is kRawIp or kEthernet.
  explicit LinkChanger(LinkType to) : to_(to) {}

  // Changes `packet`, whose bytes are then valid until the next call; one that
  // has that framing already stays as it is. False, and nothing changed, for a
  // frame without an IP header.
  bool Change(CapturedPacket& packet);

 private:
  LinkType to_;
  std::vector<std::byte> frame_;
};

}  // namespace snf

#endif  // SNF_TRACES_LINK_CHANGER_H_
