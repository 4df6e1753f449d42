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
// All bytes before the IP header (tags, labels, cooked headers) are removed,
// and so is the padding behind the IP packet. A new Ethernet header has made-up
// addresses: from 02:00:00:00:00:01 to …:02. Example: a UDP packet of 32 bytes
// in an Ethernet frame of 60 bytes is 32 bytes as raw IP, and 46 in Ethernet
// again. Owner-thread only.
class LinkChanger {
 public:
  // Makes packets of the framing `to`, which is kRawIp or kEthernet.
  explicit LinkChanger(LinkType to) : to_(to) {}

  // Changes `packet`, whose bytes are then valid until the next call. Of a
  // packet that has the framing already only the LINKTYPE_ number becomes the
  // usual one. Returns false and changes nothing if the frame has no IP header.
  bool Change(CapturedPacket& packet);

 private:
  LinkType to_;
  std::vector<std::byte> frame_;
};

}  // namespace snf

#endif  // SNF_TRACES_LINK_CHANGER_H_
