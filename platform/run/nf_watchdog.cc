// SPDX-License-Identifier: Apache-2.0
#include "platform/run/nf_watchdog.h"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <utility>

#include "base/packet/flow_key.h"
#include "base/packet/flow_key_text.h"
#include "base/packet/packet_parser.h"
#include "base/quantity.h"
#include "traces/byte_sink.h"

namespace snf {

NfWatchdog::NfWatchdog(Options options)
    : options_(std::move(options)), seen_(options_.marks.size()) {
  if (options_.patience == Nanos::max()) return;
  thread_ = std::thread([this] { Run(); });
}

NfWatchdog::~NfWatchdog() {
  {
    const std::scoped_lock lock(mutex_);
    is_over_ = true;
  }
  ends_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void NfWatchdog::Run() {
  const std::chrono::nanoseconds pause(options_.patience.ns / kLooks + 1);
  std::unique_lock lock(mutex_);
  while (!ends_.wait_for(lock, pause, [this] { return is_over_; })) Look();
}

void NfWatchdog::Look() {
  for (size_t i = 0; i < seen_.size(); ++i) {
    const CallMark& mark = *options_.marks[i];
    Seen& seen = seen_[i];
    const uint64_t count = mark.count();
    if (count % 2 == 0 || count != seen.count) {
      seen = {.count = count, .looks = 0};
      continue;
    }
    if (++seen.looks < kLooks) continue;
    const std::string line = Message(options_, mark.call());
    if (mark.count() != count) continue;  // it has just returned
    // Whoever does not return may have stdio's locks.
    if (write(STDERR_FILENO, line.data(), line.size()) < 0) {
      // There is nobody to tell.
    }
    const auto lock = ByteSink::RemovePartialFiles();
    _exit(kExitCode);
  }
}

std::string NfWatchdog::Message(const Options& options,
                                const CallMark::Call& call) {
  std::string where = fmt::format("unit {}", value(call.unit));
  if (call.meta != nullptr) {
    const std::string what = options.describe(call.packet);
    where +=
        fmt::format(", packet {} of its channel: clock {} of flow {}{}{}",
                    call.meta->channel_number, value(call.meta->clock),
                    value(call.meta->flow), what.empty() ? "" : ", ", what);
  } else {
    where += ", not for a packet";
  }
  return fmt::format(
      "snf: the NF '{}' did not return within {} (--nf_patience, "
      "proto/protocol.md F12): {}\n",
      options.nf, FormatDuration(options.patience), where);
}

std::string Describe(BufferPool& buffers, PacketHandle packet) {
  if (!buffers.IsHandle(packet)) return "";
  const auto& [info, bytes] = buffers.view(packet);
  const ParsedPacket headers = Parse(info.link, bytes);
  return headers.has_ip() ? ToString(FiveTuple(bytes, headers, false)) : "";
}

}  // namespace snf
