// SPDX-License-Identifier: Apache-2.0
#include "platform/outcome/ipfix_exporter.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <numeric>

#include "base/ipfix/ipfix_collector.h"

namespace snf {
namespace {

// A datagram has room for all templates and a record (IpfixWriter::kForUdp).
constexpr size_t kMostRecord = 512;
constexpr size_t kMostTemplates = 640;
static_assert(kMostRecord + kMostTemplates + 24 <=
              IpfixWriter::kForUdp.message_bytes);

// The number of records before a message (RFC 7011 §3.1).
uint32_t SequenceOf(std::string_view message) {
  uint32_t number = 0;
  for (const char byte : message.substr(8, 4)) {
    number = number << 8 | static_cast<uint8_t>(byte);
  }
  return number;
}

size_t BytesOf(std::span<const IpfixField> fields) {
  return std::accumulate(
      fields.begin(), fields.end(), size_t{0},
      [](size_t sum, const IpfixField& field) { return sum + field.bytes; });
}

}  // namespace

absl::StatusOr<std::unique_ptr<IpfixExporter>> IpfixExporter::Open(
    const std::string& to, bool appends) {
  auto made = std::unique_ptr<IpfixExporter>(new IpfixExporter(to));
  if (!IpfixCollector::IsMeantBy(to)) {
    if (absl::Status s = made->OpenFile(appends); !s.ok()) return s;
    return made;
  }
  const auto collector = IpfixCollector::Parse(to);
  if (!collector.has_value() || !collector->is_udp) {
    return absl::UnavailableError(to + ": no collector over UDP");
  }
  made->socket_.emplace(*collector);
  if (!made->socket_->is_open()) return made->socket_->error();
  IpfixWriter::Limits limits = IpfixWriter::kForUdp;
  limits.templates_each = 1;
  made->writer_.emplace(0, limits);
  return made;
}

IpfixExporter::~IpfixExporter() {
  if (fd_ >= 0) close(fd_);
}

absl::Status IpfixExporter::OpenFile(bool appends) {
  const int how =
      O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | (appends ? 0 : O_TRUNC);
  const int fd = open(to_.c_str(), how, 0640);
  if (fd < 0) {
    return absl::UnavailableError(
        fmt::format("{}: {}", to_, std::strerror(errno)));
  }
  if (fd_ >= 0) close(fd_);
  fd_ = fd;
  BeginFile();
  return absl::OkStatus();
}

// Has the next message begin with templates.
void IpfixExporter::BeginFile() {
  IpfixWriter::Limits limits;
  limits.observation_domain = static_cast<uint32_t>(getpid());
  writer_.emplace(0, limits);
  for (Template& known : templates_) known.number = 0;
}

absl::Status IpfixExporter::Reopen() {
  return socket_.has_value() ? absl::OkStatus() : OpenFile(true);
}

void IpfixExporter::Add(const IpfixLog& nf, const LogRecord& record) {
  Waiting one;
  const std::span<const IpfixField> fields = nf.write_ipfix(record, one.values);
  if (fields.empty()) return;
  const std::optional<size_t> of =
      one.values.size() == BytesOf(fields) && one.values.size() <= kMostRecord
          ? TemplateOf(fields)
          : std::nullopt;
  if (!of.has_value()) {
    ++lost_;
    return;
  }
  one.of = *of;
  waiting_bytes_ += one.values.size();
  waiting_.push_back(std::move(one));
  newest_ = std::max(newest_, record.time);
}

std::optional<size_t> IpfixExporter::TemplateOf(
    std::span<const IpfixField> fields) {
  const auto known = std::ranges::find_if(templates_, [&](const Template& one) {
    return std::ranges::equal(one.fields, fields);
  });
  if (known != templates_.end()) {
    return static_cast<size_t>(known - templates_.begin());
  }
  size_t bytes = 4;
  for (const IpfixField& field : fields) bytes += field.enterprise == 0 ? 4 : 8;
  if (template_bytes_ + bytes > kMostTemplates) return std::nullopt;
  template_bytes_ += bytes;
  templates_.push_back({.fields = fields});
  return templates_.size() - 1;
}

uint64_t IpfixExporter::Send(absl::Status& status) {
  uint64_t lost = std::exchange(lost_, 0);
  if (waiting_.empty()) return lost;
  // Rounded up, so that no record is later than its export.
  constexpr int64_t kSecond = 1'000'000'000;
  writer_->set_export_time(
      static_cast<uint32_t>((newest_.ns + kSecond - 1) / kSecond));
  for (const Waiting& one : waiting_) {
    Template& of = templates_[one.of];
    if (of.number == 0) of.number = writer_->AddTemplate(of.fields);
    writer_->Begin(of.number);
    writer_->PutBytes(one.values);
  }
  waiting_.clear();
  waiting_bytes_ = 0;
  const std::vector<std::string> messages = writer_->Take();
  for (size_t i = 0; i < messages.size(); ++i) {
    const uint32_t next = i + 1 < messages.size() ? SequenceOf(messages[i + 1])
                                                  : writer_->records();
    absl::Status sent = SendMessage(messages[i]);
    if (sent.ok()) continue;
    if (status.ok()) status = std::move(sent);
    if (!socket_.has_value()) {
      // The templates of the later messages may be lost with this one.
      lost += writer_->records() - SequenceOf(messages[i]);
      BeginFile();
      break;
    }
    lost += next - SequenceOf(messages[i]);
  }
  return lost;
}

// If a datagram could not be sent, the error is that of an earlier one, which
// counts in its place. The datagram itself is sent again.
absl::Status IpfixExporter::SendMessage(std::string_view message) {
  if (!socket_.has_value()) return WriteToFile(message);
  if (socket_->Send(message)) return absl::OkStatus();
  absl::Status failed = socket_->error();
  socket_->Send(message);
  return failed;
}

// A message that is not whole would hide all later ones.
absl::Status IpfixExporter::WriteToFile(std::string_view message) const {
  struct stat before = {};
  const bool is_regular = fstat(fd_, &before) == 0 && S_ISREG(before.st_mode);
  ssize_t written = 0;
  do {
    written = write(fd_, message.data(), message.size());
  } while (written < 0 && errno == EINTR);
  if (written == static_cast<ssize_t>(message.size())) return absl::OkStatus();
  const int error = written < 0 ? errno : ENOSPC;
  if (written > 0 && is_regular && ftruncate(fd_, before.st_size) != 0) {
    return absl::UnavailableError(
        fmt::format("{}: ends amid a message: {}", to_, std::strerror(errno)));
  }
  return absl::UnavailableError(
      fmt::format("{}: {}", to_, std::strerror(error)));
}

}  // namespace snf
