// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_LIVE_XDP_PROGRAM_H_
#define SNF_PLATFORM_LIVE_XDP_PROGRAM_H_

#include <cstdint>

#include "platform/live/network_interface.h"

namespace snf {

// A program in the kernel that gives what comes to an interface to AF_XDP
// sockets, by receive queue, and what comes by a queue without one to the
// kernel. It is gone with this object, and with the process. Owner-thread only.
class XdpProgram {
 public:
  // Loads the program, for so many queues, and attaches it: to the interface's
  // driver if that can run it, else to the kernel's general code, which copies
  // (is_native). With `takes_parts`, frames may be longer than a page, and come
  // in parts. Returns false, with errno, if it cannot be: EPERM, EBUSY if
  // another is attached, EINVAL for a kernel before 5.9, or 5.18 for parts.
  bool Attach(int interface, uint32_t queues, bool takes_parts);
  bool is_native() const { return is_native_; }

  // Gives what comes by the queue to the socket from now on; returns false,
  // with errno, if it cannot be.
  bool Redirect(uint32_t queue, int socket);
  // Gives nothing that comes by the queue to a socket from now on.
  void RedirectNoMore(uint32_t queue);

 private:
  Descriptor sockets_;  // a map, by queue
  Descriptor program_;
  Descriptor link_;
  bool is_native_ = false;
};

}  // namespace snf

#endif  // SNF_PLATFORM_LIVE_XDP_PROGRAM_H_
