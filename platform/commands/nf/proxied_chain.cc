// SPDX-License-Identifier: Apache-2.0
#include "platform/commands/nf/proxied_chain.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <type_traits>
#include <utility>

#include "platform/process/nf_guard.h"

namespace snf {
namespace {

// Stands in front of a batch; without packets it is the end.
struct BatchHead {
  uint32_t bytes = 0;
  uint32_t packets = 0;
};
struct PacketHead {
  Instant time;
  uint32_t captured = 0;
  uint32_t original = 0;
  LinkType link{};
};
// A stage tells that it is ready, then its result.
struct Ready {
  Nanos cpu;  // that it has used
};
struct Told {
  PlainTotals totals;
  uint64_t digest = 0;
};
static_assert(std::is_trivially_copyable_v<Told>);

// Exit code of a process whose neighbour has ended too early.
constexpr int kCut = 3;

absl::Status ProxyError(const char* what) {
  return absl::UnavailableError(
      fmt::format("{}: {}", what, std::strerror(errno)));
}

bool SendAll(int fd, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return false;
    bytes = bytes.subspan(static_cast<size_t>(sent));
  }
  return true;
}
bool ReceiveAll(int fd, std::span<std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t size = read(fd, bytes.data(), bytes.size());
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) return false;
    bytes = bytes.subspan(static_cast<size_t>(size));
  }
  return true;
}
// A failed write closes the pipe, which the reader sees.
bool TellAll(int fd, std::span<const std::byte> bytes) {
  return write(fd, bytes.data(), bytes.size()) ==
         static_cast<ssize_t>(bytes.size());
}
template <typename T>
std::span<std::byte> BytesIn(T& value) {
  return std::as_writable_bytes(std::span(&value, 1));
}

Nanos OwnCpuTime() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return Nanos{now.tv_sec * 1'000'000'000 + now.tv_nsec};
}

std::string EndOf(int status) {
  if (WIFSIGNALED(status)) {
    return fmt::format("ended by signal {}", WTERMSIG(status));
  }
  return fmt::format("ended with exit code {}", WEXITSTATUS(status));
}

absl::Status ConnectByTcp(int listener, int from, int& accepted) {
  sockaddr_in address = {.sin_family = AF_INET,
                         .sin_port = 0,
                         .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)},
                         .sin_zero = {}};
  socklen_t size = sizeof(address);
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  if (bind(listener, generic, size) != 0) return ProxyError("bind");
  if (listen(listener, 1) != 0) return ProxyError("listen");
  if (getsockname(listener, generic, &size) != 0) {
    return ProxyError("getsockname");
  }
  if (connect(from, generic, size) != 0) return ProxyError("connect");
  accepted = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
  return accepted < 0 ? ProxyError("accept4") : absl::OkStatus();
}

