// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_LIVE_PACKET_PORT_H_
#define SNF_PLATFORM_LIVE_PACKET_PORT_H_

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/time.h"
#include "platform/live/network_interface.h"
#include "platform/live/port_spec.h"
#include "platform/run/run.h"

namespace snf {

// What receives for a port, as another process takes it over: a packet socket
// with its ring; or the descriptor of a TAP interface, which has none.
struct PacketReceiver {
  Descriptor socket{};
  uint64_t ring_bytes = 0;
  uint64_t slot_bytes = 0;
};

// An Ethernet interface of this machine: packets come in and leave as whole
// frames, with VLAN tags, right checksums and no checksum of the frame itself.
// Frames that the machine sends by the interface do not come in.
//
// No call waits. Owner-thread only.
class PacketPort {
 public:
  // A frame is valid during the call; `age` is how long ago it came.
  using Take =
      absl::FunctionRef<void(std::span<const std::byte> frame, Nanos age)>;

  // Opens what the spec names. Errors name the port and the interface:
  // PermissionDenied; FailedPrecondition, it is not there, not Ethernet, down,
  // or this machine has nothing of the kind.
  static absl::StatusOr<std::unique_ptr<PacketPort>> Open(const PortSpec& spec);
  // Opens a port whose receiver another process has, and hands on. Errors as
  // of Open; FailedPrecondition, it is of a kind that cannot be handed on.
  static absl::StatusOr<std::unique_ptr<PacketPort>> OpenToSend(
      const PortSpec& spec);

  // Returns the time of day, by which the kernel says when a frame came.
  static Instant WallClock();

  virtual ~PacketPort() = default;
  PacketPort(const PacketPort&) = delete;
  PacketPort& operator=(const PacketPort&) = delete;

  // Gives up to some dozens of frames that have come, in their order. Returns
  // false if there was none.
  virtual bool Receive(Take take) = 0;
  // Nothing that comes after this is received any more.
  virtual void StopReceiving() = 0;
  // Copies a frame into a queue, whose frames leave when it is full or at
  // Flush. What the kernel does not take is dropped, and counted.
  virtual void Send(std::span<const std::byte> frame) = 0;
  virtual void Flush() = 0;
  // Asks the kernel for what it counts.
  virtual void UpdateFigures() {}

  // Returns why nothing can come or leave any more, as for an interface that is
  // gone; OK as long as it can.
  const absl::Status& status() const { return status_; }
  // Returns false while it waits for its interface to come back.
  virtual bool is_there() const { return true; }
  const PortFigures& figures() const { return figures_; }
  // The following let another process take the port's place (live_traffic.h):
  // the first returns what will receive there, while this still reads; after
  // the second, which says where in the ring this has ended, it reads no more.
  // Nothing, if the socket is another one meanwhile. Error: FailedPrecondition,
  // it is of a kind that cannot.
  virtual absl::StatusOr<PacketReceiver> HandOn();
  virtual std::optional<uint64_t> LetGo() { return std::nullopt; }
  // In that process, of a port that was opened to send (OpenToSend): the first
  // tells what will receive, as soon as this is known; from the second on this
  // receives by it, from there on.
  virtual void Expect(const PacketReceiver& /*receiver*/) {}
  // Before Adopt: a frame came by the process before, which this may have to
  // know of one that comes later.
  virtual void Overhear(std::span<const std::byte> /*frame*/, Instant /*now*/) {
  }
  virtual void Adopt(PacketReceiver /*receiver*/, uint64_t /*next*/) {}
  // Returns true while a process before this one reads.
  virtual bool has_predecessor() const { return false; }

  // Returns a descriptor that poll() takes: it is readable if frames wait.
  virtual int descriptor() const = 0;
  // Returns how long a frame may be without its Ethernet header; 0: as
  // long as an IP packet can be.
  uint32_t mtu() const { return mtu_; }
  // Returns what was changed of the interface as long as this lives, as in "gro
  // off"; "" for nothing.
  const std::string& changes() const { return changes_; }

 protected:
  explicit PacketPort(const PortSpec& spec);
  // Ends the port with the interface's state, or the error if that is good.
  void Fail(int error);

  PortSpec spec_;
  PortFigures figures_;
  absl::Status status_;
  uint32_t mtu_ = 0;
  std::string changes_;
};

// The longest frame: an IP packet of 65,535 bytes behind an Ethernet header
// with two tags.
inline constexpr size_t kMaxFrameBytes = 65'535 + 14 + 8;

}  // namespace snf

#endif  // SNF_PLATFORM_LIVE_PACKET_PORT_H_
