// SPDX-License-Identifier: Apache-2.0
#include "platform/outcome/nf_log_files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/messages/log_batch.h"
#include "runtime/sdk/nf_call.h"

namespace snf {
namespace {

// The most bytes of a log that wait in memory.
constexpr size_t kMostBytes = size_t{1} << 20;

// Returns how many bytes were written; errno says why not all.
size_t WriteAll(int fd, std::string_view text) {
  size_t written = 0;
  while (written < text.size()) {
    const ssize_t n = write(fd, &text[written], text.size() - written);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) break;
    written += static_cast<size_t>(n);
  }
  return written;
}

uint64_t LinesIn(std::string_view text) {
  return static_cast<uint64_t>(std::ranges::count(text, '\n'));
}

uint64_t RecordsIn(std::span<const std::byte> batch) {
  uint64_t records = 0;
  LogBatch::Read(
      batch, [&](LogId, std::span<const std::byte>) { ++records; },
      [](LogId, uint16_t) {});
  return records;
}

}  // namespace

absl::StatusOr<std::unique_ptr<NfLogFiles>> NfLogFiles::Open(
    const Options& options) {
  auto made = std::unique_ptr<NfLogFiles>(new NfLogFiles(options));
  if (!options.directory.empty()) {
    std::error_code error;
    std::filesystem::create_directories(options.directory, error);
    if (error) {
      return absl::UnavailableError(
          fmt::format("{}: {}", options.directory, error.message()));
    }
  }
  if (!options.ipfix.empty()) {
    auto opened = IpfixExporter::Open(options.ipfix, options.appends);
    if (!opened.ok()) return opened.status();
    const std::scoped_lock lock(made->files_mutex_);
    made->ipfix_ = *std::move(opened);
  }
  return made;
}

NfLogFiles::~NfLogFiles() {
  std::thread thread;
  {
    const std::scoped_lock lock(queue_mutex_);
    ends_ = true;
    thread = std::move(thread_);
  }
  has_changed_.notify_all();
  if (thread.joinable()) thread.join();
  const std::scoped_lock lock(files_mutex_);
  for (const auto& [name, file] : files_) {
    if (file.fd >= 0) close(file.fd);
  }
}

std::string NfLogFiles::PathOf(const std::string& name) const {
  return fmt::format("{}/{}.log", options_.directory, name);
}

absl::Status NfLogFiles::OpenFile(const std::string& name, bool appends,
                                  File& file) {
  if (options_.directory.empty()) return absl::OkStatus();
  const std::string path = PathOf(name);
  const int how =
      O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | (appends ? 0 : O_TRUNC);
  const int fd = open(path.c_str(), how, 0640);
  if (fd < 0) {
    return absl::UnavailableError(
        fmt::format("{}: {}", path, std::strerror(errno)));
  }
  if (file.fd >= 0) close(file.fd);
  file.fd = fd;
  file.is_torn = false;
  return absl::OkStatus();
}

absl::StatusOr<NfLogFiles::Reader*> NfLogFiles::Read(const NfSpec& nf) {
  const std::scoped_lock lock(files_mutex_);
  std::unique_ptr<NetworkFunction> made = nf.create();
  for (const NfLog& log : LogsOf(*made)) {
    const auto [at, is_new] = files_.try_emplace(log.name);
    if (!is_new) continue;
    absl::Status status = OpenFile(log.name, options_.appends, at->second);
    if (status.ok()) continue;
    files_.erase(at);
    return status;
  }
  return &readers_.emplace_back(*this, std::move(made));
}

void NfLogFiles::Push(Reader& reader, Instant arrival,
                      std::span<const std::byte> batch) {
  const Head head = {&reader, arrival, batch.size()};
  std::unique_lock lock(queue_mutex_);
  const auto is_full = [&] {
    return queue_.size() + sizeof head + batch.size() > options_.queue_bytes;
  };
  if (is_full() && !options_.waits) {
    queue_full_ += RecordsIn(batch);
    return;
  }
  while (is_full()) has_changed_.wait(lock);
  const bool was_empty = queue_.empty();
  const auto bytes = std::as_bytes(std::span(&head, 1));
  queue_.insert(queue_.end(), bytes.begin(), bytes.end());
  queue_.insert(queue_.end(), batch.begin(), batch.end());
  if (!thread_.joinable()) thread_ = std::thread([this] { Run(); });
  lock.unlock();
  if (was_empty) has_changed_.notify_all();
}