// The caller closes both ends, also after an error.
absl::Status MakeTcpPair(std::array<int, 2>& ends) {
  const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (listener < 0) return ProxyError("socket");
  ends[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  absl::Status status = ends[0] < 0 ? ProxyError("socket")
                                    : ConnectByTcp(listener, ends[0], ends[1]);
  close(listener);
  if (!status.ok()) return status;
  const int now = 1;
  for (const int end : ends) {
    setsockopt(end, IPPROTO_TCP, TCP_NODELAY, &now, sizeof(now));
  }
  return status;
}

// Batches of an NF that wait for the next NF. Memory: 1.5 times
// kMostHeld, and a batch.
class Passage {
 public:
  // Reads batches of the NF, or its end.
  void Receive(int from) {
    std::array<std::byte, 65'536> read;  // NOLINT: recv fills it
    const ssize_t size = recv(from, read.data(), read.size(), MSG_DONTWAIT);
    if (size > 0) {
      const auto got = std::span(read).first(static_cast<size_t>(size));
      bytes_.insert(bytes_.end(), got.begin(), got.end());
      FindWhole();
    }
    has_ended_ = size == 0 || (size < 0 && errno != EAGAIN && errno != EINTR);
  }
  // Returns false if the next NF has ended. Only whole batches are carried.
  bool Send(int to) {
    if (!has_whole()) return true;
    const ssize_t size =
        send(to, &bytes_[sent_], whole_ - sent_, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (size < 0) return errno == EAGAIN || errno == EINTR;
    sent_ += static_cast<size_t>(size);
    if (sent_ < bytes_.size() && sent_ <= ProxiedChain::kMostHeld / 2) {
      return true;
    }
    bytes_.erase(bytes_.begin(),
                 bytes_.begin() + static_cast<std::ptrdiff_t>(sent_));
    whole_ -= sent_;
    sent_ = 0;
    return true;
  }
  // The end of the NF is kept until its batches are sent.
  bool takes() const {
    return !has_ended_ && whole_ - sent_ < ProxiedChain::kMostHeld;
  }
  bool has_whole() const { return whole_ > sent_; }
  bool is_over() const { return has_ended_ && !has_whole(); }

 private:
  void FindWhole() {
    BatchHead head;
    while (bytes_.size() - whole_ >= sizeof(head)) {
      std::memcpy(&head, &bytes_[whole_], sizeof(head));
      if (bytes_.size() - whole_ - sizeof(head) < head.bytes) break;
      whole_ += sizeof(head) + head.bytes;
    }
  }

  bool has_ended_ = false;  // nothing more comes
  std::vector<std::byte> bytes_;
  size_t whole_ = 0;  // bytes of whole batches
  size_t sent_ = 0;
};

bool TakeBatch(PlainProgram& program, std::span<const std::byte> batch,
               uint32_t packets) {
  size_t at = 0;
  for (uint32_t i = 0; i < packets; ++i) {
    PacketHead packet;
    std::memcpy(&packet, &batch[at], sizeof(packet));
    at += sizeof(packet);
    const CapturedPacket captured = {
        .time = packet.time,
        .bytes = batch.subspan(at, packet.captured),
        .original_bytes = packet.original,
        .link = packet.link};
    if (!program.Take(captured).ok()) return false;
    at += packet.captured;
  }
  return true;
}

}  // namespace

class ProxiedChain::Out {
 public:
  Out(int to, uint32_t batch) : to_(to), batch_(batch) { Begin(); }

  void Add(const CapturedPacket& packet) {
    const PacketHead head = {
        .time = packet.time,
        .captured = static_cast<uint32_t>(packet.bytes.size()),
        .original = packet.original_bytes,
        .link = packet.link};
    const auto bytes = std::as_bytes(std::span(&head, 1));
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
    bytes_.insert(bytes_.end(), packet.bytes.begin(), packet.bytes.end());
    if (++packets_ == batch_) Flush();
  }
  void Flush() {
    if (packets_ > 0) Send();
  }
  // Sends the last batch, and the end.
  void End() {
    Flush();
    Send();
  }
  bool has_failed() const { return has_failed_; }

 private:
  void Begin() {
    bytes_.resize(sizeof(BatchHead));
    packets_ = 0;
  }
  void Send() {
    const BatchHead head = {
        .bytes = static_cast<uint32_t>(bytes_.size() - sizeof(BatchHead)),
        .packets = packets_};
    std::memcpy(bytes_.data(), &head, sizeof(head));
    has_failed_ = has_failed_ || !SendAll(to_, bytes_);
    Begin();
  }

  const int to_;
  const uint32_t batch_;
  uint32_t packets_ = 0;
  bool has_failed_ = false;
  std::vector<std::byte> bytes_;
};

absl::StatusOr<std::unique_ptr<ProxiedChain>> ProxiedChain::Start(
    std::span<const NfSpec> nfs, const Options& options) {
  std::unique_ptr<ProxiedChain> chain(new ProxiedChain(options));
  absl::Status status = chain->Connect(nfs);
  if (status.ok()) status = chain->StartAll(nfs);
  if (!status.ok()) return status;
  return chain;
}

ProxiedChain::ProxiedChain(const Options& options) : options_(options) {}

absl::Status ProxiedChain::Connect(std::span<const NfSpec> nfs) {
  for (const NfSpec& nf : nfs) {
    std::array<int, 2> ends = {-1, -1};
    std::array<int, 2> tells = {-1, -1};
    absl::Status status;
    if (options_.proxy == Proxy::kGlobal) {
      status = MakeTcpPair(ends);
    } else if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0,
                          ends.data()) != 0) {
      status = ProxyError("socketpair");
    }
    if (status.ok() && pipe2(tells.data(), O_CLOEXEC) != 0) {
      status = ProxyError("pipe2");
    }
    stages_.push_back({.nf = nf.text(),
                       .to_proxy = ends[0],
                       .of_proxy = ends[1],
                       .told = tells[0],
                       .tells = tells[1]});
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::StatusOr<pid_t> ProxiedChain::Fork(const std::function<int()>& body) {
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child < 0) return ProxyError("fork");
  if (child > 0) return child;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  _exit(getppid() == parent ? body() : 1);
}

