// SPDX-License-Identifier: Apache-2.0
#include "platform/report/watch/live_outputs.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <string_view>
#include <utility>

#include "platform/report/watch/health.h"
#include "platform/report/watch/metrics_text.h"

namespace snf {

LiveOutputs::LiveOutputs(Options options, LiveBoard::Done done)
    : options_(std::move(options)),
      terminal_(Terminal::Of(STDERR_FILENO)),
      board_(std::move(done)) {}

absl::StatusOr<std::unique_ptr<LiveOutputs>> LiveOutputs::Create(
    Options options, LiveBoard::Done done) {
  std::unique_ptr<LiveOutputs> live_outputs(
      new LiveOutputs(std::move(options), std::move(done)));
  const MetricsServer::Options& metrics = live_outputs->options_.metrics;
  if (metrics.port == 0) return live_outputs;
  const LiveBoard& board = live_outputs->board_;
  auto server = MetricsServer::Start(
      metrics,
      {.metrics = [&board] { return MetricsText(MetricsOf(*board.Latest())); },
       .healthz = [&board] { return Liveness(board.Age()); },
       .readyz = [&board] { return Readiness(board.Age(), *board.Latest()); }});
  if (!server.ok()) {
    return absl::Status(
        server.status().code(),
        fmt::format(
            "--metrics_{}: {}",
            absl::IsInvalidArgument(server.status()) ? "address" : "port",
            std::string(server.status().message())));
  }
  live_outputs->server_ = *std::move(server);
  return live_outputs;
}

void LiveOutputs::Show() {
  if (!options_.watch) return;
  LiveView::Options view = {.title = options_.title,
                            .terminal =
                                [terminal = terminal_]() mutable {
                                  terminal.Measure(STDERR_FILENO);
                                  return terminal;
                                },
                            .write =
                                [](std::string_view text) {
                                  std::fwrite(text.data(), 1, text.size(),
                                              stderr);
                                }};
  view_ = std::make_unique<LiveView>(board_, std::move(view));
}

}  // namespace snf
