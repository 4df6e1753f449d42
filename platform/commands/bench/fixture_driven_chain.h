// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_COMMANDS_BENCH_FIXTURE_DRIVEN_CHAIN_H_
#define SNF_PLATFORM_COMMANDS_BENCH_FIXTURE_DRIVEN_CHAIN_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/packet/fixture_flows.h"
#include "base/time.h"
#include "platform/drivers/real_time/real_driver.h"
#include "traces/loaded_capture.h"

namespace snf {

// For benchmarks: a real-time driver and made connections, of which packets of
// both sides come in random order, again and again; or the packets of a
// capture, in their order. Owner-thread only.
class DrivenChain {
 public:
  struct Options {
    std::string nf;
    uint32_t flows = 0;
    // The end outside of all connections; by default they have 1,000 hosts.
    std::optional<MadeEnd> far = {};
    bool both_sides = true;  // else from the inside alone
    // Comes instead of made packets, and must outlive the chain; an end that
    // sends first is inside.
    const LoadedCapture* capture = nullptr;
    uint32_t threads = 1;
    Speed speed = {.kind = Speed::Kind::kMax, .value = 0};
    // By default so long that flowlets end only because they are full: a run of
    // all rows comes back to a row after up to half a minute, and a repetition
    // has only some of many flows.
    Nanos flowlet_timeout = Seconds(3'600);
    // If not negative, units are in processes, with output loggers, and a
    // running unit is killed this long after the first packet.
    Nanos killed_at{-1};
    bool host_state = false;          // RealOptions::host_state
    RunObserver* observer = nullptr;  // may be null, and outlives the chain
    uint64_t seed = 1;
  };
  // The NF's text must be valid. Errors as in RealDriver::Start.
  static absl::StatusOr<std::unique_ptr<DrivenChain>> Start(
      const Options& options);

  // Offers the next packets, at the speed.
  void Offer(uint64_t packets);
  // Ends the run. Call it once.
  RunResult Finish() { return driver_->Finish(); }
  // Returns an error, which says why, unless every packet was released.
  static absl::Status Check(const RunResult& result);

 private:
  static MadeConnection Connection(const Options& options, uint32_t number);
  explicit DrivenChain(const Options& options);

  size_t packets() const {
    return capture_ != nullptr ? capture_->size() : frames_.size();
  }
  CapturedPacket Next() const;
  // Connections begin, from the inside.
  void Begin(const Options& options);

  const LoadedCapture* capture_;
  std::vector<MadeFrame> frames_;
  size_t next_ = 0;
  std::unique_ptr<RealDriver> driver_;
};

}  // namespace snf

#endif  // SNF_PLATFORM_COMMANDS_BENCH_FIXTURE_DRIVEN_CHAIN_H_