absl::Status ProxiedChain::StartAll(std::span<const NfSpec> nfs) {
  cpu_set_t own;
  CPU_ZERO(&own);
  CPU_SET(static_cast<size_t>(sched_getcpu()), &own);
  if (sched_setaffinity(0, sizeof(own), &own) != 0) {
    return ProxyError("one CPU for all");
  }
  const auto proxy = Fork([this] { return RunProxy(); });
  if (!proxy.ok()) return proxy.status();
  proxy_ = *proxy;
  for (size_t i = 1; i < nfs.size(); ++i) {
    const auto stage = Fork([&, i] { return RunStage(nfs[i], i); });
    if (!stage.ok()) return stage.status();
    stages_[i].process = *stage;
    stages_[i].first_reason = stages_[i - 1].first_reason +
                              nfs[i - 1].create()->drop_reasons().size();
  }
  for (Stage& stage : stages_) {
    close(std::exchange(stage.of_proxy, -1));
    close(std::exchange(stage.tells, -1));
    if (&stage != stages_.data()) close(std::exchange(stage.to_proxy, -1));
  }
  out_ = std::make_unique<Out>(stages_[0].to_proxy, options_.batch);
  PlainProgram::Options options = options_.nf;
  options.released = [this](const CapturedPacket& packet) {
    out_->Add(packet);
  };
  first_ = std::make_unique<PlainProgram>(nfs[0], options, nullptr);
  for (size_t i = 1; i < stages_.size(); ++i) {
    Ready ready;
    if (!ReceiveAll(stages_[i].told, BytesIn(ready))) return WhyCut();
    cpu_before_.ns += ready.cpu.ns;
  }
  return absl::OkStatus();
}

// A process that was cut off by another one's end is not named.
absl::Status ProxiedChain::WhyCut() {
  close(std::exchange(stages_[0].to_proxy, -1));
  if (proxy_ > 0) kill(proxy_, SIGKILL);
  std::string why = "the proxy has ended";
  bool is_found = false;
  for (size_t i = 1; i < stages_.size(); ++i) {
    const pid_t process = std::exchange(stages_[i].process, 0);
    int status = 0;
    if (process <= 0 || waitpid(process, &status, 0) != process) continue;
    const bool was_cut = WIFEXITED(status) && WEXITSTATUS(status) == kCut;
    if (status == 0 || was_cut || std::exchange(is_found, true)) continue;
    why = fmt::format("the process of NF {} of {}, {}, has {}", i + 1,
                      stages_.size(), stages_[i].nf, EndOf(status));
  }
  return absl::UnavailableError(why);
}

ProxiedChain::~ProxiedChain() {
  for (const Stage& stage : stages_) {
    for (const int fd :
         {stage.to_proxy, stage.of_proxy, stage.told, stage.tells}) {
      if (fd >= 0) close(fd);
    }
    if (stage.process > 0) kill(stage.process, SIGKILL);
    if (stage.process > 0) waitpid(stage.process, nullptr, 0);
  }
  if (proxy_ > 0) kill(proxy_, SIGKILL);
  if (proxy_ > 0) waitpid(proxy_, nullptr, 0);
}

