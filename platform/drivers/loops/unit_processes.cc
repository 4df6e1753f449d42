// SPDX-License-Identifier: Apache-2.0
#include "platform/drivers/loops/unit_processes.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <ranges>
#include <span>
#include <utility>

#include "base/quantity.h"
#include "runtime/ring/real_clock.h"

namespace snf {
namespace {

constexpr size_t kMostTextBytes = 4'096;

// A text of somebody who is not trusted: one line.
std::string Line(std::string_view text) {
  std::string line(text.substr(0, text.find('\0')));
  std::ranges::replace_if(
      line, [](char c) { return static_cast<unsigned char>(c) < ' '; }, '?');
  return line;
}

size_t MostBytes(UnitWord::Kind kind) {
  switch (kind) {
    case UnitWord::Kind::kFault:
    case UnitWord::Kind::kRefused:
      return kMostTextBytes;
    case UnitWord::Kind::kNfFailed:
      return sizeof(UnitWord::NfFailure);
    case UnitWord::Kind::kResults:
      return LoopResults::kMostWords * sizeof(uint64_t);
    case UnitWord::Kind::kBlame:
      return sizeof(UnitWord::Blame);
    default:
      return 0;
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<UnitProcesses>> UnitProcesses::Start(
    Options options) {
  std::unique_ptr<UnitProcesses> all(new UnitProcesses(std::move(options)));
  if (absl::Status s = all->Launch(); !s.ok()) return s;
  // They are started one after the other.
  const Nanos patience{kPatience.ns *
                       static_cast<int64_t>(all->processes_.size())};
  const UnitProcessSetup& setup = all->options_.setup;
  const bool may_be_killed = all->options_.may_be_killed;
  const bool in_time = all->WaitUntil(patience, [&] {
    for (size_t i = 0; i < all->processes_.size(); ++i) {
      const Process& process = all->processes_[i];
      const bool is_killed = may_be_killed && process.has_ended;
      const bool is_there = process.is_ready && process.pid > 0;
      if (setup.is_at_once(i) && !is_killed && !is_there) return false;
    }
    return true;
  });
  if (const auto failure = all->failure(); failure.has_value()) {
    return absl::Status(failure->code, failure->text);
  }
  if (!in_time) {
    return absl::InternalError("the processes of units did not become ready");
  }
  all->has_begun_ = true;
  return all;
}

UnitProcesses::UnitProcesses(Options options)
    : options_(std::move(options)), processes_(options_.setup.processes()) {
  for (size_t i = 0; i < processes_.size(); ++i) {
    processes_[i].has_ended = !options_.setup.is_at_once(i);
  }
  if (options_.printed != nullptr) {
    printed_.emplace(processes_.size() + 1, options_.printed);
  }
}

absl::Status UnitProcesses::TakeOver() {
  Launcher::Kept& kept = *options_.kept;
  const size_t sockets = processes_.size() + (printed_.has_value() ? 1 : 0);
  if (kept.processes.size() != processes_.size() ||
      kept.descriptors.size() != options_.kept_memories + sockets) {
    return absl::InternalError(
        "the previous process kept another number of processes");
  }
  for (size_t i = 0; i < processes_.size(); ++i) {
    Process& process = processes_[i];
    process.socket = kept.descriptors[options_.kept_memories + i];
    const pid_t pid = kept.processes[i].pid;
    process.may_be_ready = true;
    if (pid > 0) {
      process.pid = pid;
      process.is_ready = true;
      const std::string why_not = Pin(i);
      if (!why_not.empty()) return absl::UnavailableError(why_not);
    } else {
      process.has_ended = true;
      ended_.push_back({.process = i, .how = "was killed before the restart"});
      ++ends_;
    }
  }
  if (printed_.has_value()) printed_socket_ = kept.descriptors.back();
  launcher_.emplace(std::move(kept.launcher));
  return BeginToWatch();
}

absl::Status UnitProcesses::Launch() {
  if (options_.kept.has_value()) return TakeOver();
  std::vector<int> theirs = options_.regions;
  if (options_.setup.region.loggers) theirs.push_back(options_.own_region);
  if (!options_.host.empty()) {
    theirs.push_back(options_.host.writable);
    theirs.push_back(options_.host.readable);
  }
  const auto close_theirs = [&theirs, first = theirs.size()] {
    for (size_t i = first; i < theirs.size(); ++i) close(theirs[i]);
  };
  for (Process& process : processes_) {
    std::array<int, 2> sockets{};
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets.data()) !=
        0) {
      const int error = errno;
      close_theirs();
      return absl::UnavailableError(
          fmt::format("socketpair: {}", std::strerror(error)));
    }
    process.socket = sockets[0];
    fcntl(process.socket, F_SETFL, O_NONBLOCK);
    theirs.push_back(sockets[1]);
    if (options_.keep.has_value()) {
      options_.keep->descriptors.push_back(process.socket);
    }
  }
  int errors = -1;
  if (printed_.has_value()) {
    const auto sockets = PrintSockets::Open();
    if (!sockets.ok()) {
      close_theirs();
      return sockets.status();
    }
    printed_socket_ = sockets->reader;
    errors = sockets->writer;
    if (options_.keep.has_value()) {
      options_.keep->descriptors.push_back(printed_socket_);
    }
  }
  auto launcher = Launcher::Start(
      {.program = options_.program,
       .arguments = {std::string(kUnitProcessCommand)},
       .setup = options_.setup.WithNf(options_.nf),
       .descriptors = theirs,
       .keep = options_.keep.has_value() ? &*options_.keep : nullptr,
       .errors = errors});
  close_theirs();
  if (errors >= 0) close(errors);
  if (!launcher.ok()) return launcher.status();
  launcher_.emplace(*std::move(launcher));
  return BeginToWatch();
}

absl::Status UnitProcesses::BeginToWatch() {
  end_ = eventfd(0, EFD_CLOEXEC);
  if (end_ < 0) {
    return absl::UnavailableError(
        fmt::format("eventfd: {}", std::strerror(errno)));
  }
  thread_ = std::thread([this] { Watch(); });
  return absl::OkStatus();
}

UnitProcesses::~UnitProcesses() {
  if (thread_.joinable()) {
    eventfd_write(end_, 1);
    thread_.join();
  }
  if (end_ >= 0) close(end_);
  launcher_.reset();
  for (const Process& process : processes_) {
    if (process.socket >= 0) close(process.socket);
  }
  HearAllPrinted();
  if (printed_socket_ >= 0) close(printed_socket_);
}

// Returns true if done() came to be in that time, or a failure before that.
template <typename Done>
bool UnitProcesses::WaitUntil(Nanos patience, const Done& done) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, std::chrono::nanoseconds(patience.ns),
                           [&] { return failure_.has_value() || done(); });
}