void NfLogFiles::Run() {
  std::vector<std::byte> taken;
  std::unique_lock lock(queue_mutex_);
  while (true) {
    while (queue_.empty() && !ends_) has_changed_.wait(lock);
    if (queue_.empty()) return;
    taken.clear();
    taken.swap(queue_);
    is_writing_ = true;
    lock.unlock();
    has_changed_.notify_all();  // there is room
    Write(taken);
    lock.lock();
    is_writing_ = false;
    has_changed_.notify_all();
  }
}

absl::Status NfLogFiles::Flush() {
  {
    std::unique_lock lock(queue_mutex_);
    while (!queue_.empty() || is_writing_) has_changed_.wait(lock);
  }
  const std::scoped_lock lock(files_mutex_);
  return status_;
}

void NfLogFiles::Write(std::span<const std::byte> queued) {
  const std::scoped_lock lock(files_mutex_);
  if (reopen_.exchange(false)) {
    for (auto& [name, file] : files_) {
      if (absl::Status s = OpenFile(name, true, file); !s.ok()) status_ = s;
    }
    if (ipfix_ != nullptr) {
      if (absl::Status s = ipfix_->Reopen(); !s.ok()) status_ = s;
    }
  }
  while (!queued.empty()) {
    Head head;
    std::memcpy(&head, queued.data(), sizeof head);
    queued = queued.subspan(sizeof head);
    WriteBatch(head, queued.first(head.bytes));
    queued = queued.subspan(head.bytes);
  }
  for (auto& [name, file] : files_) WriteLines(name, file);
  if (ipfix_ != nullptr) write_failed_ += ipfix_->Send(status_);
}

void NfLogFiles::WriteIpfix(const NfLog& log, const LogRecord& record) {
  if (ipfix_ == nullptr) return;
  const auto* const nf = dynamic_cast<const IpfixLog*>(log.nf);
  if (nf == nullptr || !nf->has_ipfix()) return;
  CallNf(*log.nf, NfCall::Hook::kReport, nullptr, kNoPacket,
         [&] { ipfix_->Add(*nf, record); });
  if (ipfix_->waiting_bytes() > kMostBytes) {
    write_failed_ += ipfix_->Send(status_);
  }
}

// Lines stay in memory until the queue was read, or they are many.
void NfLogFiles::WriteBatch(const Head& head,
                            std::span<const std::byte> batch) {
  LogBatch::Read(
      batch,
      [&](LogId id, std::span<const std::byte> bytes) {
        const NfLog& log = head.reader->logs_[static_cast<size_t>(id)];
        File& file = files_.at(log.name);
        const LogRecord record = {log.own, head.arrival, bytes};
        WriteIpfix(log, record);
        if (options_.directory.empty()) return;
        CallNf(*log.nf, NfCall::Hook::kReport, nullptr, kNoPacket,
               [&] { log.nf->write_record(record, file.lines); });
        if (file.lines.size() > kMostBytes) WriteLines(log.name, file);
      },
      [](LogId, uint16_t) {});
}

void NfLogFiles::WriteLines(const std::string& name, File& file) {
  if (file.lines.empty()) return;
  if (file.is_torn && WriteAll(file.fd, "\n") == 1) file.is_torn = false;
  const size_t written = file.is_torn ? 0 : WriteAll(file.fd, file.lines);
  if (written < file.lines.size()) {
    const std::string_view rest = std::string_view(file.lines).substr(written);
    write_failed_ += LinesIn(rest);
    if (status_.ok()) {
      status_ = absl::UnavailableError(
          fmt::format("{}: {}", PathOf(name), std::strerror(errno)));
    }
    file.is_torn |= written > 0 && file.lines[written - 1] != '\n';
  }
  file.lines.clear();
}

}  // namespace snf
