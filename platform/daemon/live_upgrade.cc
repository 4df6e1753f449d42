// SPDX-License-Identifier: Apache-2.0
#include "platform/daemon/live_upgrade.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <iterator>
#include <utility>

#include "base/text/wording.h"
#include "platform/ports/steering.h"

namespace snf {
namespace {

constexpr char kFiles = 'F', kClosed = 'C', kPieces = 'P', kEnd = 'E';
constexpr size_t kMostFiles = 1 + 2 * kMostPorts + 2;
constexpr size_t kMostBytes = 1 << 20;  // of pieces
constexpr timeval kPatience = {.tv_sec = 5, .tv_usec = 0};
constexpr timeval kForEver = {.tv_sec = 0, .tv_usec = 0};

absl::Status SocketError(const std::string& what) {
  return absl::UnavailableError(
      fmt::format("{}: {}", what, std::strerror(errno)));
}

bool AddressOf(const std::string& file, sockaddr_un& address) {
  address.sun_family = AF_UNIX;
  if (file.empty() || file.size() >= sizeof address.sun_path) return false;
  std::memcpy(address.sun_path, file.data(), file.size());
  return true;
}

// One message, with descriptors.
bool Send(const Descriptor& socket, const std::string& text,
          const std::vector<int>& files = {}) {
  iovec part = {const_cast<char*>(text.data()), text.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(kMostFiles * sizeof(int))>
      beside{};
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (!files.empty()) {
    message.msg_control = beside.data();
    message.msg_controllen = CMSG_SPACE(files.size() * sizeof(int));
    cmsghdr* const head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(files.size() * sizeof(int));
    std::memcpy(CMSG_DATA(head), files.data(), files.size() * sizeof(int));
  }
  return sendmsg(socket.number(), &message, MSG_NOSIGNAL) >= 0;
}

// The next message; "" at the end, or if none comes in time.
std::string ReceiveText(const Descriptor& socket) {
  std::string text(kMostBytes, '\0');
  ssize_t bytes = 0;
  do {
    bytes = recv(socket.number(), text.data(), text.size(), 0);
  } while (bytes < 0 && errno == EINTR);
  text.resize(bytes > 0 ? static_cast<size_t>(bytes) : 0);
  return text;
}

std::vector<Descriptor> ReceiveFiles(const Descriptor& socket) {
  char kind = 0;
  iovec part = {&kind, 1};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(kMostFiles * sizeof(int))>
      beside{};
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = beside.data();
  message.msg_controllen = beside.size();
  std::vector<Descriptor> files;
  if (recvmsg(socket.number(), &message, MSG_CMSG_CLOEXEC) != 1) return files;
  for (cmsghdr* head = CMSG_FIRSTHDR(&message); head != nullptr;
       head = CMSG_NXTHDR(&message, head)) {
    if (head->cmsg_level != SOL_SOCKET || head->cmsg_type != SCM_RIGHTS) {
      continue;
    }
    const size_t count = (head->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int file = -1;
      std::memcpy(&file, CMSG_DATA(head) + i * sizeof(int), sizeof file);
      files.emplace_back(file);
    }
  }
  if (kind != kFiles) files.clear();
  return files;
}

template <typename Message>
void SetPools(const PoolExchange::Pools& pools, Message& to) {
  for (const auto& [name, words] : pools) {
    proto::HandedPool& pool = *to.add_pool();
    pool.set_name(name);
    for (const uint64_t word : words) pool.add_word(word);
  }
}

template <typename Message>
PoolExchange::Pools PoolsOf(const Message& from) {
  PoolExchange::Pools pools;
  for (const proto::HandedPool& pool : from.pool()) {
    pools[pool.name()] = {pool.word().begin(), pool.word().end()};
  }
  return pools;
}

}  // namespace

UpgradePorts UpgradePorts::Of(const std::vector<PortSpec>& ports,
                              const std::string& group, const std::string& nf) {
  UpgradePorts named;
  for (const PortSpec& port : ports) named.texts.push_back(port.text());
  const auto& steering = ports.front().steering;
  if (!group.empty()) {
    named.steering = group;
    named.group_nf = nf;
  } else if (steering != nullptr) {
    named.steering = steering->text();
  }
  return named;
}

// --- The old one. ---

LivePredecessor::~LivePredecessor() {
  ends_ = true;
  if (connection_.is_open()) shutdown(connection_.number(), SHUT_RDWR);
  Join();
}

void LivePredecessor::Begin(LiveTraffic& traffic, ChainSet& chains,
                            UpgradePorts ports, int lock, Hooks hooks) {
  traffic_ = &traffic;
  chains_ = &chains;
  ports_ = std::move(ports);
  lock_ = lock;
  hooks_ = std::move(hooks);
}

absl::Status LivePredecessor::Connect(const std::string& file) {
  sockaddr_un address = {};
  if (!AddressOf(file, address)) {
    return absl::InvalidArgumentError("socket: want the name of a file");
  }
  Descriptor connection(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  SetOption(connection, SOL_SOCKET, SO_SNDTIMEO, kPatience);
  if (connect(connection.number(), reinterpret_cast<sockaddr*>(&address),
              sizeof address) != 0) {
    return SocketError(Printable(file));
  }
  // It gets the lock and the ports: nobody but this user, or root, may.
  ucred peer = {};
  socklen_t bytes = sizeof peer;
  if (getsockopt(connection.number(), SOL_SOCKET, SO_PEERCRED, &peer, &bytes) !=
      0) {
    return SocketError(Printable(file));
  }
  if (peer.uid != 0 && peer.uid != geteuid()) {
    return absl::PermissionDeniedError(
        fmt::format("{}: user {} listens there, and user {} alone may",
                    Printable(file), peer.uid, geteuid()));
  }
  connection_ = std::move(connection);
  return absl::OkStatus();
}

absl::Status LivePredecessor::Upgrade(Mailbox& mailbox,
                                      Mailbox::Deadline deadline,
                                      const proto::UpgradeRequest& request,
                                      proto::UpgradeReply& reply) {
  // Never waits: the end may wait for calls with this mutex in its hand.
  const std::unique_lock lock(call_, std::try_to_lock);
  if (!lock.owns_lock()) {
    return absl::UnavailableError("the daemon ends, or another call runs");
  }
  if (has_handed_on_) {
    return absl::FailedPreconditionError("another daemon has its place");
  }
  if (!std::ranges::equal(ports_.texts, request.port())) {
    return absl::InvalidArgumentError(
        "its ports are others: both want the same, in the same order");
  }
  if (ports_.steering != request.steering()) {
    const auto named = [](const std::string& steering) {
      return steering.empty() ? "alone" : Printable(steering);
    };
    return absl::InvalidArgumentError(fmt::format(
        "it shares its ports otherwise: it is {}, and the other is {}",
        named(ports_.steering), named(request.steering())));
  }
  Join();  // of one that has ended
  if (absl::Status s = Connect(request.socket()); !s.ok()) return s;
  const Nanos within =
      request.has_within_ns() ? Nanos{request.within_ns()} : Nanos::max();
  absl::Status done;
  const absl::Status asked =
      mailbox.Ask([&] { done = HandOn(within, reply); }, deadline);
  if (!asked.ok()) return asked;
  if (!done.ok()) return done;
  reply.set_pid(getpid());
  has_handed_on_ = true;
  std::promise<void> closed;
  is_closed_ = closed.get_future();
  attends_ = std::thread(&LivePredecessor::Attend, this, std::move(closed));
  return absl::OkStatus();
}

// On the thread of the run.
absl::Status LivePredecessor::HandOn(Nanos within, proto::UpgradeReply& reply) {
  HandedPlace handed;
  const bool is_of_group = traffic_->is_of_group();
  if (is_of_group) {
    auto place = GivePlace();
    if (!place.ok()) return place.status();
    handed = *std::move(place);
  } else {
    traffic_->LookAtSuccessor(*chains_);  // an earlier one
    auto ports = traffic_->HandOn();
    if (!ports.ok()) return ports.status();
    handed.ports = *std::move(ports);
  }
  std::vector<int> files = {lock_};
  for (const HandedPort& port : handed.ports) {
    files.push_back(port.channel.descriptor());
    files.push_back(port.receiver.socket.number());
    proto::UpgradeReply::Port& to = *reply.add_port();
    to.set_ring_bytes(port.receiver.ring_bytes);
    to.set_slot_bytes(port.receiver.slot_bytes);
  }
  files.insert(files.end(), handed.group_sockets.begin(),
               handed.group_sockets.end());
  // If it fails, the channels' other ends are gone: this process continues.
  Send(connection_, std::string(1, kFiles), files);
  reply.set_flows(chains_->flows());
  if (!is_of_group) SetPools(chains_->Retire(within), reply);
  return absl::OkStatus();
}

absl::StatusOr<HandedPlace> LivePredecessor::GivePlace() {
  // The next member of the group that starts wants the same chain.
  const bool has_one = !chains_->has_rules();
  if (has_one && chains_->only().newest_nf() != ports_.group_nf) {
    return absl::FailedPreconditionError(fmt::format(
        "its chain is {} since snf chain set, and its group began with {}: set "
        "that chain first",
        Printable(chains_->only().newest_nf()), Printable(ports_.group_nf)));
  }
  const auto gone = std::make_shared<std::promise<bool>>();
  auto place =
      traffic_->GivePlace(*chains_, connection_.number(),
                          [gone](bool is_gone) { gone->set_value(is_gone); });
  if (place.ok()) is_gone_ = gone->get_future();
  return place;
}

// Returns true if the other has the place of this one for good.
bool LivePredecessor::AwaitEnd() {
  if (is_gone_.valid()) return is_gone_.get();
  const std::string text = ReceiveText(connection_);
  if (ends_) return true;
  if (text.empty() || text.front() != kEnd) return false;
  hooks_.end();
  return true;
}

// Waits for what the other says, beside the run.
void LivePredecessor::Attend(std::promise<void> closed) {
  hooks_.close_server();
  Send(connection_, std::string(1, kClosed));
  closed.set_value();
  if (AwaitEnd() || ends_) return;
  has_handed_on_ = false;
  hooks_.open_server();
}

void LivePredecessor::End(ChainSet& chains) {
  if (!has_handed_on_) return;
  ends_ = true;
  is_closed_.wait();
  if (traffic_->is_of_group()) return;
  proto::HandedPools pools;
  SetPools(chains.Left(), pools);
  Send(connection_, kPieces + pools.SerializeAsString());
}

// --- The other. ---

absl::StatusOr<std::unique_ptr<LiveSuccessor>> LiveSuccessor::Listen(
    const std::string& file) {
  sockaddr_un address = {};
  if (!AddressOf(file, address)) {
    return absl::UnavailableError(file + ": too long for a socket's name");
  }
  Descriptor listener(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  SetOption(listener, SOL_SOCKET, SO_RCVTIMEO, kPatience);
  unlink(file.c_str());
  const mode_t before = umask(0177);
  const bool is_bound =
      bind(listener.number(), reinterpret_cast<sockaddr*>(&address),
           sizeof address) == 0 &&
      listen(listener.number(), 1) == 0;
  umask(before);
  if (!is_bound) return SocketError(file);
  return std::unique_ptr<LiveSuccessor>(
      new LiveSuccessor(file, std::move(listener)));
}

LiveSuccessor::~LiveSuccessor() {
  unlink(file_.c_str());
  if (connection_.is_open()) shutdown(connection_.number(), SHUT_RDWR);
  if (attends_.joinable()) attends_.join();
}

absl::StatusOr<proto::UpgradeReply> LiveSuccessor::Ask(
    ControlClient& client, const UpgradePorts& ports, Nanos within) const {
  proto::UpgradeRequest request;
  request.set_socket(file_);
  for (const std::string& port : ports.texts) request.add_port(port);
  request.set_steering(ports.steering);
  if (within != Nanos::max()) request.set_within_ns(within.ns);
  return client.Ask(request);
}

absl::StatusOr<SucceededMember> LiveSuccessor::TakeOverMember(
    ControlClient& client, const UpgradePorts& ports, LiveTraffic& traffic) {
  constexpr size_t kSockets = 2;  // GroupTraffic::descriptors
  const auto reply = Ask(client, ports, Nanos::max());
  if (!reply.ok()) return reply.status();
  if (absl::Status s = Receive(*reply, traffic, kSockets); !s.ok()) return s;
  older_flows_ = reply->flows();
  // Counts losses from now on.
  auto link = GroupLink::Adopt(std::move(others_.front()));
  auto received = ReceivePlace(connection_.number(), kClosed);
  if (!received.ok()) return received.status();
  return SucceededMember{.received = *std::move(received),
                         .link = std::move(link),
                         .states = std::move(others_.back())};
}

absl::Status LiveSuccessor::TakeOver(ControlClient& client,
                                     const UpgradePorts& ports, Nanos within,
                                     LiveTraffic& traffic, ChainSet& chains) {
  const auto reply = Ask(client, ports, within);
  if (!reply.ok()) return reply.status();
  if (absl::Status s = Receive(*reply, traffic); !s.ok()) return s;
  chains.BeginWith(PoolsOf(*reply));
  older_flows_ = reply->flows();
  return AwaitClosed();
}

absl::Status LiveSuccessor::Receive(const proto::UpgradeReply& reply,
                                    LiveTraffic& traffic, size_t others) {
  connection_ =
      Descriptor(accept4(listener_.number(), nullptr, nullptr, SOCK_CLOEXEC));
  if (!connection_.is_open()) return SocketError(file_);
  unlink(file_.c_str());
  SetOption(connection_, SOL_SOCKET, SO_RCVTIMEO, kPatience);
  std::vector<Descriptor> files = ReceiveFiles(connection_);
  const auto ports = static_cast<size_t>(reply.port_size());
  if (files.size() != 1 + 2 * ports + others) {
    return absl::UnavailableError(
        fmt::format("{} descriptors came, for {} ports", files.size(), ports));
  }
  lock_ = std::move(files[0]);
  std::vector<HandedPort> handed(ports);
  for (size_t i = 0; i < ports; ++i) {
    const proto::UpgradeReply::Port& from = reply.port(static_cast<int>(i));
    handed[i] = {.channel = FrameChannel(std::move(files[1 + 2 * i])),
                 .receiver = {.socket = std::move(files[2 + 2 * i]),
                              .ring_bytes = from.ring_bytes(),
                              .slot_bytes = from.slot_bytes()}};
  }
  std::move(files.end() - static_cast<ptrdiff_t>(others), files.end(),
            std::back_inserter(others_));
  traffic.TakeOver(std::move(handed),
                   [this] { Send(connection_, std::string(1, kEnd)); });
  return absl::OkStatus();
}

absl::Status LiveSuccessor::AwaitClosed() const {
  const std::string text = ReceiveText(connection_);
  if (!text.empty() && text.front() == kClosed) return absl::OkStatus();
  return absl::UnavailableError("the daemon before does not let go");
}

void LiveSuccessor::Attend(ChainSet& chains, Mailbox& mailbox) {
  SetOption(connection_, SOL_SOCKET, SO_RCVTIMEO, kForEver);
  attends_ = std::thread([this, &chains, &mailbox] {
    const std::string text = ReceiveText(connection_);
    has_ended_ = true;
    proto::HandedPools pools;
    if (text.empty() || text.front() != kPieces ||
        !pools.ParseFromString(text.substr(1))) {
      return;
    }
    constexpr auto kMost = std::chrono::seconds(10);
    mailbox
        .Ask([&] { chains.Give(PoolsOf(pools)); },
             std::chrono::steady_clock::now() + kMost)
        .IgnoreError();
  });
}

}  // namespace snf
