// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_PORTS_PACKET_PORT_H_
#define SNF_PLATFORM_PORTS_PACKET_PORT_H_

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
#include "platform/ports/frames/frame_offload.h"
#include "platform/ports/interface/network_interface.h"
#include "platform/ports/port_spec.h"
#include "platform/ports/router/neighbour_messages.h"
#include "platform/run/run.h"

namespace snf {

// The receiver of a port, for another process to take over: a packet socket
// with its ring, or the descriptor of a TAP interface, without a ring.
struct PacketReceiver {
  Descriptor socket{};
  uint64_t ring_bytes = 0;
  uint64_t slot_bytes = 0;
};

// Counts what a port refused, did not send or forgot, for one reason.
struct PortReason {
  std::string name;
  uint64_t count = 0;
};

// A frame that has come.
struct PortFrame {
  std::span<const std::byte> bytes;
  Nanos age{};  // how long ago it came
  // ParsedPacket::segment_bytes: 0 unless frames of several packets stay whole
  // (KeepMerged).
  uint16_t segment_bytes = 0;
  // Unless kNone, the frame is for the process that takes the place of this one
  // (HandOn), and not for the chains.
  NeighbourNews news = NeighbourNews::kNone;
};

// An Ethernet interface of this machine: packets come in and leave as whole
// frames, with VLAN tags, right checksums and no checksum of the frame itself.
// A frame of several packets (GSO), as the machine's own TCP sends them, is cut
// into these, or stays whole (KeepMerged).
// Frames that the machine sends by the interface do not come in.
//
// No call waits, except Settle, and Send while a thread of the port's own has
// too much to send. Owner-thread only.
class PacketPort {
 public:
  // A frame is valid during the call, also while the port sends others.
  using Take = absl::FunctionRef<void(const PortFrame& frame)>;

  // Opens the port of a spec. Errors name the port and the interface:
  // PermissionDenied; FailedPrecondition if the interface does not exist, is
  // not Ethernet or is down, or this machine lacks that kind of port.
  static absl::StatusOr<std::unique_ptr<PacketPort>> Open(const PortSpec& spec);
  // Opens a port whose receiver another process has and will hand on. Errors as
  // in Open; FailedPrecondition if a port of this kind cannot be handed on.
  static absl::StatusOr<std::unique_ptr<PacketPort>> OpenToSend(
      const PortSpec& spec);

  // Returns the time of day, the clock by which the kernel dates frames.
  static Instant WallClock();

  virtual ~PacketPort() = default;
  PacketPort(const PacketPort&) = delete;
  PacketPort& operator=(const PacketPort&) = delete;

  // Gives up to some dozens of frames that have come, in their order. Returns
  // false if there was none.
  virtual bool Receive(Take take) = 0;
  // Gives only the frames that the port itself has made for the chains, such as
  // errors about packets that cannot leave. Receive gives them as well.
  virtual bool ReceiveOwn(Take /*take*/) { return false; }
  // Returns true if a frame is known to wait for Receive. Ports that cannot
  // know without a system call return false.
  virtual bool has_frames() const { return false; }
  // Nothing that comes after this is received any more.
  virtual void StopReceiving() = 0;
  // Copies a frame into a queue, whose frames leave when it is full or at
  // Flush. Frames that the kernel does not take are dropped, and counted.
  virtual void Send(std::span<const std::byte> frame) = 0;
  // Sends a frame of several packets, whose TCP or UDP checksum may be
  // anything: whole if the kind of port can and they are no longer than the
  // MTU; else cut.
  virtual void SendMerged(std::span<const std::byte> frame,
                          uint16_t segment_bytes);
  // From now on, frames of several packets that come stay whole, if the kind of
  // port can do that, or are cut, as at the beginning.
  virtual void KeepMerged(bool /*keep*/) {}
  // From now on takes the frames that this steering selects, at a port that
  // several controllers share (steering.h); frames that have come stay.
  virtual void Steer(std::shared_ptr<const Steering> /*steering*/) {}
  virtual void Flush() = 0;
  // Does the same, and waits until a thread of the port's own has sent them
  // (PortSpec::sends_by_thread).
  virtual void Settle() { Flush(); }
  // Returns true while packets, or answers to packets, wait for more than
  // Flush, as for a neighbour that has not answered.
  virtual bool has_waiting() const { return false; }
  // Brings figures() up to date with the kernel's counters.
  virtual void UpdateFigures() {}

  // Returns why no frame can come or leave any more, for example because the
  // interface is gone; OK while frames can.
  const absl::Status& status() const { return status_; }
  // Returns false while it waits for its interface to come back.
  virtual bool is_there() const { return true; }
  const PortFigures& figures() const { return figures_; }
  // Returns counts by names, of the refused packets and of some drops; none if
  // the kind of port has no names.
  virtual std::vector<PortReason> reasons() const { return {}; }
  // The following let another process replace the port (live_traffic.h). HandOn
  // returns the receiver for that process, while this port still reads. LetGo
  // ends the reading and returns the place in the ring where it ended; nothing
  // if the socket has been replaced meanwhile. Error: FailedPrecondition if a
  // port of this kind cannot be replaced.
  virtual absl::StatusOr<PacketReceiver> HandOn();
  virtual std::optional<uint64_t> LetGo() { return std::nullopt; }
  // Gives that process news of neighbours (PortFrame::news), as after HandOn,
  // although that process has the receiver of an earlier port.
  virtual void TellSuccessor() {}
  // Called in the other process, on a port opened to send (OpenToSend). Expect
  // announces the receiver as soon as it is known; from Adopt on the port
  // receives by it, starting at `next`.
  virtual void Expect(const PacketReceiver& /*receiver*/) {}
  // Called before Adopt with each frame that the predecessor forwards: the port
  // needs first fragments to recognise later ones, and news of neighbours.
  virtual void Overhear(const PortFrame& /*frame*/, Instant /*now*/) {}
  virtual void Adopt(PacketReceiver /*receiver*/, uint64_t /*next*/) {}
  // Returns true while a process before this one reads.
  virtual bool has_predecessor() const { return false; }

  // Returns how well the routes of a port that routes fit the destination of a
  // packet that is to leave (Router::RouteLength); nothing if no route does, or
  // the port is no router's.
  virtual std::optional<uint8_t> RouteLength(
      std::span<const std::byte> /*frame*/) const {
    return std::nullopt;
  }
  // Returns true if senders of both sides may come in here, as in a capture.
  virtual bool has_both_sides() const { return false; }
  // Returns a descriptor that poll() takes: it is readable if frames wait.
  virtual int descriptor() const = 0;
  // Returns a line about the port that is news since the last call; "": there
  // is none.
  virtual std::string TakeNews() { return ""; }
  // Returns how long a frame may be without its Ethernet header; 0: as
  // long as an IP packet can be.
  uint32_t mtu() const { return mtu_; }
  // Returns the changes to the interface while the port lives, as in "gro off";
  // "" if there are none.
  const std::string& changes() const { return changes_; }

 protected:
  explicit PacketPort(const PortSpec& spec);
  // Gives up a frame for which the kernel left work to the card: whole, if it
  // is of several packets, `keep` is true and it can stay whole; else as the
  // packets that it makes. Counts it.
  void TakeOffloaded(std::span<std::byte> frame, const FrameOffload& offload,
                     Nanos age, bool keep, Take take);
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

#endif  // SNF_PLATFORM_PORTS_PACKET_PORT_H_