void UnitProcesses::Watch() {
  const size_t count = processes_.size();
  std::vector<pollfd> waits(count + 3);
  bool has_launcher = true;
  while (true) {
    for (size_t i = 0; i < count; ++i) {
      waits[i] = {.fd = processes_[i].socket, .events = POLLIN, .revents = 0};
    }
    const int notes = has_launcher ? launcher_->fd() : -1;
    waits[count] = {.fd = notes, .events = POLLIN, .revents = 0};
    waits[count + 1] = {.fd = end_, .events = POLLIN, .revents = 0};
    const int printed = has_launcher ? printed_socket_ : -1;
    waits[count + 2] = {.fd = printed, .events = POLLIN, .revents = 0};
    if (poll(waits.data(), waits.size(), -1) < 0) continue;
    if (waits[count + 1].revents != 0) return;
    if (waits[count + 2].revents != 0) HearPrinted();
    for (size_t i = 0; i < count; ++i) {
      if (waits[i].revents != 0) Hear(i);
    }
    if (waits[count].revents != 0) has_launcher = TakeNote();
  }
}

// Returns false if there will be none any more.
bool UnitProcesses::TakeNote() {
  LaunchNote note;
  if (!launcher_->Read(note)) {
    Fail({.text = fmt::format("the launcher of units (process {}) has ended",
                              launcher_->pid())});
    const std::scoped_lock lock(mutex_);
    for (Process& process : processes_) process.has_ended = true;
    changed_.notify_all();
    return false;
  }
  const size_t loop = note.index;
  if (loop >= processes_.size()) return true;
  Process& process = processes_[loop];
  switch (note.kind) {
    case LaunchNote::Kind::kStarted: {
      std::string why_not;
      {
        const std::scoped_lock lock(mutex_);
        process.pid = note.pid;
        why_not = Pin(loop);
        changed_.notify_all();
        options_.ready();
      }
      if (!why_not.empty()) Fail({.text = std::move(why_not)});
      return true;
    }
    case LaunchNote::Kind::kRefused:
      process.fault = Line(note.text.data());
      if (TakeEndOf(loop, note)) return true;
      Fail({.text = fmt::format("units cannot be started: {}", process.fault),
            .code = static_cast<absl::StatusCode>(note.status)});
      return true;
    case LaunchNote::Kind::kEnded:
      break;
  }
  while (Hear(loop)) {  // what it said before its end
  }
  if (printed_.has_value()) {
    HearAllPrinted();
    printed_->End(RealClock::Monotonic(), loop, NameOf(loop));
  }
  if (TakeEndOf(loop, note)) return true;
  const bool has_results = loop >= units() || process.results.has_value();
  if (!may_end_ || !has_results || note.status != 0) {
    const std::string often =
        process.failed_starts > kMostFailedStarts
            ? fmt::format(
                  ", and so did {} processes before it, before they were ready",
                  kMostFailedStarts)
            : "";
    Fail({.text = fmt::format("{} {}{}", NameOf(loop),
                              LaunchNote::InWords(note.status), often)});
  }
  const std::scoped_lock lock(mutex_);
  process.has_ended = true;
  changed_.notify_all();
  return true;
}

