// SPDX-License-Identifier: Apache-2.0
#include "platform/report/watch/live_view.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "base/text/page.h"
#include "fmt/format.h"

namespace snf {
namespace {

constexpr Nanos kNextLine = Seconds(2);

std::string_view EscapeOf(LiveText::Tone tone) {
  switch (tone) {
    case LiveText::Tone::kHeading:
      return "\033[1m";
    case LiveText::Tone::kAlarm:
      return "\033[1;31m";
    case LiveText::Tone::kPlain:
      break;
  }
  return "";
}

}  // namespace

std::string LiveCanvas::ToTop(size_t columns) const {
  size_t rows = 0;
  for (const size_t line : drawn_) {
    rows += line == 0 || columns == 0 ? 1 : (line + columns - 1) / columns;
  }
  return rows == 0 ? "\r" : fmt::format("\r\033[{}A", rows);
}

std::string LiveCanvas::Draw(const std::vector<LiveText>& lines,
                             size_t columns) {
  std::string text = ToTop(columns);
  drawn_.clear();
  for (const LiveText& line : lines) {
    const std::string_view escape = EscapeOf(line.tone);
    const bool is_plain = !colour_ || escape.empty();
    text +=
        is_plain ? line.text : fmt::format("{}{}\033[0m", escape, line.text);
    text += "\033[K\n";
    drawn_.push_back(ColumnsOf(line.text));
  }
  return text + "\033[J";
}

std::string LiveCanvas::Wipe(size_t columns) {
  if (drawn_.empty()) return "";
  std::string text = ToTop(columns) + "\033[J";
  drawn_.clear();
  return text;
}

LiveView::LiveView(LiveBoard& board, Options options)
    : board_(board),
      options_(std::move(options)),
      canvas_(options_.terminal().colour),
      thread_([this] { Run(); }) {}

LiveView::~LiveView() {
  board_.Close();
  thread_.join();
}

void LiveView::Run() {
  auto before = std::make_shared<const LiveFigures>();
  uint64_t seen = 0;
  while (const auto now = board_.WaitForNext(seen)) {
    const Terminal terminal = options_.terminal();
    if (terminal.is_terminal) {
      options_.write(
          canvas_.Draw(LiveScreen(options_.title, *before, *now, terminal),
                       terminal.columns));
    } else if (now->elapsed.ns - before->elapsed.ns >= kNextLine.ns) {
      options_.write(LiveLine(*before, *now) + "\n");
    } else {
      continue;
    }
    before = now;
  }
  const std::string wipe = canvas_.Wipe(options_.terminal().columns);
  if (!wipe.empty()) options_.write(wipe);
}

}  // namespace snf
