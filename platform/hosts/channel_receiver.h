// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_HOSTS_CHANNEL_RECEIVER_H_
#define SNF_PLATFORM_HOSTS_CHANNEL_RECEIVER_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "platform/hosts/channel_sender.h"

namespace snf {

// Puts the pieces of a channel's stream together (channel_sender.h), in
// whatever order they come and however often. Bytes come out once, in order.
//
// Pure; owner-thread only. Holds at most kChannelWindow bytes.
class ChannelReceiver {
 public:
  // Takes a datagram. Returns false if the piece is beyond the window: no
  // sender sends that.
  bool Take(uint64_t number, uint64_t offset, std::span<const std::byte> bytes);

  // Returns the bytes that come next in the stream and are here; valid until
  // the next call that is not const.
  std::span<const std::byte> ready() const {
    return std::span(bytes_).subspan(head_, received_ - consumed_);
  }
  // The first bytes of ready() were used.
  void Consume(size_t bytes);

  ChannelAck Ack() const;
  // Counts datagrams that brought nothing new.
  uint64_t repeated() const { return repeated_; }

 private:
  void Note(uint64_t number);
  bool Keep(uint64_t offset, std::span<const std::byte> bytes);

  std::vector<std::byte> bytes_;  // from offset consumed_ - head_ on
  size_t head_ = 0;
  uint64_t consumed_ = 0;
  uint64_t received_ = 0;                 // without a hole
  std::map<uint64_t, uint64_t> islands_;  // behind holes: begin, end
  std::vector<NumberRange> ranges_;       // the newest first
  uint64_t repeated_ = 0;
};

}  // namespace snf

#endif  // SNF_PLATFORM_HOSTS_CHANNEL_RECEIVER_H_
