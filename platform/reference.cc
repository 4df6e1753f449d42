// SPDX-License-Identifier: Apache-2.0
#include "platform/reference.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

namespace snf {
namespace {

using Bytes = std::span<const std::byte>;

// Empty for equal ones.
std::string Difference(Bytes got, Bytes expected) {
  if (got.size() == expected.size() &&
      (got.empty() || std::memcmp(&got[0], &expected[0], got.size()) == 0)) {
    return {};
  }
  const auto at =
      std::mismatch(got.begin(), got.end(), expected.begin(), expected.end());
  const auto index = at.first - got.begin();
  if (at.first == got.end() || at.second == expected.end()) {
    return fmt::format(
        "{} bytes, should be {}; byte {} is the first that "
        "differs",
        got.size(), expected.size(), index);
  }
  return fmt::format("byte {} is {:02x}, should be {:02x}", index,
                     std::to_integer<int>(*at.first),
                     std::to_integer<int>(*at.second));
}

std::string InWords(const Verdict& verdict) {
  switch (verdict.kind()) {
    case Verdict::Kind::kForward:
      return "forwarded";
    case Verdict::Kind::kDrop:
      return fmt::format("dropped for reason {}", verdict.reason());
    case Verdict::Kind::kConsume:
      return "consumed";
  }
  return "?";
}

// What a unit made of a packet.
struct Made {
  explicit Made(BufferPool& pool, std::span<const UnitCommand> commands) {
    using Kind = UnitCommand::Kind;
    for (const UnitCommand& command : commands) {
      if (command.kind == Kind::kEmit) {
        frames[frame_count++] = pool.bytes(command.packet);
        continue;
      }
      if (command.kind == Kind::kNfDrop) {
        verdict = Verdict::drop(command.nf_reason);
      } else if (command.kind == Kind::kConsume) {
        verdict = Verdict::consume();
      } else if (command.kind != Kind::kRelease) {
        continue;
      }
      packet = pool.bytes(command.packet);
    }
  }
  Verdict verdict = Verdict::forward();
  Bytes packet;
  size_t frame_count = 0;
  std::array<Bytes, FlowState::kMaxEmits> frames;
};

// Holds what the NF emits here against what the unit's NF emitted.
class ComparedServices final : public FlowServices {
 public:
  ComparedServices(BufferPool& pool, const Made& made)
      : pool_(pool), made_(made) {}

  bool Emit(Bytes frame) override {
    if (count_ == FlowState::kMaxEmits || frame.empty() ||
        frame.size() > BufferPool::kMaxPacketBytes) {
      return false;
    }
    std::string difference;
    if (count_ >= made_.frame_count) {
      difference = fmt::format("it emitted {} frames and no more", count_);
    } else if (difference = Difference(made_.frames[count_], frame);
               !difference.empty()) {
      difference =
          fmt::format("of frame {} that it emitted {}", count_ + 1, difference);
    }
    // The unit may have been refused a buffer. None was freed since.
    if (!difference.empty() && !HasRoom(frame)) return false;
    if (difference_.empty()) difference_ = difference;
    ++count_;
    return true;
  }

  // After the call of the NF.
  std::string TakeDifference() {
    if (difference_.empty() && count_ < made_.frame_count) {
      return fmt::format("it emitted {} frames, should be {}",
                         made_.frame_count, count_);
    }
    return std::move(difference_);
  }

 private:
  bool HasRoom(Bytes frame) {
    const PacketHandle buffer =
        pool_.Allocate(static_cast<uint32_t>(frame.size()));
    if (buffer == kNoPacket) return false;
    pool_.Free(buffer);
    return true;
  }

  BufferPool& pool_;
  const Made& made_;
  size_t count_ = 0;
  std::string difference_;
};

}  // namespace

Reference::Reference(const NfRegistration& nf)
    : nf_(nf.create()), record_bytes_(nf_->schema().record_bytes()) {}

void Reference::Before(const PacketInfo& info, Bytes bytes) {
  info_ = info;
  copy_.assign(bytes.begin(), bytes.end());
}

std::string Reference::After(Instant now, const PacketMeta& meta,
                             BufferPool& pool,
                             std::span<const UnitCommand> commands,
                             Bytes record) {
  const auto [entry, is_new] = flows_.try_emplace(meta.flow);
  Flow& own = entry->second;
  if (is_new) own.record = std::make_unique<uint64_t[]>(record_bytes_ / 8);
  if (own.timer <= now) own.record.reset();
  if (own.record == nullptr) {
    ++not_compared_;
    return {};
  }
  ++compared_;

  const Made made(pool, commands);
  ComparedServices services(pool, made);
  StateView state(
      {reinterpret_cast<std::byte*>(own.record.get()), record_bytes_});
  FlowState flow(meta.flow, now, own.timer, state, services);
  Packet packet(info_, copy_);
  const Verdict verdict = nf_->process_packet(packet, flow);
  own.timer = flow.timer();

  std::string difference = services.TakeDifference();
  if (difference.empty() && (verdict.kind() != made.verdict.kind() ||
                             verdict.reason() != made.verdict.reason())) {
    difference = fmt::format("the packet was {}, should be {}",
                             InWords(made.verdict), InWords(verdict));
  }
  if (difference.empty()) {
    difference = Difference(made.packet, copy_);
    if (!difference.empty()) difference = "of the packet " + difference;
  }
  if (difference.empty() && !record.empty()) {
    difference = Difference(record, state.record());
    if (!difference.empty()) difference = "of the state " + difference;
  }
  if (!difference.empty()) own.record.reset();
  return difference;
}

}  // namespace snf
