// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_PORTS_STEERING_H_
#define SNF_PLATFORM_PORTS_STEERING_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/byte_order.h"
#include "base/messages/controller_counts.h"
#include "base/packet/fragment_table.h"
#include "base/packet/packet_info.h"
#include "base/rendezvous.h"
#include "base/time.h"
#include "platform/ports/frames/filter_program.h"
#include "runtime/sdk/nf.h"

namespace snf {

// One of several controllers at the same ports: I of N, as --controller=I/N
// says it.
struct ControllerOf {
  uint32_t id = 0;
  uint32_t count = 1;  // 1 … kMostAtPorts

  // Errors: InvalidArgument, with the reason.
  static absl::StatusOr<ControllerOf> Parse(const std::string& text);
  std::string text() const;
  bool operator==(const ControllerOf&) const = default;
};

// Theory of operation. Selects this controller's frames from those at the ports
// of several controllers, as resource_manager/core/dispatch_table.h does in
// runs on captures. Each controller has a filter in front of its sockets
// (Program), and each frame (but see below) passes the filter of exactly one
// controller, without messages between controllers.
//
// A packet goes by its host inside: by its source if it comes from the inside,
// else by its destination. So both directions of a connection go to the same
// controller, with their fragments. An ICMP error goes with the packet that it
// quotes, as in a controller's classifier; ARP by the address that it comes
// from or asks for. An address has one of kBuckets buckets, and each bucket
// belongs to one controller, by rendezvous (proto/protocol.md §7): with another
// number of controllers few buckets move.
//
// A packet from the outside to an external address, whose ports an NF gives to
// units (NetworkFunction::Pool::address), goes to the controller in whose block
// its port lies, or its identifier if it is an ICMP query. Only the controller
// that got the first fragment knows the owner of a later one: all controllers
// that own a place get later fragments, and FragmentGate drops those of other
// controllers.
//
// Where ports are routers (router.h), all controllers take ARP and discovery of
// IPv6, so that each learns of its neighbours; a question is answered by the
// controller that has the frame's place.
//
// Frames that are neither IP nor ARP, or lie behind PPPoE, MPLS or more than
// four VLAN tags, are for controller 0.
//
// A frame goes by a place: its bucket, the block of a controller, or
// the rest. A group of controllers (gateway_group.h) may have members that do
// not live: then all places of a dead one belong to the next live one by number
// (Among), which is its heir (proto/protocol.md G1), and the places of live
// controllers stay as they are.
//
//   Worked example: of 2 controllers, 10.0.0.1 is in a bucket of 1. A packet
//   10.0.0.1:5000 → 192.0.2.9:53 from the inside is for 1, which rewrites it to
//   198.51.100.1:33280, as 33280 … 65535 is its block. The answer to that port
//   comes from the outside, and is for 1.
//
// Immutable; any thread.
class Steering {
 public:
  static constexpr uint32_t kBuckets = 256;
  // Places: buckets, then a block for each controller, then the rest.
  static constexpr uint32_t kFirstBlock = kBuckets;
  static constexpr uint32_t kRest = kFirstBlock + kMostAtPorts;
  static constexpr uint32_t kPlaces = kRest + 1;
  // A later fragment to an external address has this instead of a place.
  static constexpr uint32_t kLaterFragment = kPlaces;

  // The controller of each place.
  static constexpr uint8_t kNobody = 0xff;
  using Owners = std::array<uint8_t, kPlaces>;
  // Returns the owners if only these of the controllers live. Without live
  // ones, no place has an owner.
  static Owners OwnersAmong(MemberSet live, uint32_t controllers);

  // Errors: InvalidArgument if the NF cannot be run by that many controllers.
  static absl::StatusOr<std::shared_ptr<const Steering>> Of(
      const NetworkFunction& example, ControllerOf controller);

  // Returns the program that accepts this controller's frames at a port of that
  // side. It expects whole Ethernet frames, with VLAN tags in them or not. If
  // `routes`, the port is a router's: then the program also accepts all ARP and
  // discovery of IPv6.
  std::vector<FilterStep> Program(Side side, bool routes = false) const;

  // Returns a program whose result for a frame at a port of that side is its
  // place, or kLaterFragment, plus 1. It depends on no owner.
  std::vector<FilterStep> PlaceProgram(Side side) const;
  // Returns the steering of the same controller if only these of the
  // controllers live.
  std::shared_ptr<const Steering> Among(MemberSet live) const;

  ControllerOf controller() const { return controller_; }
  // Describes the steering in words: "controller 0/2; 192.0.2.1; 1024 to 33279
  // are 0's". Equal steerings have equal texts.
  std::string text() const {
    return "controller " + controller_.text() + blocks_text();
  }
  // The same of the blocks alone: "; 192.0.2.1; 1024 to 33279 are 0's". Equal
  // for all controllers.
  std::string blocks_text() const;
  // Returns true for an address whose ports are the controllers' blocks.
  bool IsExternal(be32 address) const;
  bool has_external() const { return !external_.empty(); }
  // Returns true if the place is this controller's.
  bool Owns(uint32_t place) const { return owners_[place] == controller_.id; }
  // Returns true if both select the same frames.
  bool operator==(const Steering&) const = default;

 private:
  friend class SteeringProgram;

  // The ports first … last of each external address.
  struct Block {
    uint32_t first;
    uint32_t last;
    uint32_t owner;
    bool operator==(const Block&) const = default;
  };

  explicit Steering(ControllerOf controller);
  static absl::Status Check(const NetworkFunction& example,
                            uint32_t controllers);

  bool OwnsAny() const {
    return std::ranges::find(owners_, controller_.id) != owners_.end();
  }

  ControllerOf controller_;
  Owners owners_;
  std::vector<be32> external_;  // in ascending order
  std::vector<Block> blocks_;
};

// Tells at a port whose the later fragments are that all controllers get.
// Owner-thread only.
class FragmentGate {
 public:
  // `steering` may be null: then all is this controller's.
  FragmentGate(std::shared_ptr<const Steering> steering, Side side);

  // Returns false for a later fragment whose first one was not this
  // controller's. Give it all frames that the program takes.
  bool LetsIn(std::span<const std::byte> frame, Instant now);

 private:
  std::shared_ptr<const Steering> steering_;  // null: it lets in all
  std::optional<FragmentTable> own_;
};

}  // namespace snf

#endif  // SNF_PLATFORM_PORTS_STEERING_H_
