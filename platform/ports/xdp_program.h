// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_PORTS_XDP_PROGRAM_H_
#define SNF_PLATFORM_PORTS_XDP_PROGRAM_H_

#include <cstdint>

#include "platform/ports/interface/network_interface.h"

namespace snf {

// A program in the kernel that passes the frames of an interface to AF_XDP
// sockets, by receive queue, and frames of a queue without a socket to the
// kernel. It is removed with this object, and with the process. Owner-thread
// only.
class XdpProgram {
 public:
  // Loads the program, for `queues` queues, and attaches it: to the interface's
  // driver if that can run it, else to the kernel's general code, which copies
  // (is_native). If `takes_parts`, frames may be longer than a page, and come
  // in parts. Returns false, with errno, on failure: EPERM, EBUSY if another is
  // attached, EINVAL for a kernel before 5.9, or 5.18 for parts.
  bool Attach(int interface, uint32_t queues, bool takes_parts);
  bool is_native() const { return is_native_; }

  // Passes the frames of the queue to the socket from now on; returns false,
  // with errno, on failure.
  bool Redirect(uint32_t queue, int socket);
  // Passes no more frames of the queue to a socket.
  void RedirectNoMore(uint32_t queue);

 private:
  Descriptor sockets_;  // a map, by queue
  Descriptor program_;
  Descriptor link_;
  bool is_native_ = false;
};

}  // namespace snf

#endif  // SNF_PLATFORM_PORTS_XDP_PROGRAM_H_