// Returns true if the end is no failure and the process may be started again.
// A crash at the end of a run is a failure, which must not be hidden.
bool UnitProcesses::TakeEndOf(size_t loop, LaunchNote note) {
  Process& process = processes_[loop];
  if (process.socket < 0) return false;  // it has said what cannot be
  const bool has_begun = note.kind == LaunchNote::Kind::kEnded;
  const bool by_kill =
      has_begun && WIFSIGNALED(note.status) && WTERMSIG(note.status) == SIGKILL;
  const bool is_well =
      has_begun && note.status == 0 && process.results.has_value();
  const bool is_killed = by_kill || process.is_blamed;
  {
    const std::scoped_lock lock(mutex_);
    const bool may_fail_now =
        may_fail() || (options_.may_be_killed && is_killed);
    const bool may_end = process.may_end && (is_killed || is_well);
    if (!may_end && !may_fail_now) return false;
    process.failed_starts += process.is_ready ? 0 : 1;
    const bool may_wait = options_.may_be_killed && MayGoOn(loop);
    if (process.failed_starts > kMostFailedStarts && !may_wait) return false;
    parked_killed_ += process.may_end && !is_well ? 1 : 0;
    process.has_ended = true;
    std::string how = has_begun
                          ? LaunchNote::InWords(note.status)
                          : fmt::format("cannot be started: {}", process.fault);
    if (has_begun && process.is_blamed) how = "has ended";
    if (has_begun && !process.fault.empty()) how += ": " + process.fault;
    ended_.push_back({.process = loop,
                      .pid = std::exchange(process.pid, 0),
                      .has_failed = !is_well,
                      .by_kill = by_kill,
                      .was_ready = process.is_ready,
                      .how = std::move(how),
                      .nf = std::exchange(process.nf, std::nullopt)});
    process.heard.clear();
    process.fault.clear();
    process.is_ready = process.is_blamed = false;
    Gather(process);
    ends_.fetch_add(1, std::memory_order_release);
    changed_.notify_all();
  }
  options_.killed();
  return true;
}

// Returns true if the run can do without that process.
bool UnitProcesses::MayGoOn(size_t loop) const {
  for (size_t i = 0; i < units(); ++i) {
    if (i != loop && loop < units() && processes_[i].is_ready) return true;
  }
  return false;
}

// The launcher's note of the process may come before its word, or behind.
std::string UnitProcesses::Pin(size_t loop) const {
  const Process& process = processes_[loop];
  if (options_.cpus.empty() || !process.is_ready || process.pid <= 1) return "";
  const int cpu = options_.cpus[loop];
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  if (sched_setaffinity(process.pid, sizeof set, &set) == 0) return "";
  if (errno == ESRCH) return "";  // it was killed meanwhile
  return fmt::format("cannot pin process {} to CPU {}: {}", process.pid, cpu,
                     std::strerror(errno));
}

// Puts the results with those of the processes before it.
void UnitProcesses::Gather(Process& process) {
  if (!process.results.has_value()) return;
  if (process.earlier.has_value()) {
    process.earlier->Add(*process.results);
  } else {
    process.earlier = std::move(process.results);
  }
  process.results.reset();
}

std::optional<UnitProcesses::End> UnitProcesses::TakeEnd() {
  const std::scoped_lock lock(mutex_);
  if (ended_.empty()) return std::nullopt;
  const End first = ended_.front();
  ended_.pop_front();
  ++ends_taken_;
  return first;
}

void UnitProcesses::LetEnd(size_t loop, bool may_end) {
  const std::scoped_lock lock(mutex_);
  processes_[loop].may_end = may_end;
}

