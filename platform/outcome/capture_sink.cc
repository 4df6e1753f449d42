// SPDX-License-Identifier: Apache-2.0
#include "platform/outcome/capture_sink.h"

#include "platform/outcome/packet_comment.h"

namespace snf {
namespace {

CapturedPacket PacketOf(const ReleasedPacket& packet) {
  return {.time = packet.time,
          .bytes = packet.bytes,
          .original_bytes = packet.original_length,
          .link = packet.link};
}

}  // namespace

absl::StatusOr<std::unique_ptr<CaptureSink>> CaptureSink::Open(
    const RunRequest& request) {
  if (request.out.empty() && request.drops.empty()) return nullptr;
  std::unique_ptr<CaptureSink> sink(new CaptureSink);
  sink->annotate_ = request.annotate;
  for (const auto& [path, writer] : {std::pair{&request.out, &sink->out_},
                                     {&request.drops, &sink->drops_}}) {
    if (path->empty()) continue;
    auto opened = CaptureWriter::Open(*path, {});
    if (!opened.ok()) return opened.status();
    *writer = *std::move(opened);
  }
  return sink;
}

void CaptureSink::on_release(const ReleasedPacket& packet) {
  if (out_ == nullptr) return;
  CommentRoom room;
  out_->Write(PacketOf(packet),
              annotate_ ? CommentOf(packet.route, "", room) : "");
}

void CaptureSink::on_drop(const ReleasedPacket& packet,
                          std::string_view reason) {
  if (drops_ == nullptr) return;
  CommentRoom room;
  drops_->Write(PacketOf(packet), CommentOf(packet.route, reason, room));
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
