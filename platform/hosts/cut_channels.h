// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_HOSTS_CUT_CHANNELS_H_
#define SNF_PLATFORM_HOSTS_CUT_CHANNELS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "platform/hosts/channel_datagram.h"
#include "platform/hosts/channel_receiver.h"
#include "runtime/mirror/loop_mirror.h"

namespace snf {

// The channels between two mirrors, in each direction.
enum class CutChannel : uint8_t {
  kTold,    // what the daemon tells the units
  kFirst,   // to units: from the controller; home: to loggers
  kSecond,  // to units: from other units; home: to other units
  kThird,   // to units: from loggers; home: to the controller
  kWords,   // progress and releases
  kCount,
};
inline constexpr size_t kCutChannels = static_cast<size_t>(CutChannel::kCount);

// The head of a message of a channel, which items of MirrorItem follow.
struct CutHead {
  uint32_t bytes = 0;  // of the items
  // How many messages of each channel were sent before, modulo 2^32.
  std::array<uint32_t, kCutChannels> sent{};
};
static_assert(sizeof(CutHead) == 24);

// Theory of operation. A frame of a LoopMirror is a cut of several rings. Over
// channels of their own, a lost datagram of one ring is to delay that ring
// alone. So the frame is split: each ring's cells and packets become a message
// of the ring's channel, and each message tells how many messages of the other
// channels were sent before. The receiver applies the messages of a channel in
// order, and a message only after the messages of other channels that it may
// presume (rule N10 of proto/protocol.md):
//
//   home:      loggers' ring ◄ other units' ring ◄ controller's ring ◄ words
//   to units:  told ◄ each ring ◄ words, told
//
// An arrow means: waits for all earlier messages of the channels at its left.
// So a host that is lost leaves no message home without the log entries that
// the message presumes (rule N2).
//
// Worked example: a frame home has an entry of the log and a word to the
// controller. The entry is the log's message 7, the word tells that 8 messages
// of the log were sent. If the entry's datagram is lost, the word waits; if the
// word's is lost, later entries do not wait.
//
// Owner-thread only.
class CutSplitter {
 public:
  using Messages = std::array<std::vector<std::byte>, kCutChannels>;

  // Splits a frame of LoopMirror::Collect. A message is empty if the channel
  // has none.
  void Split(std::span<const std::byte> frame, Messages& messages);

 private:
  std::array<uint32_t, kCutChannels> sent_{};
};

// Says which message may be applied. Owner-thread only.
class CutOrder {
 public:
  // `side` is the receiver's.
  explicit CutOrder(LoopMirror::Side side) : side_(side) {}

  bool MayApply(CutChannel channel, const CutHead& head) const;
  void on_applied(CutChannel channel) {
    ++applied_[static_cast<size_t>(channel)];
  }

 private:
  const LoopMirror::Side side_;
  std::array<uint32_t, kCutChannels> applied_{};
};

// The direction of a link's channels to this end: puts messages together from
// datagrams, and delivers each once, when its turn has come (CutOrder).
//
// Pure; owner-thread only. Holds at most a window and a message for a channel.
class CutArrivals {
 public:
  using Deliver = std::function<absl::Status(std::span<const std::byte>)>;

  // Takes a piece of a channel that there is. Returns false if the piece is
  // beyond the window: no sender sends that.
  bool Take(const ChannelDatagram& piece);

  // Messages may be delivered from now on. `side` is this end's.
  void Start(LoopMirror::Side side, Deliver deliver);
  bool is_started() const { return order_.has_value(); }
  // Delivers what can be. Errors: of `deliver`, and InvalidArgument for a
  // message that cannot be.
  absl::Status DeliverAll();

  // Returns the acknowledgements that are due, as datagrams.
  std::vector<ChannelDatagram> TakeAcks();
  // Counts datagrams that brought nothing new.
  uint64_t repeated() const;

 private:
  struct Incoming {
    ChannelReceiver receiver;
    std::optional<CutHead> head{};   // of the message that comes
    std::vector<std::byte> begun{};  // its first bytes, if it is long
    bool is_ack_due = false;
  };

  absl::StatusOr<bool> ReadHead(Incoming& in);
  absl::StatusOr<bool> DeliverOne(CutChannel channel);
  absl::Status DeliverMessage(Incoming& in, std::span<const std::byte> rest);

  std::array<Incoming, kCutChannels> incoming_;
  std::optional<CutOrder> order_{};  // once started
  Deliver deliver_;
};

}  // namespace snf

#endif  // SNF_PLATFORM_HOSTS_CUT_CHANNELS_H_
