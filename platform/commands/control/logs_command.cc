// SPDX-License-Identifier: Apache-2.0
#include "platform/commands/control/logs_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <deque>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_join.h"
#include "base/text/wording.h"
#include "platform/outcome/nf_log_reader.h"
#include "platform/process/clean_interrupt.h"
#include "platform/process/standard_streams.h"

namespace snf {
namespace {

constexpr auto kReadPeriod = std::chrono::milliseconds(100);

class LogsCommand final : public FlagCommand {
 public:
  LogsCommand()
      : FlagCommand(
            {.summary = "print the logs of NFs, also as they grow",
             .usage = "snf logs DIR [LOG…] [--last=LINES] [--follow]",
             .about = "Prints the logs that a daemon or a run with "
                      "--nf_logs=DIR writes, such as nat.bindings, "
                      "firewall.decisions and ids.alerts: all, or the named "
                      "ones, merged in the order of time. With --follow, "
                      "prints the last 10 lines, and then each line as it is "
                      "written, across rotations and new logs, until "
                      "Ctrl-C."}) {
    flags().Arguments("DIR", words_, 1);
    flags().Count("last", last_, 0, kMostLast,
                  "most lines to print of those written by now, the last; 0: "
                  "10 with --follow, and otherwise all");
    flags().Switch("follow", follow_,
                   "print lines as they are written, until Ctrl-C");
  }

 private:
  static constexpr uint32_t kMostLast = 1'000'000;

  absl::Status Run() override {
    static FirstInterrupt interrupt;
    EndCleanlyWhenInterrupted(name(), &interrupt);
    const std::string directory = words_.front();
    const std::vector<std::string> logs(words_.begin() + 1, words_.end());
    auto reader = NfLogReader::Open(directory, logs);
    if (!reader.ok()) return reader.status();
    if (absl::Status s = CheckFound(*reader, directory, logs); !s.ok()) {
      return s;
    }
    interrupt.is_awaited = true;
    if (absl::Status s = PrintWritten(*reader, interrupt); !s.ok()) return s;
    while (follow_ && !interrupt.came) {
      const auto lines = reader->Next();
      if (!lines.ok()) return lines.status();
      if (absl::Status s = Print(*lines); !s.ok()) return s;
      if (lines->empty()) std::this_thread::sleep_for(kReadPeriod);
    }
    return absl::OkStatus();
  }

  // A log that is followed may come later.
  absl::Status CheckFound(const NfLogReader& reader,
                          const std::string& directory,
                          const std::vector<std::string>& logs) const {
    if (follow_) return absl::OkStatus();
    const std::vector<std::string> found = reader.found();
    for (const std::string& log : logs) {
      if (std::ranges::find(found, log) != found.end()) continue;
      auto all = NfLogReader::Open(directory, {});
      if (!all.ok()) return all.status();
      return absl::InvalidArgumentError(fmt::format(
          "\"{}\" is no log in {}, which has {}", Printable(log),
          Printable(directory),
          all->found().empty() ? "none" : absl::StrJoin(all->found(), ", ")));
    }
    return absl::OkStatus();
  }

  // Prints what the files have by now, or the last lines of it.
  absl::Status PrintWritten(NfLogReader& reader,
                            const FirstInterrupt& interrupt) const {
    const bool has_last = follow_ || last_ != kAll;
    const size_t last = last_ != kAll ? last_ : kLastOfFollowed;
    std::deque<std::string> kept;
    size_t bytes = NfLogReader::kMostReturned;
    while (!interrupt.came && bytes >= NfLogReader::kMostReturned) {
      const auto lines = reader.Next();
      if (!lines.ok()) return lines.status();
      bytes = lines->size();
      if (!has_last) {
        if (absl::Status s = Print(*lines); !s.ok()) return s;
        continue;
      }
      for (size_t begin = 0; begin < lines->size();) {
        const size_t end = lines->find('\n', begin) + 1;
        kept.push_back(lines->substr(begin, end - begin));
        if (kept.size() > last) kept.pop_front();
        begin = end;
      }
    }
    for (const std::string& line : kept) {
      if (absl::Status s = Print(line); !s.ok()) return s;
    }
    return absl::OkStatus();
  }

  static absl::Status Print(std::string_view lines) {
    std::fwrite(lines.data(), 1, lines.size(), stdout);
    return FlushStdout();
  }

  static constexpr uint32_t kAll = 0;
  static constexpr size_t kLastOfFollowed = 10;

  std::vector<std::string> words_;
  uint32_t last_ = kAll;
  bool follow_ = false;
};

}  // namespace

std::unique_ptr<Command> CreateLogsCommand() {
  return std::make_unique<LogsCommand>();
}

}  // namespace snf
