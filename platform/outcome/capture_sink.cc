// SPDX-License-Identifier: Apache-2.0
#include "platform/outcome/capture_sink.h"

#include <fmt/format.h>

#include <array>
#include <cstddef>

namespace snf {
namespace {

// Holds any comment; a longer reason would be cut.
using Room = std::array<char, 256>;

CapturedPacket PacketOf(const ReleasedPacket& packet) {
  return {.time = packet.time,
          .bytes = packet.bytes,
          .original_bytes = packet.original_length,
          .link = packet.link};
}

std::string_view RouteText(const PacketRoute& route, std::string_view front,
                           Room& room) {
  char* const begin = room.data();
  char* const end = begin + room.size();
  char* at = begin;
  const auto add = [&](std::string_view name, const auto& what) {
    at = fmt::format_to_n(at, end - at, "{}{}{}", at == begin ? "" : " ", name,
                          what)
             .out;
  };
  if (!front.empty()) add("", front);
  if (route.unit != kNoUnit) add("unit=", value(route.unit));
  if (route.generated) {
    add("", "generated");
    return {begin, at};
  }
  if (route.flowlet > 0) {
    add("flowlet=", route.flowlet);
    add("clock=", value(route.clock));
  }
  add("latency_ns=", route.latency.ns);
  return {begin, at};
}

}  // namespace

absl::StatusOr<std::unique_ptr<CaptureSink>> CaptureSink::Open(
    const Options& options) {
  std::unique_ptr<CaptureSink> sink(new CaptureSink);
  sink->annotate_ = options.annotate;
  for (const auto& [path, writer] : {std::pair{&options.out, &sink->out_},
                                     {&options.drops, &sink->drops_}}) {
    if (path->empty()) continue;
    auto opened = CaptureWriter::Open(*path, {});
    if (!opened.ok()) return opened.status();
    *writer = *std::move(opened);
  }
  return sink;
}

void CaptureSink::on_release(const ReleasedPacket& packet) {
  if (out_ == nullptr) return;
  Room room;
  std::string_view comment;
  if (annotate_) {
    const bool has_flow = packet.route.unit != kNoUnit;
    comment = has_flow ? RouteText(packet.route, "", room) : "passed_through";
  }
  out_->Write(PacketOf(packet), comment);
}

void CaptureSink::on_drop(const ReleasedPacket& packet,
                          std::string_view reason) {
  if (drops_ == nullptr) return;
  Room reason_room;
  const auto text =
      fmt::format_to_n(reason_room.data(), 128, "dropped={}", reason);
  Room room;
  drops_->Write(PacketOf(packet),
                RouteText(packet.route, {reason_room.data(), text.out}, room));
}

absl::Status CaptureSink::status() const {
  for (const auto* writer : {&out_, &drops_}) {
    if (*writer != nullptr && !(*writer)->status().ok()) {
      return (*writer)->status();
    }
  }
  return absl::OkStatus();
}

absl::Status CaptureSink::Close() {
  for (auto* writer : {&out_, &drops_}) {
    if (*writer == nullptr) continue;
    if (absl::Status s = (*writer)->Close(); !s.ok()) return s;
  }
  return absl::OkStatus();
}

}  // namespace snf
