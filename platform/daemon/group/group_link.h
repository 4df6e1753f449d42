// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_DAEMON_GROUP_GROUP_LINK_H_
#define SNF_PLATFORM_DAEMON_GROUP_GROUP_LINK_H_

#include <sys/socket.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/messages/controller_counts.h"
#include "base/packet/packet_info.h"
#include "base/tunnels/geneve.h"
#include "platform/ports/interface/network_interface.h"
#include "platform/run/run.h"
#include "resource_manager/core/gateway_group.h"

namespace snf {

// Counts frames that a group sends on, takes or drops. The first ones are of
// frames that the chains did not get.
enum class GroupCount : uint8_t {
  kForwarded,   // handed to the link, for the member whose hosts they are
  kOut,         // dropped: this process was not in the table
  kNotYetOwn,   // dropped: own hosts, before this one may handle them
  kNoOwner,     // dropped: the owner, or every member, does not live
  kNoFirst,     // dropped: fragments whose first one was not seen
  kUnsendable,  // dropped: longer than a datagram, or an address is wrong
  kMoved,       // dropped: waited at a port while its hosts became another's
  kAside,       // handed to the link, for the member that has the flow, or back
  kTaken,       // from other members, for the chains
  kNotOwn,      // from other members, dropped: this one may not handle them
  kNoPort,      // from other members, dropped: no port of that name
  kStranger,    // refused: of who is no member, or without the key
  kMalformed,   // refused: bytes that cannot be
  kLinkDropped,   // of kForwarded: the kernel did not take them
  kLinkOverflow,  // from other members, lost: the socket's buffer was full
  kCut,  // of frames of several packets that were sent: packets but the first
};
inline constexpr size_t kGroupCounts = 16;
inline constexpr size_t kGroupAwayCounts = 8;  // the first ones

class GroupCounts {
 public:
  void Add(GroupCount count, uint64_t by = 1) {
    counts_[static_cast<size_t>(count)] += by;
  }
  uint64_t of(GroupCount count) const {
    return counts_[static_cast<size_t>(count)];
  }
  // Frames at own ports, and frames set aside from any way, that the chains did
  // not get.
  uint64_t away() const {
    uint64_t sum = 0;
    for (size_t i = 0; i < kGroupAwayCounts; ++i) sum += counts_[i];
    return sum;
  }
  std::vector<NamedCount> named() const {
    static constexpr std::array<const char*, kGroupCounts> kNames = {
        "forwarded", "out",          "not_yet_own",   "no_owner",
        "no_first",  "unsendable",   "moved",         "aside",
        "taken",     "not_own",      "no_port",       "stranger",
        "malformed", "link_dropped", "link_overflow", "cut"};
    std::vector<NamedCount> named;
    for (size_t i = 0; i < kGroupCounts; ++i) {
      named.push_back({kNames[i], counts_[i]});
    }
    return named;
  }

 private:
  std::array<uint64_t, kGroupCounts> counts_{};
};

// Theory of operation. Carries frames between the members of a group whose
// machines have ports of their own, as GENEVE packets (RFC 8926) over UDP:
//
//   protocol 0x6558, and a critical option of class 0xff53 and type 0x85 with
//   20 bytes: the table's key (8), the sender's epoch (8), number, side
//   (1 inside, 2 outside) and port (1 each), kind (1); then the frame
//
// A frame whose flow the receiver has, though its hosts are another member's,
// is of kind 3, and a frame that comes back of kind 4: these have the
// member whose pieces the flow has (1), 0 (1), ParsedPacket::segment_bytes (2)
// and 0 (4) in place of the epoch.
//
// A packet is taken if it comes from the address of a member and has the key of
// the table. Control packets (O bit) have no frame. Each member greets all
// others (kind 1). A process that greets and is no member, as if it alone
// cannot reach etcd, is told so, with the epoch (kind 2). Nothing is encrypted:
// who can read the packets can forge them. Datagrams longer than the path's MTU
// are fragmented by the kernel.
//
// Worked example: a frame of 1,514 bytes makes an IPv4 packet of 1,582 bytes,
// which goes in one piece where the link's MTU is 1,582 or more.
//
// Owner-thread only.
class GroupLink {
 public:
  static constexpr size_t kBatch = 32;
  static constexpr int kBufferBytes = 16 << 20;
  static constexpr size_t kOptionBytes = 20;
  static constexpr size_t kMostFrame =  // of a UDP datagram of 65,507 bytes
      65'507 - kGeneveFixedBytes - kGeneveOptionHeaderBytes - kOptionBytes;

