// SPDX-License-Identifier: Apache-2.0
#include "platform/daemon/lease_member.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/text/wording.h"
#include "base/version.h"
#include "platform/service/tls_endpoint.h"
#include "platform/service/tls_probe.h"
#include "runtime/ring/real_clock.h"

namespace snf {

absl::StatusOr<std::unique_ptr<LeaseMember>> LeaseMember::Join(
    const Options& options, Nanos patience) {
  std::unique_ptr<LeaseMember> member(new LeaseMember(options));
  std::future<absl::Status> joined = member->joined_.get_future();
  member->thread_ = std::thread([member = member.get()] { member->Run(); });
  if (joined.wait_for(std::chrono::nanoseconds(patience.ns)) !=
      std::future_status::ready) {
    return absl::FailedPreconditionError(fmt::format(
        "the resource manager \"{}\" does not answer, or waits for a member "
        "that does not; snf leases --name={} tells",
        options.manager, options.manager));
  }
  if (absl::Status status = joined.get(); !status.ok()) return status;
  return member;
}

LeaseMember::LeaseMember(const Options& options)
    : options_(options),
      hosts_([notice = options.notice](const std::string& line) {
        if (notice != nullptr) notice(true, line);
      }),
      controller_(options.controller),
      reasons_(options.addresses.size()) {}

LeaseMember::~LeaseMember() {
  stops_.store(true, std::memory_order_seq_cst);
  bell_.Ring();
  {
    const std::lock_guard lock(mutex_);
    if (stream_ != nullptr) stream_->Cancel();
  }
  if (thread_.joinable()) thread_.join();
}

void LeaseMember::Run() {
  Nanos wait = kFirstWait;
  while (!stops_.load()) {
    const std::unique_ptr<LeaseStream> stream =
        LeaseStream::Open(options_.addresses[at_]);
    {
      const std::lock_guard lock(mutex_);
      stream_ = stream.get();
      if (stops_.load()) stream->Cancel();
    }
    const bool was_welcome = is_welcome_.load();
    Attend(*stream);
    {
      const std::lock_guard lock(mutex_);
      stream_ = nullptr;
    }
    const bool is_lost = is_welcome_.exchange(false) || was_welcome;
    const absl::Status broken = stream->Finish();
    if (stops_.load()) return;
    NoteWhy(broken);
    // If there are several managers, one may be about to lead.
    if (!has_joined_ && (!refusal_.ok() || !has_others())) {
      return Refute();
    }
    if (absl::IsAborted(refusal_)) {
      EndLeases();
    } else {
      at_ = (at_ + 1) % options_.addresses.size();
    }
    if (has_joined_) OnLost();
    if (is_lost) wait = kFirstWait;
    Wait(wait);
    wait = std::min(Nanos{2 * wait.ns}, kLongestWait);
  }
}

// The words of gRPC for Unavailable do not name a certificate.
std::string LeaseMember::WhyNoManager(const LeaseAddress& address,
                                      const absl::Status& status) {
  const std::string said = status.ok()
                               ? "the connection ended"
                               : Printable(std::string(status.message()));
  if (!address.tls.has_value()) {
    return absl::IsUnavailable(status)
               ? fmt::format("{}: no manager leads there", address.target)
               : fmt::format("{}: {}", address.target, said);
  }
  const auto tcp = ParseTcpAddress("tcp:" + address.target);
  if (!tcp.ok()) return fmt::format("{}: {}", address.target, said);
  const std::string why =
      WhyNotReachable({.address = *tcp,
                       .files = {.authority = address.tls->authority,
                                 .certificate = address.tls->certificate,
                                 .key = address.tls->key}},
                      "--manager_tls");
  return fmt::format("{}: {}", address.target, why.empty() ? said : why);
}

// Looks into each error of an address once: there may be two a second.
void LeaseMember::NoteWhy(const absl::Status& broken) {
  Reason& reason = reasons_[at_];
  const LeaseAddress& address = options_.addresses[at_];
  const absl::Status& error = refusal_.ok() ? broken : refusal_;
  if (!reason.text.empty() && reason.error == error) return;
  reason.error = error;
  reason.is_plain = !refusal_.ok() || !address.tls.has_value();
  if (!refusal_.ok()) {
    reason.text = fmt::format("{}: it refuses this daemon: {}", address.target,
                              std::string(refusal_.message()));
  } else if (reason.is_plain) {
    reason.text = WhyNoManager(address, error);
  } else if (reason.text.empty()) {
    reason.text =
        fmt::format("{}: {}", address.target, std::string(error.message()));
  }
}

// Takes the text of a probe, and begins the next one.
void LeaseMember::Probe() {
  if (probe_.valid()) {
    if (probe_.wait_for(std::chrono::seconds(0)) != std::future_status::ready) {
      return;
    }
    std::string text = probe_.get();
    Reason& probed = reasons_[probed_];
    if (!probed.text.empty() && probed.error == probed_error_) {
      probed.text = std::move(text);
      probed.is_plain = true;
    }
  }
  const auto next = std::ranges::find_if(reasons_, [](const Reason& reason) {
    return !reason.text.empty() && !reason.is_plain;
  });
  if (next == reasons_.end()) return;
  probed_ = static_cast<size_t>(next - reasons_.begin());
  probed_error_ = next->error;
  probe_ = std::async(
      std::launch::async,
      [address = options_.addresses[probed_], error = probed_error_] {
        return WhyNoManager(address, error);
      });
}

std::string LeaseMember::Reasons() const {
  std::string text;
  for (const Reason& reason : reasons_) {
    if (reason.text.empty()) continue;
    text += (text.empty() ? "" : "; ") + reason.text;
  }
  return text;
}

// The first line says that the manager is lost, and the second one why no
// address answers, once that is known of all.
void LeaseMember::OnLost() {
  Probe();
  const bool is_first = !manager().is_away();
  {
    const std::lock_guard lock(mutex_);
    outage_.OnNoAnswer(RealClock::Monotonic(), Reasons());
  }
  if (!refusal_.ok()) {
    return Tell(
        true, fmt::format("the resource manager \"{}\" refuses this daemon: {}",
                          options_.manager, std::string(refusal_.message())));
  }
  if (is_first) {
    Tell(true,
         fmt::format("the resource manager \"{}\" is lost: leases stay as they "
                     "are until there is one",
                     options_.manager));
  } else if (!has_told_reasons_ &&
             std::ranges::all_of(reasons_, &Reason::is_plain)) {
    has_told_reasons_ = true;
    Tell(true, fmt::format("no resource manager \"{}\" takes this daemon: {}",
                           options_.manager, Reasons()));
  }
}

Outage::State LeaseMember::manager() const {
  const std::lock_guard lock(mutex_);
  return outage_.At(RealClock::Monotonic());
}

// A manager has taken this member for dead: it comes again as a new one.
void LeaseMember::EndLeases() {
  life_.store(0);
  controller_ = options_.controller;
  inbox_.Put(LeasesEnded{});
}

// Tells Join why the member cannot join.
void LeaseMember::Refute() {
  has_joined_ = true;
  joined_.set_value(
      !refusal_.ok()
          ? refusal_
          : absl::FailedPreconditionError(fmt::format(
                "no resource manager \"{}\" answers ({}); snf "
                "manager --name={} starts one",
                options_.manager,
                WhyNoManager(options_.addresses[at_], reasons_[at_].error),
                options_.manager)));
}

void LeaseMember::Tell(bool is_warning, const std::string& line) {
  if (line == std::exchange(told_, line) || options_.notice == nullptr) return;
  options_.notice(is_warning, line);
}

proto::ToManager LeaseMember::Hello() const {
  proto::ToManager word;
  proto::Hello& hello = *word.mutable_hello();
  hello.set_pid(options_.process.pid);
  hello.set_start_time(options_.process.start_time);
  hello.set_name(options_.name);
  hello.set_version(kVersion);
  hello.set_machine(options_.machine);
  hello.set_follows_hosts(options_.follows_hosts);
  if (controller_.has_value()) hello.set_controller(value(*controller_));
  hello.set_life(life_.load());
  hello.set_manager_epoch(manager_epoch_.load());
  hello.set_units(options_.units);
  hello.set_unit_capacity_bps(options_.unit_capacity_bps);
  return word;
}

void LeaseMember::Attend(LeaseStream& stream) {
  refusal_ = absl::OkStatus();
  has_broken_.store(false);
  heard_ns_.store(RealClock::Monotonic().ns);
  const bool is_sent = stream.Send(Hello());
  std::thread reader([this, &stream] { ReadAll(stream); });
  while (is_sent && !has_broken_.load() && !stops_.load()) {
    SendAll(stream);
    SayAlive(stream);
    const Instant heard{heard_ns_.load()};
    if (RealClock::Monotonic() > heard + silence()) break;
    const auto has_work = [this] {
      return outbox_.has_any() || has_broken_.load(std::memory_order_seq_cst) ||
             stops_.load(std::memory_order_seq_cst);
    };
    bell_.Wait(has_work, Milliseconds(100), 0);
  }
  stream.Cancel();
  reader.join();
  Drop();
}

// Leaves time to find another manager before that takes the member for dead.
Nanos LeaseMember::silence() const {
  const Nanos term{member_term_ns_.load()};
  return term.ns == 0 ? kSilence : std::min(kSilence, Nanos{term.ns / 2});
}

void LeaseMember::SayAlive(LeaseStream& stream) {
  const Nanos term{member_term_ns_.load()};
  const Instant now = RealClock::Monotonic();
  // A manager that recovers may welcome the member after a term.
  constexpr Nanos kBeforeWelcome = Milliseconds(100);
  const bool is_heard = term.ns == 0 && is_welcome_.load();
  if (is_heard || now < next_alive_) return;
  next_alive_ =
      now + (is_welcome_.load() ? std::min(kAliveEvery, Nanos{term.ns / 8})
                                : kBeforeWelcome);
  proto::ToManager word;
  word.mutable_alive();
  stream.Send(word);
}

void LeaseMember::ReadAll(LeaseStream& stream) {
  proto::ToMember word;
  while (stream.Read(word)) {
    heard_ns_.store(RealClock::Monotonic().ns);
    Take(word);
    if (!refusal_.ok()) break;
  }
  has_broken_.store(true, std::memory_order_seq_cst);
  bell_.Ring();
}

void LeaseMember::Take(const proto::ToMember& word) {
  if (word.has_refused()) {
    refusal_ = {static_cast<absl::StatusCode>(word.refused().code()),
                word.refused().why()};
    if (refusal_.ok()) refusal_ = absl::UnknownError(word.refused().why());
    return;
  }
  if (word.has_welcome()) Welcome(word.welcome());
  if (word.has_unit_hosts()) hosts_.Set(word.unit_hosts());
  const auto message = ReadWord(RealClock::Monotonic(), word,
                                controller_.value_or(ControllerId{}));
  if (message.has_value()) inbox_.Put(*message);
  if (word.has_welcome()) {
    inbox_.Put(NewManager{word.welcome().manager_epoch()});
  }
}

void LeaseMember::Welcome(const proto::Welcome& word) {
  controller_ = ControllerId{static_cast<uint8_t>(word.controller())};
  life_.store(word.life());
  manager_epoch_.store(word.manager_epoch());
  member_term_ns_.store(word.member_term_ns());
  is_welcome_.store(true);
  {
    const std::lock_guard lock(mutex_);
    outage_.OnAnswer();
  }
  for (Reason& reason : reasons_) reason = Reason();
  has_told_reasons_ = false;
  if (!has_joined_) {
    has_joined_ = true;
    first_life_ = {*controller_, word.life()};
    term_ = Nanos{word.term_ns()};
    joined_.set_value(absl::OkStatus());
    told_ = "";
    return;
  }
  Tell(false, fmt::format("the resource manager \"{}\" is there, of epoch {}",
                          options_.manager, word.manager_epoch()));
}

// Before it is welcome it says what a manager wants to know that recovers.
void LeaseMember::SendAll(LeaseStream& stream) {
  for (const ToManager& message : outbox_.Take()) {
    const bool is_report = std::holds_alternative<UnitLeaseReport>(message) ||
                           std::holds_alternative<UnitStopped>(message);
    const auto word = WordOf(message);
    if ((!is_report && !is_welcome_.load()) || !word.has_value() ||
        !stream.Send(*word)) {
      unsent_.fetch_add(1);
    }
  }
}

void LeaseMember::Drop() { unsent_.fetch_add(outbox_.Take().size()); }

void LeaseMember::Wait(Nanos most) {
  const Instant end = RealClock::Monotonic() + most;
  const auto has_work = [this] {
    return stops_.load(std::memory_order_seq_cst);
  };
  while (!stops_.load() && RealClock::Monotonic() < end) {
    bell_.Wait(has_work, end - RealClock::Monotonic(), 0);
  }
  Drop();
}

}  // namespace snf
