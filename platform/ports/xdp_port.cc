// SPDX-License-Identifier: Apache-2.0
#include "platform/ports/xdp_port.h"

#include <fmt/format.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string>
#include <utility>

namespace snf {
namespace {

constexpr size_t kMemoryBytes =
    size_t{2} * XdpSocket::kPieces * XdpSocket::kPieceBytes;
// XDP_USE_SG, which Debian 12's headers lack.
constexpr uint16_t kSeveralPieces = 1 << 4;
// After a socket has closed, the kernel needs some time until its queue can be
// taken again.
constexpr Nanos kMostWait = Seconds(1);
constexpr Nanos kWait = Milliseconds(20);
// A call sends some frames of the queue, not all.
constexpr int kMostCalls = 256;
// Link headers: with two tags, the most of an incoming frame; and with one tag,
// the most that the kernel lets leave above the MTU.
constexpr uint32_t kTwoTagsHeader = 14 + 8;
constexpr uint32_t kOneTagHeader = 14 + 4;

// Returns how many receive queues the interface has.
uint32_t QueuesOf(const std::string& interface) {
  std::error_code error;
  uint32_t queues = 0;
  for (const auto& entry : std::filesystem::directory_iterator(
           "/sys/class/net/" + interface + "/queues", error)) {
    queues += entry.path().filename().string().starts_with("rx-") ? 1 : 0;
  }
  return std::max(queues, 1u);
}

}  // namespace

// --- A socket. ---

XdpSocket::~XdpSocket() {
  socket_ = Descriptor();
  if (memory_ != nullptr) munmap(memory_, kMemoryBytes);
}

bool XdpSocket::Open(int interface, uint32_t queue, bool takes_parts) {
  socket_ = Descriptor(socket(AF_XDP, SOCK_RAW | SOCK_CLOEXEC, 0));
  if (!socket_.is_open()) return false;
  void* const mapped = mmap(nullptr, kMemoryBytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) return false;
  memory_ = static_cast<std::byte*>(mapped);
  xdp_umem_reg memory = {};
  memory.addr = reinterpret_cast<uintptr_t>(memory_);
  memory.len = kMemoryBytes;
  memory.chunk_size = kPieceBytes;
  if (!SetOption(socket_, SOL_XDP, XDP_UMEM_REG, memory) || !MapRings()) {
    return false;
  }
  // The first half is for incoming frames, the second for outgoing ones.
  for (uint64_t i = 0; i < kPieces; ++i) to_fill_.Push(i * kPieceBytes);
  to_fill_.Publish();
  for (uint64_t i = 2 * kPieces; i > kPieces; --i) {
    free_.push_back((i - 1) * kPieceBytes);
  }
  return Bind(interface, queue, takes_parts);
}

bool XdpSocket::MapRings() {
  for (const int ring : {XDP_UMEM_FILL_RING, XDP_UMEM_COMPLETION_RING,
                         XDP_RX_RING, XDP_TX_RING}) {
    if (!SetOption(socket_, SOL_XDP, ring, kPieces)) return false;
  }
  xdp_mmap_offsets offsets = {};
  socklen_t size = sizeof offsets;
  const int socket = socket_.number();
  if (getsockopt(socket, SOL_XDP, XDP_MMAP_OFFSETS, &offsets, &size) != 0) {
    return false;
  }
  return to_fill_.Map(socket, static_cast<off_t>(XDP_UMEM_PGOFF_FILL_RING),
                      offsets.fr, kPieces) &&
         completed_.Map(socket,
                        static_cast<off_t>(XDP_UMEM_PGOFF_COMPLETION_RING),
                        offsets.cr, kPieces) &&
         received_.Map(socket, XDP_PGOFF_RX_RING, offsets.rx, kPieces) &&
         to_send_.Map(socket, XDP_PGOFF_TX_RING, offsets.tx, kPieces);
}

bool XdpSocket::Bind(int interface, uint32_t queue, bool takes_parts) const {
  sockaddr_xdp address = {};
  address.sxdp_family = AF_XDP;
  address.sxdp_flags = XDP_USE_NEED_WAKEUP;
  if (takes_parts) address.sxdp_flags |= kSeveralPieces;
  address.sxdp_ifindex = static_cast<uint32_t>(interface);
  address.sxdp_queue_id = queue;
  for (int64_t waited = 0; waited < kMostWait.ns; waited += kWait.ns) {
    if (bind(socket_.number(), reinterpret_cast<sockaddr*>(&address),
             sizeof address) == 0) {
      return true;
    }
    if (errno != EBUSY) return false;
    const timespec wait = {.tv_sec = 0, .tv_nsec = kWait.ns};
    nanosleep(&wait, nullptr);
    errno = EBUSY;
  }
  return false;
}

void XdpSocket::WakeReceiver() const {
  recvfrom(socket_.number(), nullptr, 0, MSG_DONTWAIT, nullptr, nullptr);
}

void XdpSocket::Complete() {
  const uint32_t done = completed_.waiting();
  for (uint32_t i = 0; i < done; ++i) {
    free_.push_back(completed_.waiting_at(i));
  }
  if (done > 0) completed_.Release(done);
}

bool XdpSocket::Send(std::span<const std::byte> frame) {
  const size_t pieces = (frame.size() + kPieceBytes - 1) / kPieceBytes;
  if (free_.size() < pieces) Complete();
  if (free_.size() < pieces || to_send_.room() < pieces) return false;
  while (!frame.empty()) {
    const std::span<const std::byte> piece =
        frame.first(std::min<size_t>(frame.size(), kPieceBytes));
    frame = frame.subspan(piece.size());
    const uint64_t at = free_.back();
    free_.pop_back();
    std::ranges::copy(piece, memory_ + at);
    to_send_.Push({.addr = at,
                   .len = static_cast<uint32_t>(piece.size()),
                   .options = frame.empty() ? 0 : kGoesOn});
  }
  return true;
}

int XdpSocket::Flush() {
  to_send_.Publish();
  for (int i = 0; i < kMostCalls && to_send_.has_unsent(); ++i) {
    if (!to_send_.wants_wakeup()) break;
    if (sendto(socket_.number(), nullptr, 0, MSG_DONTWAIT, nullptr, 0) < 0) {
      if (errno == ENETDOWN || errno == ENXIO || errno == ENODEV) return errno;
      if (errno != EAGAIN && errno != EBUSY && errno != EINTR) break;
    }
    Complete();
  }
  Complete();
  return 0;
}

uint64_t XdpSocket::drops() const {
  xdp_statistics all = {};
  socklen_t size = sizeof all;
  if (getsockopt(socket_.number(), SOL_XDP, XDP_STATISTICS, &all, &size) != 0) {
    return 0;
  }
  return all.rx_dropped + all.rx_ring_full;
}

// --- The port. ---

absl::StatusOr<std::unique_ptr<PacketPort>> XdpPort::Open(
    const PortSpec& spec) {
  std::unique_ptr<XdpPort> port(new XdpPort(spec));
  const absl::Status status = port->Connect();
  if (status.ok()) return port;
  return absl::Status(
      status.code(),
      fmt::format("port {}: {}", spec.name(), std::string(status.message())));
}

absl::Status XdpPort::Failed(const char* what) const {
  const int error = errno;
  const std::string message =
      fmt::format("{}: {}: {}", spec_.interface, what, std::strerror(error));
  if (error == EPERM || error == EACCES) {
    return absl::PermissionDeniedError(
        message +
        "; AF_XDP needs root, or CAP_NET_RAW, CAP_NET_ADMIN and CAP_BPF");
  }
  return absl::FailedPreconditionError(message);
}

absl::Status XdpPort::TooLong() const {
  return absl::FailedPreconditionError(
      fmt::format("{} has an MTU of {}, and AF_XDP supports at most {} in this "
                  "kernel or with this driver; packet:{} has no limit",
                  spec_.interface, mtu_, XdpSocket::kMostInOne - kTwoTagsHeader,
                  spec_.interface));
}

absl::Status XdpPort::Connect() {
  if (absl::Status s = interface_.Check(); !s.ok()) return s;
  mtu_ = interface_.mtu();
  const bool takes_parts = mtu_ + kTwoTagsHeader > XdpSocket::kMostInOne;
  index_ = interface_.index();
  listener_ = Descriptor(socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0));
  packet_mreq all = {};
  all.mr_ifindex = index_;
  all.mr_type = PACKET_MR_PROMISC;
  if (!listener_.is_open() ||
      !SetOption(listener_, SOL_PACKET, PACKET_ADD_MEMBERSHIP, all)) {
    return Failed("promiscuous mode");
  }
  changes_ = interface_.MergeNothing();
  // A program in the driver would not see tags that the card takes out.
  if (const std::string tags = interface_.LeaveTags(); !tags.empty()) {
    changes_ += (changes_.empty() ? "" : ", ") + tags;
  }
  if (!changes_.empty()) changes_ += " off";
  const uint32_t queues = QueuesOf(spec_.interface);
  if (queues > kMostQueues) {
    return absl::FailedPreconditionError(fmt::format(
        "{} has {} receive queues, at most {} are supported (ethtool -L {} "
        "combined {})",
        spec_.interface, queues, kMostQueues, spec_.interface, kMostQueues));
  }
  if (!program_.Attach(index_, queues, takes_parts)) {
    if (takes_parts && errno == EINVAL) return TooLong();
    return Failed(errno == EBUSY ? "another XDP program is attached"
                                 : "an XDP program (needs Linux 5.9)");
  }
  all_ = Descriptor(epoll_create1(EPOLL_CLOEXEC));
  for (uint32_t queue = 0; queue < queues; ++queue) {
    queues_.push_back(std::make_unique<XdpSocket>());
    if (!queues_.back()->Open(index_, queue, takes_parts)) {
      if (takes_parts && errno == EINVAL) return TooLong();
      return Failed("an AF_XDP socket");
    }
    const int socket = queues_.back()->descriptor();
    epoll_event readable = {.events = EPOLLIN, .data = {.u32 = queue}};
    if (epoll_ctl(all_.number(), EPOLL_CTL_ADD, socket, &readable) != 0 ||
        !program_.Redirect(queue, socket)) {
      return Failed("an AF_XDP socket");
    }
  }
  if (!changes_.empty()) changes_ += ", ";
  changes_ += program_.is_native() ? "an XDP program in its driver"
                                   : "a general XDP program";
  return absl::OkStatus();
}