// Ends when the last NF has closed its connection.
int ProxiedChain::RunProxy() const {
  for (const Stage& stage : stages_) {
    for (const int fd : {stage.to_proxy, stage.told, stage.tells}) close(fd);
  }
  const size_t last = stages_.size() - 1;
  std::vector<Passage> passages(last);  // from each NF to the next
  std::vector<pollfd> waits(stages_.size());
  while (true) {
    for (size_t i = 0; i <= last; ++i) {
      const bool takes = i < last && passages[i].takes();
      const bool gives = i > 0 && passages[i - 1].has_whole();
      // An NF that has ended would be told again and again.
      waits[i] = {.fd = takes || gives || i == last ? stages_[i].of_proxy : -1,
                  .events = static_cast<int16_t>((takes ? POLLIN : 0) |
                                                 (gives ? POLLOUT : 0) |
                                                 (i == last ? POLLRDHUP : 0)),
                  .revents = 0};
    }
    if (poll(waits.data(), waits.size(), -1) < 0) continue;
    for (size_t i = 0; i < last; ++i) {
      const bool receives = waits[i].revents != 0 && passages[i].takes();
      if (receives) passages[i].Receive(stages_[i].of_proxy);
      if ((receives || waits[i + 1].revents != 0) &&
          !passages[i].Send(stages_[i + 1].of_proxy)) {
        return 1;
      }
      // The next NF ends as well, also if this NF has failed.
      if (passages[i].is_over()) shutdown(stages_[i + 1].of_proxy, SHUT_WR);
    }
    constexpr int kClosed = POLLRDHUP | POLLHUP | POLLERR;
    if ((waits[last].revents & kClosed) != 0) return 0;
  }
}

int ProxiedChain::RunStage(const NfSpec& nf, size_t stage) const {
  const Stage& own = stages_[stage];
  for (const Stage& other : stages_) {
    close(other.of_proxy);
    close(other.told);
    if (&other == &own) continue;
    close(other.to_proxy);
    close(other.tells);
  }
  const bool is_last = stage + 1 == stages_.size();
  Out out(own.to_proxy, options_.batch);
  PlainProgram::Options options = options_.nf;
  if (!is_last) {
    options.released = [&out](const CapturedPacket& packet) {
      out.Add(packet);
    };
  }
  PlainProgram program(nf, options, nullptr);
  Ready ready = {.cpu = OwnCpuTime()};
  if (!TellAll(own.tells, BytesIn(ready))) return kCut;
  std::vector<std::byte> batch;
  BatchHead head;
  while (true) {
    if (!ReceiveAll(own.to_proxy, BytesIn(head))) return kCut;
    if (head.packets == 0) break;
    batch.resize(head.bytes);
    if (!ReceiveAll(own.to_proxy, batch)) return kCut;
    if (!TakeBatch(program, batch, head.packets)) return 1;
    if (!is_last) out.Flush();
    if (out.has_failed()) return kCut;
  }
  if (!program.Finish().ok()) return 1;
  if (!is_last) out.End();
  if (out.has_failed()) return kCut;
  Told told = {.totals = program.totals(), .digest = program.digest()};
  return TellAll(own.tells, BytesIn(told)) ? 0 : kCut;
}

absl::Status ProxiedChain::Take(const CapturedPacket& packet) {
  if (absl::Status s = first_->Take(packet); !s.ok()) return s;
  if (!out_->has_failed()) return absl::OkStatus();
  return WhyCut();
}

absl::StatusOr<ProxiedChain::Result> ProxiedChain::Finish() {
  if (absl::Status s = first_->Finish(); !s.ok()) return s;
  out_->End();
  if (out_->has_failed()) return WhyCut();
  Result result = {.totals = first_->totals()};
  for (size_t i = 1; i < stages_.size(); ++i) {
    Told told;
    if (!ReceiveAll(stages_[i].told, BytesIn(told))) return WhyCut();
    PlainTotals& totals = result.totals;
    for (size_t reason = 0; reason < kDropReasons; ++reason) {
      totals.dropped[reason] += told.totals.dropped[reason];
    }
    const size_t first = stages_[i].first_reason;
    for (size_t reason = first; reason < totals.nf_dropped.size(); ++reason) {
      totals.nf_dropped[reason] += told.totals.nf_dropped[reason - first];
    }
    totals.packets_released = told.totals.packets_released;
    totals.packets_consumed += told.totals.packets_consumed;
    totals.packets_passed_through = told.totals.packets_passed_through;
    totals.packets_emitted += told.totals.packets_emitted;
    result.digest = told.digest;
  }
  for (Stage& stage : stages_) {
    const pid_t process = std::exchange(stage.process, 0);
    if (process > 0) waitpid(process, nullptr, 0);
  }
  waitpid(std::exchange(proxy_, 0), nullptr, 0);
  return result;
}

}  // namespace snf
