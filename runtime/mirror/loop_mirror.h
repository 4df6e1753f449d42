// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RUNTIME_MIRROR_LOOP_MIRROR_H_
#define SNF_RUNTIME_MIRROR_LOOP_MIRROR_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/ids.h"
#include "base/time.h"
#include "runtime/mirror/mirror_frame.h"
#include "runtime/ring/buffer_pool.h"
#include "runtime/ring/doorbell.h"
#include "runtime/ring/loop_control.h"
#include "runtime/ring/loop_progress.h"
#include "runtime/ring/real_clock.h"
#include "runtime/ring/thread_link.h"

namespace snf {

// The rings of a loop of units that has memory of its own.
enum class MirroredRing : uint8_t {
  kDown,     // from the controller
  kRelayed,  // from other loops of units, by the relay
  kAnswers,  // from the loggers
  kLog,      // to the loggers
  kKept,     // to new loggers
  kToRelay,  // to other loops of units
  kUp,       // to the controller
  kCount,
};

// The parts of a loop's memory that a mirror reads and writes.
struct MirrorParts {
  std::array<std::span<std::byte>, static_cast<size_t>(MirroredRing::kCount)>
      rings;
  LoopProgress* progress;
  LoopControl* control;
  ControllerEpoch* controllers;
  RealClock* clock;
  Doorbell* units_bell;
  Doorbell* controller_bell;
  Doorbell* loggers_bell;
  BufferPool pool;  // as the controller's party
};

// Theory of operation. A loop of units on another host has its memory twice:
// on the *home* host, where the controller and the loggers map it, and on the
// *away* host, where the units' process maps it. One LoopMirror on each side
// makes both equal:
//
//   home: controller, loggers ⇄ memory ⇄ LoopMirror ──frames──┐
//   away: process of the units ⇄ memory ⇄ LoopMirror ─────────┘
//
// Each word of the memory has one writer. The mirror of the writer's side sends
// the word's new value, and the other mirror stores it. So a ring's `pushed`
// goes one way, with the new cells, and `released` the other way. Producers
// obey `released`, and rings are equally long, so a mirror queues nothing. A
// packet goes along with the first message that names its handle.
//
// A frame is a consistent cut: if it has the effect of a store, it has the
// effects of all earlier stores of the same process. For that Collect reads all
// words twice, and uses them if no word has changed in between. The receiver
// applies a frame as a whole. So a lost host looks as if its processes were
// killed at one instant, and all rules of proto/protocol.md hold.
//
// The home side trusts nothing that it receives: positions, handles and lengths
// are checked here, and messages by the decoders of their receivers.
//
// Worked example: the controller copies packet 7 into the home memory and
// pushes kEnqueue as cell 40 of kDown. Collect sends kPacket 7 and kCells 40;
// the away mirror copies both, sets `pushed` to 41, and rings the units. The
// unit reads cell 40, and the next frame home has kReleased 41 of kDown.
//
// Collect and has_news are for one thread, Apply for another one. Nothing is
// allocated once frames have had their greatest length.
class LoopMirror {
 public:
  enum class Side : uint8_t { kHome, kAway };

  // The memory must outlive the mirror. `ahead` says by how much the clock of
  // the home host is ahead of this host's; 0 at home. `longest` bounds messages
  // that name packets.
  struct Options {
    Side side = Side::kHome;
    Nanos ahead{};
    size_t longest_entry = 0;  // bytes of a log entry
  };
  LoopMirror(const Options& options, MirrorParts parts);
  LoopMirror(const LoopMirror&) = delete;
  LoopMirror& operator=(const LoopMirror&) = delete;

  // Writes what a new memory has to begin with. At home, before Collect.
  void WriteBegin(std::vector<std::byte>& frame);
  // Makes this new memory begin so. Away, before the process of the units
  // begins. Errors: InvalidArgument, naming what cannot be.
  absl::Status ReadBegin(std::span<const std::byte> frame);

  // Appends the changes of this side; returns false if there are none, or if no
  // consistent cut was found: then has_news() is still true.
  bool Collect(std::vector<std::byte>& frame);
  // Returns true if Collect would find something. Reads with sequential
  // consistency, for Doorbell::Wait.
  bool has_news();
  // Returns true if this side has cells that are not released. Their release
  // rings no bell, so the caller has to look again soon.
  bool awaits_release() const;

  // Stores what a frame says. Errors: InvalidArgument, naming ring, position
  // and value; the mirror is not to be used any more then.
  absl::Status Apply(std::span<const std::byte> frame);

  // Counts, any thread.
  uint64_t packets_sent() const { return packets_sent_.load(); }
  uint64_t packets_received() const { return packets_received_.load(); }

 private:
  static constexpr size_t kRings = static_cast<size_t>(MirroredRing::kCount);

  struct Ring {
    MirroredRing name{};
    RingHeader* header = nullptr;  // null: there is no such ring
    std::byte* cells = nullptr;
    uint32_t capacity = 0;
    bool is_source = false;  // its producer is on this side
    bool is_raw = false;     // not scanned for packets
    // Position up to which cells were sent, of a source, or written, of a sink.
    // Each has one writing thread.
    std::atomic<uint64_t> done{0};
    // The position up to which the consumer has released: of a source, as the
    // other side says; of a sink, as the other side was told.
    std::atomic<uint64_t> released{0};
    bool has_new_cells = false;  // of a sink: in the frame that is applied
    Doorbell* bell = nullptr;    // of the consumer, at a sink
  };
  // All words that this side writes.
  struct Cut {
    std::array<uint64_t, kRings> positions{};
    TellUnits units{};
    TellDaemon daemon{};
    bool operator==(const Cut&) const = default;
  };

  bool is_home() const { return options_.side == Side::kHome; }
  Cut Read() const;
  bool ReadConsistent(Cut& cut) const;
  TellUnits ReadTold() const;
  TellDaemon ReadProgress() const;
  void Store(const TellUnits& told);
  void Store(const TellDaemon& progress);
  void AppendCells(Ring& ring, uint64_t pushed, std::vector<std::byte>& frame);
  size_t Scan(Ring& ring, std::span<const Cell> cells,
              std::vector<PacketHandle>& packets) const;
  void AppendPacket(PacketHandle packet, std::vector<std::byte>& frame);
  void RingBells();
  absl::Status TakeItem(const MirrorItem& item,
                        std::span<const std::byte> bytes);
  absl::Status TakePacket(uint64_t handle, std::span<const std::byte> bytes);
  absl::Status TakeCells(Ring& ring, uint64_t position,
                         std::span<const std::byte> bytes);
  absl::Status TakeReleased(Ring& ring, uint64_t position);
  absl::Status TakeBegin(const MirrorItem& item,
                         std::span<const std::byte> bytes);

  Options options_;
  MirrorParts parts_;
  std::array<Ring, kRings> rings_;
  Cut sent_;  // the last cut
  std::vector<Cell> scanned_;
  std::vector<PacketHandle> packets_;
  std::atomic<uint64_t> packets_sent_{0};
  std::atomic<uint64_t> packets_received_{0};
};

}  // namespace snf

#endif  // SNF_RUNTIME_MIRROR_LOOP_MIRROR_H_
