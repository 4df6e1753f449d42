// SPDX-License-Identifier: Apache-2.0
#include "platform/report/nf_export.h"

#include <chrono>
#include <string>
#include <thread>

#include "platform/report/collector_socket.h"

namespace snf {

absl::Status SendExport(const NfReport::Export& exported) {
  using std::chrono::steady_clock;
  CollectorSocket socket({.host = exported.to.host,
                          .port = exported.to.port,
                          .is_udp = exported.to.is_udp});
  if (!socket.is_open()) return socket.error();
  const steady_clock::time_point begin = steady_clock::now();
  int64_t bytes = 0;
  for (const std::string& message : exported.messages) {
    if (!socket.Send(message)) return socket.error();
    bytes += static_cast<int64_t>(message.size());
    if (!exported.to.is_udp) continue;
    std::this_thread::sleep_until(
        begin +
        std::chrono::microseconds(bytes * 1'000'000 / kUdpBytesPerSecond));
  }
  return absl::OkStatus();
}

}  // namespace snf
