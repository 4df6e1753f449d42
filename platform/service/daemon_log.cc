// SPDX-License-Identifier: Apache-2.0
#include "platform/service/daemon_log.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/dist_sink.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "base/text/wording.h"

namespace snf {
namespace {

constexpr std::array<std::string_view, 4> kNames = {"debug", "info", "warning",
                                                    "error"};

spdlog::level::level_enum ToSpdlog(LogLevel level) {
  constexpr std::array<spdlog::level::level_enum, 4> kLevels = {
      spdlog::level::debug, spdlog::level::info, spdlog::level::warn,
      spdlog::level::err};
  return kLevels[static_cast<size_t>(level)];
}

// The text as a JSON string, with its quotes.
class JsonText final : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg& message, const std::tm& /*time*/,
              spdlog::memory_buf_t& out) override {
    const std::string text =
        nlohmann::json(
            std::string(message.payload.data(), message.payload.size()))
            .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    out.append(text.data(), text.data() + text.size());
  }
  std::unique_ptr<custom_flag_formatter> clone() const override {
    return std::make_unique<JsonText>();
  }
};

// Counts how often a line could not be written, as to a full disk.
std::atomic<uint64_t>& Lost() {
  static std::atomic<uint64_t> lost = 0;
  return lost;
}

// Set before there are other threads.
std::shared_ptr<spdlog::logger>& Logger() {
  static std::shared_ptr<spdlog::logger> logger;
  return logger;
}

// The logger's only sink, whose own may be replaced at any time.
std::shared_ptr<spdlog::sinks::dist_sink_mt>& Sinks() {
  static std::shared_ptr<spdlog::sinks::dist_sink_mt> sinks;
  return sinks;
}

// Serializes OpenLog and ReopenLog.
std::mutex& Opening() {
  static std::mutex mutex;
  return mutex;
}

LogOptions& Opened() {
  static LogOptions options;
  return options;
}

absl::StatusOr<spdlog::sink_ptr> SinkOf(const LogOptions& options) {
  // The library would make folders.
  const int file = options.file == "-"
                       ? -1
                       : open(options.file.c_str(),
                              O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0640);
  if (file < 0 && options.file != "-") {
    return absl::UnavailableError(
        fmt::format("{}: {}", options.file, std::strerror(errno)));
  }
  if (file >= 0) close(file);
  spdlog::sink_ptr sink;
  try {
    if (options.file == "-") {
      sink = std::make_shared<spdlog::sinks::stderr_sink_mt>();
    } else {
      sink = std::make_shared<spdlog::sinks::basic_file_sink_mt>(options.file);
    }
  } catch (const spdlog::spdlog_ex& error) {
    return absl::UnavailableError(error.what());
  }
  auto formatter = std::make_unique<spdlog::pattern_formatter>(
      spdlog::pattern_time_type::utc);
  formatter->add_flag<JsonText>('*');
  formatter->set_pattern(
      options.json ? R"({"time":"%Y-%m-%dT%H:%M:%S.%fZ","level":"%l",)"
                     R"("pid":%P,"text":%*})"
                   : "%Y-%m-%dT%H:%M:%S.%fZ %l: %v");
  sink->set_formatter(std::move(formatter));
  return sink;
}

}  // namespace

absl::Status OpenLog(const LogOptions& options) {
  const std::scoped_lock lock(Opening());
  const auto sink = SinkOf(options);
  if (!sink.ok()) return sink.status();
  Opened() = options;
  Sinks() = std::make_shared<spdlog::sinks::dist_sink_mt>(
      std::vector<spdlog::sink_ptr>{*sink});
  Logger() = std::make_shared<spdlog::logger>("snf", Sinks());
  Logger()->flush_on(spdlog::level::debug);
  Logger()->set_error_handler([](const std::string& /*what*/) { ++Lost(); });
  SetLogLevel(options.level);
  return absl::OkStatus();
}

void ReopenLog() {
  const std::scoped_lock lock(Opening());
  if (Logger() == nullptr || Opened().file == "-") return;
  const auto sink = SinkOf(Opened());
  if (!sink.ok()) {
    LogLine(LogLevel::kWarning,
            fmt::format("the log is not opened again: {}",
                        std::string(sink.status().message())));
    return;
  }
  Sinks()->set_sinks({*sink});
  LogLine(LogLevel::kInfo, "the log was opened again");
}

void LogLine(LogLevel level, std::string_view text) {
  if (Logger() == nullptr) return;
  const uint64_t lost = Lost().load();
  Logger()->log(ToSpdlog(level), "{}", text);
  if (lost == 0 || Lost().load() != lost) return;
  Lost() -= lost;
  Logger()->log(
      spdlog::level::warn,
      "the log could not be written {} before this line: lines may be missing",
      Plural(lost, "time"));
}

void SetLogLevel(LogLevel level) {
  if (Logger() != nullptr) Logger()->set_level(ToSpdlog(level));
}

std::string_view Name(LogLevel level) {
  return kNames[static_cast<size_t>(level)];
}

bool ParseLogLevel(std::string_view text, LogLevel& level) {
  for (size_t i = 0; i < kNames.size(); ++i) {
    if (text != kNames[i]) continue;
    level = LogLevel{static_cast<uint8_t>(i)};
    return true;
  }
  return false;
}

}  // namespace snf