void UnitProcesses::StartAgain(size_t loop) {
  {
    const std::scoped_lock lock(mutex_);
    processes_[loop].has_ended = false;
  }
  std::vector<std::byte> argument;
  if (options_.argument != nullptr) argument = options_.argument(loop);
  launcher_->StartAgain(static_cast<uint32_t>(loop), argument);
}

bool UnitProcesses::is_ready(size_t loop) const {
  const std::scoped_lock lock(mutex_);
  return processes_[loop].is_ready && processes_[loop].pid > 0;
}

// Takes some lines that one process has printed; returns false without any.
bool UnitProcesses::HearPrinted() {
  if (printed_socket_ < 0) return false;
  PrintBuffer buffer;
  const Printed printed = ReadPrinted(printed_socket_, buffer);
  if (printed.bytes.empty()) return false;
  size_t index = processes_.size();
  if (printed.process > 0) {
    const std::scoped_lock lock(mutex_);
    const auto of =
        std::ranges::find(processes_, printed.process, &Process::pid);
    index = static_cast<size_t>(of - processes_.begin());
  }
  printed_->Take(RealClock::Monotonic(), index,
                 index < processes_.size()
                     ? NameOf(index)
                     : fmt::format("process {}", printed.process),
                 printed.bytes);
  return true;
}

// Takes all lines so far; does not wait for a process that prints on.
void UnitProcesses::HearAllPrinted() {
  constexpr int kMostReads = 64;  // of 16 KiB
  for (int i = 0; i < kMostReads && HearPrinted(); ++i) {
  }
}

// Takes some of what a process has said: one that talks without end keeps
// nobody else waiting. Returns false if that was all.
bool UnitProcesses::Hear(size_t loop) {
  Process& process = processes_[loop];
  if (process.socket < 0) return false;
  std::array<std::byte, 16'384> bytes;
  const ssize_t size = recv(process.socket, bytes.data(), bytes.size(), 0);
  if (size < 0) return errno == EINTR;
  if (size == 0) {
    HearNoMore(process);
    return false;
  }
  if (process.is_blamed) return true;
  process.heard.insert(process.heard.end(), bytes.begin(),
                       bytes.begin() + size);
  while (TakeWord(loop)) {
  }
  return true;
}

void UnitProcesses::HearNoMore(Process& process) {
  close(process.socket);
  process.socket = -1;
}

// Takes a whole word, if there is one; returns false if there is none.
bool UnitProcesses::TakeWord(size_t loop) {
  Process& process = processes_[loop];
  UnitWord word{};
  if (process.socket < 0 || process.heard.size() < sizeof(word)) return false;
  std::memcpy(&word, process.heard.data(), sizeof(word));
  const bool is_too_much =
      process.results.has_value() ||
      (word.kind == UnitWord::Kind::kResults && loop >= units()) ||
      (word.kind == UnitWord::Kind::kBlame &&
       (loop < units() || !options_.may_be_killed)) ||
      (process.is_ready && !process.may_be_ready &&
       word.kind == UnitWord::Kind::kReady);
  if (word.bytes > MostBytes(word.kind) || is_too_much) {
    GiveUp(loop, fmt::format("{} sent an invalid message: kind {} of {} bytes",
                             NameOf(loop), static_cast<uint32_t>(word.kind),
                             word.bytes));
    return false;
  }
  if (process.heard.size() < sizeof(word) + word.bytes) return false;
  const auto payload = std::span<const std::byte>(process.heard)
                           .subspan(sizeof(word), word.bytes);
  const std::string_view text(reinterpret_cast<const char*>(payload.data()),
                              payload.size());
  UnitWord::NfFailure failed{};
  UnitWord::Blame blame{};
  switch (word.kind) {
    case UnitWord::Kind::kReady: {
      std::string why_not;
      {
        const std::scoped_lock lock(mutex_);
        process.is_ready = true;
        process.may_be_ready = false;
        process.failed_starts = 0;
        why_not = Pin(loop);
        changed_.notify_all();
        options_.ready();
      }
      if (!why_not.empty()) Fail({.text = std::move(why_not)});
      break;
    }
    case UnitWord::Kind::kFault:
    case UnitWord::Kind::kRefused:
      GiveUp(loop, fmt::format("{}: {}", NameOf(loop), Line(text)),
             word.kind == UnitWord::Kind::kRefused
                 ? absl::StatusCode::kFailedPrecondition
                 : absl::StatusCode::kInternal);
      return false;
    case UnitWord::Kind::kNfFailed:
      std::memcpy(&failed, payload.data(),
                  std::min(payload.size(), sizeof(failed)));
      failed.text.back() = '\0';
      if (may_fail()) {  // its end follows
        process.nf = failed;
        break;
      }
      Fail({.text = Line(failed.text.data()), .nf = failed});
      HearNoMore(process);
      return false;
    case UnitWord::Kind::kResults:
      TakeResults(loop, payload);
      if (process.is_blamed) return false;
      break;
    case UnitWord::Kind::kBlame:
      std::memcpy(&blame, payload.data(),
                  std::min(payload.size(), sizeof(blame)));
      blame.text.back() = '\0';
      options_.blamed(blame.loop, blame.ends, Line(blame.text.data()));
      break;
  }
  process.heard.erase(process.heard.begin(),
                      process.heard.begin() + static_cast<std::ptrdiff_t>(
                                                  sizeof(word) + word.bytes));
  return true;
}

