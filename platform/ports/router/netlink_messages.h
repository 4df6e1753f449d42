// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_PORTS_ROUTER_NETLINK_MESSAGES_H_
#define SNF_PLATFORM_PORTS_ROUTER_NETLINK_MESSAGES_H_

#include <linux/netlink.h>
#include <linux/rtnetlink.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/byte_order.h"
#include "base/packet/ip_address.h"

namespace snf {

// Tells the datagrams of an answer to a dump apart (netlink(7)).
enum class DumpPart : uint8_t {
  kMore,
  kLast,
  kInterrupted,  // a table has changed meanwhile: messages may be missing
  kRefused,      // the kernel has failed, with an error
  kMalformed,    // a length is wrong; no message behind that is read
};

namespace netlink {

using Bytes = std::span<const std::byte>;

inline size_t Aligned(size_t bytes) { return (bytes + 3) & ~size_t{3}; }

// Returns the bytes behind the first ones, which are padded.
inline Bytes Behind(Bytes bytes, size_t first) {
  return bytes.subspan(std::min(Aligned(first), bytes.size()));
}

// Returns the structure at the beginning, if it is there as a whole.
template <typename T>
std::optional<T> Head(Bytes bytes) {
  if (bytes.size() < sizeof(T)) return std::nullopt;
  return LoadAs<T>(bytes.data());
}

inline uint32_t NumberIn(Bytes bytes) {
  return Head<uint32_t>(bytes).value_or(0);
}

// Returns the address, of 4 or 16 bytes.
inline std::optional<IpAddress> AddressIn(Bytes bytes, size_t address_bytes) {
  if (bytes.size() != address_bytes) return std::nullopt;
  return address_bytes == 4 ? IpAddress::FromIpv4(LoadBe32(bytes.data()))
                            : LoadAs<IpAddress>(bytes.data());
}

// Calls take(type, payload) for each attribute. Returns false if a length is
// wrong.
template <typename Take>
bool ForAttributes(Bytes bytes, const Take& take) {
  while (!bytes.empty()) {
    const auto head = Head<rtattr>(bytes);
    if (!head.has_value() || head->rta_len < sizeof(rtattr) ||
        head->rta_len > bytes.size()) {
      return false;
    }
    take(head->rta_type & NLA_TYPE_MASK,
         bytes.first(head->rta_len).subspan(sizeof(rtattr)));
    bytes = Behind(bytes, head->rta_len);
  }
  return true;
}

// Calls take(body) for each message of the type, which returns false if a
// length is wrong. After kRefused, `error` is an errno.
template <typename Take>
DumpPart ReadDump(Bytes messages, uint16_t type, int& error, const Take& take) {
  bool is_interrupted = false;
  while (!messages.empty()) {
    const auto head = Head<nlmsghdr>(messages);
    if (!head.has_value() || head->nlmsg_len < sizeof(nlmsghdr) ||
        head->nlmsg_len > messages.size()) {
      return DumpPart::kMalformed;
    }
    is_interrupted |= (head->nlmsg_flags & NLM_F_DUMP_INTR) != 0;
    const Bytes body =
        messages.first(head->nlmsg_len).subspan(sizeof(nlmsghdr));
    if (head->nlmsg_type == NLMSG_ERROR || head->nlmsg_type == NLMSG_DONE) {
      // An errno is at the beginning, negative after a failure.
      const auto result = Head<int32_t>(body);
      if (!result.has_value()) return DumpPart::kMalformed;
      if (*result < 0) {
        error = -*result;
        return DumpPart::kRefused;
      }
      return is_interrupted ? DumpPart::kInterrupted : DumpPart::kLast;
    }
    if (head->nlmsg_type == type && !take(body)) return DumpPart::kMalformed;
    messages = Behind(messages, head->nlmsg_len);
  }
  return is_interrupted ? DumpPart::kInterrupted : DumpPart::kMore;
}

}  // namespace netlink
}  // namespace snf

#endif  // SNF_PLATFORM_PORTS_ROUTER_NETLINK_MESSAGES_H_
