// SPDX-License-Identifier: Apache-2.0
#include "platform/daemon/group/place_giving.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <span>
#include <utility>

#include "platform/daemon/group/flow_messages.h"
#include "resource_manager/etcd/group_store.h"
#include "runtime/ring/real_clock.h"

namespace snf {
namespace {

constexpr char kFlowKind = 'W', kAllKind = 'A', kTakenKind = 'R',
               kGoneKind = 'G';
constexpr size_t kMostQueued = 1'024;
constexpr size_t kMostMessage = 1 << 17;  // also of a table

struct PlaceHead {
  uint64_t is_active = 0;
  uint64_t joined = 0;
  int64_t vouched_until_ns = 0;
};

std::vector<std::byte> BytesOfPlace(const GatewayGroup::Place& place) {
  const PlaceHead head = {.is_active = place.is_active ? 1u : 0u,
                          .joined = place.joined,
                          .vouched_until_ns = place.vouched_until.ns};
  const std::string table = MessageOf(place.table).SerializeAsString();
  return snf::BytesOf(head, std::as_bytes(std::span(table)));
}

std::optional<GatewayGroup::Place> PlaceOf(std::span<const std::byte> bytes) {
  PlaceHead head;
  if (bytes.size() < sizeof head) return std::nullopt;
  std::memcpy(&head, bytes.data(), sizeof head);
  const auto rest = bytes.subspan(sizeof head);
  proto::GatewayTable table;
  if (!table.ParseFromArray(rest.data(), static_cast<int>(rest.size()))) {
    return std::nullopt;
  }
  return GatewayGroup::Place{.table = TableOf(table),
                             .is_active = head.is_active != 0,
                             .joined = head.joined,
                             .vouched_until = {head.vouched_until_ns}};
}

absl::Status Kept(const char* why) {
  return absl::UnavailableError(
      fmt::format("the predecessor keeps its place: {}", why));
}

}  // namespace

std::string PlaceGiving::Format() {
  constexpr int kNumber = 1;
  return fmt::format("{}.{}", kNumber, sizeof(FlowMessage));
}

PlaceGiving::PlaceGiving(int connection, GroupMember& member, FlowHeirs& heirs,
                         std::function<void(bool)> told)
    : connection_(connection),
      member_(member),
      heirs_(heirs),
      told_(std::move(told)),
      begun_(RealClock::Monotonic()),
      progress_(begun_) {}

PlaceGiving::State PlaceGiving::Turn(RealDriver* driver) {
  if (state_ != State::kGives) return state_;
  const bool is_late = RealClock::Monotonic() - progress_ > kMost;
  const bool is_other = step_ != Step::kDrains && driver != driver_;
  if (driver == nullptr || !driver->has_controller() || is_late || is_other ||
      !heirs_.is_settled() || !Flush()) {
    CallOff();
    return state_;
  }
  Give(*driver);
  if (state_ == State::kGives) LookForAnswer();
  return state_;
}

void PlaceGiving::Give(RealDriver& driver) {
  switch (step_) {
    case Step::kDrains: {
      const bool is_late = RealClock::Monotonic() - begun_ > kLongestDrain;
      if (!driver.is_idle() && !is_late) return;
      heirs_.BeginMove(driver, [this](StateLink::Received message) {
        std::vector<std::byte> rest = BytesOf(message.from, message.bytes);
        Queue(kFlowKind, std::move(rest));
      });
      driver_ = &driver;
      step_ = Step::kFlows;
      return;
    }
    case Step::kFlows: {
      const size_t room = kMostQueued - std::min(kMostQueued, queue_.size());
      if (!heirs_.Move(driver, room)) return;
      Queue(kAllKind, BytesOf(heirs_.lost_in_move()));
      step_ = Step::kAnswer;
      return;
    }
    case Step::kAnswer:
      return;
  }
}

void PlaceGiving::Queue(char kind, std::vector<std::byte> rest) {
  rest.insert(rest.begin(), static_cast<std::byte>(kind));
  queue_.push_back(std::move(rest));
}

// Returns false if the other process is gone.
bool PlaceGiving::Flush() {
  while (!queue_.empty()) {
    const std::vector<std::byte>& message = queue_.front();
    if (send(connection_, message.data(), message.size(),
             MSG_NOSIGNAL | MSG_DONTWAIT) < 0) {
      return errno == EAGAIN || errno == EINTR;
    }
    queue_.pop_front();
    progress_ = RealClock::Monotonic();
  }
  return true;
}

void PlaceGiving::LookForAnswer() {
  char kind = 0;
  const ssize_t bytes = recv(connection_, &kind, 1, MSG_DONTWAIT);
  if (bytes < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (bytes == 1 && kind == kTakenKind && step_ == Step::kAnswer) {
    GiveAway();
  } else {
    CallOff();
  }
}

void PlaceGiving::GiveAway() {
  pollfd peer = {.fd = connection_, .events = 0, .revents = 0};
  if (poll(&peer, 1, 0) > 0) return CallOff();  // it has ended
  const auto place = member_.HandOn(heirs_.epoch());
  if (!place.has_value()) return CallOff();
  Queue(kGoneKind, BytesOfPlace(*place));
  Flush();  // the other has read all before
  state_ = State::kIsGone;
  End(true);
}

void PlaceGiving::CallOff() {
  if (state_ != State::kGives) return;
  state_ = State::kIsOff;
  heirs_.EndMove();
  shutdown(connection_, SHUT_RDWR);
  End(false);
}

void PlaceGiving::End(bool is_gone) {
  if (told_ != nullptr) std::exchange(told_, nullptr)(is_gone);
}

// --- The new process. ---

absl::StatusOr<ReceivedPlace> ReceivePlace(int connection, char closed) {
  ReceivedPlace received;
  std::vector<std::byte> room(kMostMessage);
  bool is_closed = false;
  bool has_all = false;
  while (true) {
    const ssize_t bytes = recv(connection, room.data(), room.size(), 0);
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes <= 0) {
      return Kept(bytes == 0 ? "it has ended the connection"
                             : "it has not answered in time");
    }
    const auto message = std::span(room).first(static_cast<size_t>(bytes));
    const auto kind = static_cast<char>(message.front());
    const auto rest = message.subspan(1);
    StateLink::Received flow;
    if (kind == kFlowKind && rest.size() > sizeof flow.from) {
      std::memcpy(&flow.from, rest.data(), sizeof flow.from);
      const auto record = rest.subspan(sizeof flow.from);
      flow.bytes.assign(record.begin(), record.end());
      received.flows.push_back(std::move(flow));
    } else if (kind == kAllKind && Load(rest, received.lost)) {
      has_all = true;
    } else if (kind == closed) {
      is_closed = true;
    } else if (kind == kGoneKind) {
      auto place = PlaceOf(rest);
      if (!place.has_value()) return Kept("its place cannot be read");
      received.place = *std::move(place);
      return received;
    } else {
      return Kept("a message that cannot be");
    }
    const bool is_ready = has_all && is_closed;
    if (is_ready && std::exchange(has_all, false) &&
        send(connection, &kTakenKind, 1, MSG_NOSIGNAL) < 0) {
      return Kept("it has ended the connection");
    }
  }
}

}  // namespace snf