// The program goes first: nothing is given to sockets that are closed.
XdpPort::~XdpPort() { program_ = XdpProgram(); }

bool XdpPort::Receive(Take take) {
  uint32_t received = 0;
  for (size_t i = 0; i < queues_.size(); ++i) {
    const uint32_t most = has_stopped_ ? std::min(left_[i], kBatch) : kBatch;
    const uint32_t count =
        queues_[i]->Receive(most, [&](std::span<const std::byte> frame) {
          if (frame.size() < kLeastBytes) {
            ++figures_.refused;
            return;
          }
          ++figures_.received;
          take({.bytes = frame});
        });
    if (has_stopped_) left_[i] -= count;
    received += count;
  }
  return received > 0;
}

void XdpPort::StopReceiving() {
  if (has_stopped_) return;
  has_stopped_ = true;
  for (uint32_t i = 0; i < queues_.size(); ++i) {
    program_.RedirectNoMore(i);
    left_.push_back(queues_[i]->waiting());
  }
}

void XdpPort::Send(std::span<const std::byte> frame) {
  XdpSocket& queue = *queues_.front();
  if (unsent_ == kBatch) Flush();
  // The kernel would drop a frame that is too long, and not tell.
  const bool is_too_long = frame.size() > mtu_ + kOneTagHeader;
  if (is_too_long || !queue.Send(frame)) {
    ++figures_.send_drops;
    figures_.too_long += is_too_long ? 1 : 0;
    return;
  }
  ++unsent_;
  ++figures_.sent;
}

void XdpPort::Flush() {
  if (unsent_ == 0) return;
  unsent_ = 0;
  if (const int error = queues_.front()->Flush(); error != 0) Fail(error);
}

void XdpPort::UpdateFigures() {
  figures_.kernel_drops = 0;
  for (const auto& queue : queues_) figures_.kernel_drops += queue->drops();
  // The sockets are not told that their interface is gone.
  if (interface_.index() != index_ || !interface_.Check().ok()) Fail(ENETDOWN);
}

}  // namespace snf
