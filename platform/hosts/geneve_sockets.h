// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_HOSTS_GENEVE_SOCKETS_H_
#define SNF_PLATFORM_HOSTS_GENEVE_SOCKETS_H_

#include <sys/socket.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/tunnels/geneve.h"
#include "platform/hosts/channel_datagram.h"
#include "platform/hosts/cut_channels.h"

namespace snf {

// Returns Unavailable with this word and the system's reason (errno).
absl::Status SystemFailure(const std::string& what);

// The UDP sockets of an end of a GeneveLink: for each channel a socket that
// sends, from a port that the kernel chose, and a socket that receives, at the
// port that both ends have.
//
// Connect and Receive are for one thread; the other calls are for any.
class GeneveSockets {
 public:
  static constexpr size_t kBatch = 32;  // datagrams in a call of the kernel
  static constexpr size_t kMostDatagram = 65'535;

  using Ports = std::array<uint16_t, kCutChannels>;  // by channel

  // Returns a socket for datagrams to port 6081 of no link, at the address at
  // which the TCP socket listens. Errors: Unavailable.
  static absl::StatusOr<int> OpenForStrays(int listener);
  // Binds the sockets that send to the address of this end of the TCP
  // connection. Errors: Unavailable, naming the port and the system's reason.
  static absl::StatusOr<std::unique_ptr<GeneveSockets>> Open(int connection,
                                                             uint16_t port);
  GeneveSockets(const GeneveSockets&) = delete;
  GeneveSockets& operator=(const GeneveSockets&) = delete;
  ~GeneveSockets();

  // Returns the ports from which this end sends; 0 for an unknown one.
  Ports ports() const;
  // Opens the sockets that receive, and connects all to the other end, which
  // sends from these ports. Errors: Unavailable.
  absl::Status Connect(const Ports& peer);

  // Sends a header with zeros up to this many bytes, if the kernel takes it.
  // `flags` as for sendmsg.
  void Send(size_t channel, const DatagramHeader& header, size_t bytes,
            int flags) const;
  // Receives at most kBatch datagrams, without waiting. Returns true if there
  // may be more.
  bool Receive(size_t channel,
               const std::function<void(std::span<const std::byte>)>& take);

  int out(size_t channel) const { return out_[channel]; }
  int in(size_t channel) const { return in_[channel]; }  // -1 before Connect
  uint16_t port() const { return port_; }
  // Returns the bytes of the headers of IP and UDP.
  size_t headers() const;
  // Returns what the kernel knows of the path's longest packet, in bytes.
  size_t KernelsPath(size_t channel) const;

 private:
  GeneveSockets(const sockaddr_storage& own, const sockaddr_storage& peer,
                uint16_t port)
      : own_(own), peer_(peer), port_(port) {}

  const sockaddr_storage own_;
  const sockaddr_storage peer_;
  const uint16_t port_;
  std::array<int, kCutChannels> out_{-1, -1, -1, -1, -1};
  std::array<int, kCutChannels> in_{-1, -1, -1, -1, -1};
  std::vector<std::byte> buffers_ =
      std::vector<std::byte>(kBatch * kMostDatagram);  // for Receive
};

}  // namespace snf

#endif  // SNF_PLATFORM_HOSTS_GENEVE_SOCKETS_H_
