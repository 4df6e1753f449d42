// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_HOSTS_CHANNEL_ARRIVALS_H_
#define SNF_PLATFORM_HOSTS_CHANNEL_ARRIVALS_H_

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
#include "platform/hosts/cut_channels.h"
#include "runtime/mirror/loop_mirror.h"

namespace snf {

// The direction of a link's channels to this end: puts messages together from
// datagrams, and delivers each once, when its turn has come (CutOrder).
//
// Pure; owner-thread only. Holds at most a window and a message for a channel.
class ChannelArrivals {
 public:
  using Deliver = std::function<absl::Status(std::span<const std::byte>)>;

  // Takes a piece of a channel that there is. Returns false if the piece is
  // beyond the window: no sender sends that.
  bool Take(const ChannelDatagram& piece);

  // Messages may be delivered from now on. `side` is this end's.
  void Start(LoopMirror::Side side, Deliver deliver);
  bool is_started() const { return order_.has_value(); }
  // Delivers what can be. Errors: those of `deliver`, and InvalidArgument for a
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

#endif  // SNF_PLATFORM_HOSTS_CHANNEL_ARRIVALS_H_
