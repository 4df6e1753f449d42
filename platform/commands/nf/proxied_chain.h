// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_COMMANDS_NF_PROXIED_CHAIN_H_
#define SNF_PLATFORM_COMMANDS_NF_PROXIED_CHAIN_H_

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/time.h"
#include "platform/commands/nf/plain_program.h"
#include "runtime/sdk/nf_spec.h"

namespace snf {

// Theory of operation. Runs a chain as platforms do whose functions have no
// addresses (Serpens §II-B, Fig. 13): each NF is a plain program in a process
// of its own, and a proxy carries packets, in batches, from each NF to the
// next. All processes share one CPU, as the calls of a chain in one unit do.
//
//   this process, NF 0 ─► proxy ─► NF 1 ─► proxy ─► NF 2   (one proxy process)
//
// The proxy knows which NF is the next. Once it holds kMostHeld bytes of whole
// batches for an NF, it takes no more from the NF before. If an NF has ended,
// the proxy still sends its batches to the next NF, and an empty batch is the
// end. A local proxy is reached by unix sockets (SAND: one for each server), a
// global one by TCP (Fission: one for all servers), which stays on the machine
// here, so it costs less than over a network. Neither schedules, logs nor
// scales: real proxies cost more.
//
// Owner-thread only.
class ProxiedChain {
 public:
  enum class Proxy : size_t { kLocal, kGlobal };
  struct Options {
    Proxy proxy = Proxy::kLocal;
    uint32_t batch = 32;  // packets in a batch
    PlainProgram::Options nf;
  };
  static constexpr size_t kMostHeld = size_t{1} << 20;

  // Starts the processes, and waits until all are ready. The chain has at least
  // two NFs, which must be OK. Errors: Unavailable, with the system's reason.
  static absl::StatusOr<std::unique_ptr<ProxiedChain>> Start(
      std::span<const NfSpec> nfs, const Options& options);
  ProxiedChain(const ProxiedChain&) = delete;
  ProxiedChain& operator=(const ProxiedChain&) = delete;
  // Ends processes that still run.
  ~ProxiedChain();

  // Takes a packet, as PlainProgram::Take. Errors: Unavailable if a process has
  // ended, with its NF and its exit code or signal.
  absl::Status Take(const CapturedPacket& packet);
  // Lets all packets come out at the end, and waits for that. Errors: as Take.
  struct Result {
    PlainTotals totals;   // released and consumed: by the last NF; dropped: all
    uint64_t digest = 0;  // of packets released by the last NF
  };
  absl::StatusOr<Result> Finish();

  // CPU time that processes had used for making their NFs, when Start returned.
  Nanos cpu_before() const { return cpu_before_; }

 private:
  class Out;  // batches to the proxy

  struct Stage {
    std::string nf;           // its text
    size_t first_reason = 0;  // among the drop reasons of the chain
    int to_proxy = -1;        // the NF's end
    int of_proxy = -1;        // the proxy's
    int told = -1;            // the result is told there
    int tells = -1;
    pid_t process = 0;
  };

  explicit ProxiedChain(const Options& options);
  absl::Status Connect(std::span<const NfSpec> nfs);
  absl::Status StartAll(std::span<const NfSpec> nfs);
  absl::StatusOr<pid_t> Fork(const std::function<int()>& body);
  int RunProxy() const;
  int RunStage(const NfSpec& nf, size_t stage) const;
  // Ends all processes, and returns which of them has ended first, and how.
  absl::Status WhyCut();

  const Options options_;
  std::vector<Stage> stages_;
  pid_t proxy_ = 0;
  Nanos cpu_before_{};
  std::unique_ptr<Out> out_;
  std::unique_ptr<PlainProgram> first_;
};

}  // namespace snf

#endif  // SNF_PLATFORM_COMMANDS_NF_PROXIED_CHAIN_H_