// The process has said what cannot be, or that it goes on no more. One of units
// that was ready may end alone, before all are told to.
void UnitProcesses::GiveUp(size_t loop, std::string what,
                           absl::StatusCode code) {
  Process& process = processes_[loop];
  // A start may also fail while all end, as on a host that is lost.
  const bool may_not_start = options_.may_be_killed && has_begun_;
  if (may_not_start && !process.is_ready) {  // its end follows
    const std::string name = NameOf(loop) + ": ";
    process.fault = what.substr(what.starts_with(name) ? name.size() : 0);
    process.is_blamed = true;
    process.heard.clear();
    return;
  }
  if (!may_fail() || loop >= units()) {
    Fail({.text = std::move(what), .code = code});
    HearNoMore(process);
    return;
  }
  process.is_blamed = true;
  process.heard.clear();
  options_.blamed(static_cast<uint32_t>(loop), std::nullopt, std::move(what));
}

void UnitProcesses::TakeResults(size_t loop, std::span<const std::byte> bytes) {
  std::vector<uint64_t> words(bytes.size() / sizeof(uint64_t));
  std::memcpy(words.data(), bytes.data(), words.size() * sizeof(uint64_t));
  LoopResults like = options_.like;
  const UnitLoopOptions& options = options_.setup.loop;
  const auto tables = like.tables.empty() ? std::vector<TableCopyFigures>()
                                          : like.tables.front();
  like.tables.assign(
      (options.max_units - loop + options.loops - 1) / options.loops, tables);
  if (like.tables.empty()) like.figures.nf_counts.clear();
  absl::StatusOr<LoopResults> results = LoopResults::FromWords(words, like);
  if (!results.ok()) {
    GiveUp(loop, fmt::format("{} told {}", NameOf(loop),
                             std::string(results.status().message())));
    return;
  }
  const std::scoped_lock lock(mutex_);
  processes_[loop].results = *std::move(results);
}

void UnitProcesses::Fail(Failure failure) {
  {
    const std::scoped_lock lock(mutex_);
    if (failure_.has_value()) return;
    failure_ = std::move(failure);
    changed_.notify_all();
  }
  options_.told();
}

std::string UnitProcesses::NameOf(size_t process) const {
  const pid_t id = pid(process);
  return process < units()
             ? fmt::format("unit loop {} (process {})", process, id)
             : fmt::format("process {} of loggers", id);
}

std::optional<UnitProcesses::Failure> UnitProcesses::failure() const {
  const std::scoped_lock lock(mutex_);
  return failure_;
}

pid_t UnitProcesses::pid(size_t loop) const {
  const std::scoped_lock lock(mutex_);
  return processes_[loop].pid;
}

std::vector<std::optional<LoopResults>> UnitProcesses::Finish() {
  const auto have_ended = [this] {
    return std::ranges::all_of(processes_, &Process::has_ended);
  };
  std::unique_lock lock(mutex_);
  const bool in_time = changed_.wait_for(
      lock, std::chrono::nanoseconds(kPatience.ns), have_ended);
  std::vector<std::optional<LoopResults>> results;
  for (size_t i = 0; i < units(); ++i) {
    Process& process = processes_[i];
    if (process.has_ended) Gather(process);
    results.push_back(process.earlier);
  }
  const size_t late = static_cast<size_t>(
      std::ranges::find(processes_, false, &Process::has_ended) -
      processes_.begin());
  lock.unlock();
  if (!in_time) {
    Fail({.text = fmt::format("{} did not stop within {}", NameOf(late),
                              FormatDuration(kPatience))});
  }
  return results;
}

}  // namespace snf