  enum class Way : uint8_t {
    kOwner,   // to the member whose hosts the frame has
    kHolder,  // to the member that has its flow
    kBack,    // back from there, since the flow is over
  };
  // A frame, and the port of this name at which it came to the sender.
  struct Frame {
    Side side = Side::kUnknown;
    uint8_t port = 0;  // PortSpec::number
    std::span<const std::byte> bytes{};
    Way way = Way::kOwner;
    // Not of kOwner.
    uint8_t home = 0;            // the member whose pieces the flow has
    uint16_t segment_bytes = 0;  // PortFrame::segment_bytes
    uint32_t from = 0;           // of a frame that has come: who sent it
  };

  // Binds to ADDRESS:PORT. Errors: InvalidArgument, the text is none;
  // Unavailable, with the system's reason.
  static absl::StatusOr<std::unique_ptr<GroupLink>> Open(
      const std::string& address);
  // Takes a socket that another process has opened so.
  static std::unique_ptr<GroupLink> Adopt(Descriptor socket);
  // Returns OK if the text is ADDRESS:PORT. Error: InvalidArgument.
  static absl::Status Check(const std::string& address);

  // Takes the addresses of members, and the key, from the table. A member
  // without an address for frames has the one for states.
  void Follow(const GatewayTable& table);
  // Copies the frame into a queue, whose frames leave when it is full or at
  // Flush. Returns false if it cannot be sent.
  bool Send(uint32_t from, uint32_t to, const Frame& frame);
  void Flush(GroupCounts& counts);
  // Gives the frames of up to kBatch datagrams that have come from members;
  // counts others, and what the socket's buffer had no room for. Returns how
  // many datagrams had come.
  using Take = absl::FunctionRef<void(const Frame& frame)>;
  size_t Receive(GroupCounts& counts, Take take);
  // Returns true if a datagram waits. Costs a system call.
  bool has_frames() const;
  int descriptor() const { return socket_.number(); }
  // Greets all other members.
  void Greet(uint32_t from, GroupCounts& counts);
  // Returns the newest epoch in which other members say that this is no member;
  // 0: none said so.
  uint64_t out() const { return out_epoch_; }

 private:
  static constexpr size_t kRoomBytes = 65'536;

  struct Batch {
    Batch();
    std::span<std::byte> room(size_t i) {
      return {&rooms[i * kRoomBytes], kRoomBytes};
    }
    std::unique_ptr<std::byte[]> rooms;
    std::array<mmsghdr, kBatch> messages{};
    std::array<iovec, kBatch> parts{};
    std::array<sockaddr_storage, kBatch> ends{};
    // SO_RXQ_OVFL of each datagram that has come.
    struct alignas(cmsghdr) Control {
      std::array<std::byte, CMSG_SPACE(sizeof(uint32_t))> bytes;
    };
    std::array<Control, kBatch> controls{};
  };

  explicit GroupLink(Descriptor socket) : socket_(std::move(socket)) {}
  enum class Kind : uint8_t { kFrame, kGreeting, kOut, kToHolder, kBack };
  bool IsOfMember(uint32_t number, const sockaddr_storage& from) const;
  void Queue(uint32_t from, Kind kind, const sockaddr_storage& to,
             const Frame& frame);
  void TakeControl(size_t i, std::span<const std::byte> data,
                   GroupCounts& counts);
  void CountOverflow(msghdr& message, GroupCounts& counts);
  void TakeDatagram(size_t i, GroupCounts& counts, Take take);

  Descriptor socket_;
  uint32_t self_ = 0;  // as it greets
  uint64_t epoch_ = 0;
  uint64_t out_epoch_ = 0;
  uint64_t key_ = 0;
  uint32_t overflow_ = 0;  // as the kernel last told it, modulo 2^32
  std::array<std::optional<sockaddr_storage>, kMostAtPorts> members_{};
  Batch in_;
  Batch out_;
  size_t queue_ = 0;  // datagrams in out_
};

}  // namespace snf

#endif  // SNF_PLATFORM_DAEMON_GROUP_GROUP_LINK_H_
