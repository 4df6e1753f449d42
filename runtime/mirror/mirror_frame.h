// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RUNTIME_MIRROR_MIRROR_FRAME_H_
#define SNF_RUNTIME_MIRROR_MIRROR_FRAME_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>
#include <vector>

namespace snf {

// A message of a mirror to its other side (loop_mirror.h): items one after the
// other, in the order in which the receiver applies them. Integers are in the
// machine's byte order; both sides run the same program.
struct MirrorItem {
  enum class Kind : uint8_t {
    kTold,      // TellUnits: what the daemon tells the loop of units
    kProgress,  // TellDaemon: how far the loop of units has come
    kPacket,    // the packet of the handle `position`: a PacketInfo, its bytes
    kCells,     // cells of `ring`, the first of which has that position
    kReleased,  // the consumer of `ring` has released all before that position
    kRing,      // of a begin: `ring` is empty, at that position
    kClaimed,   // of a begin: the daemon has the buffer of that handle
    kCount,
  };
  Kind kind{};
  uint8_t ring = 0;
  uint16_t reserved = 0;
  uint32_t bytes = 0;  // of what follows
  uint64_t position = 0;
};
static_assert(sizeof(MirrorItem) == 16);
static_assert(std::is_trivially_copyable_v<MirrorItem>);

// Shared words of a loop's memory that the daemon writes.
struct TellUnits {
  uint32_t stops = 0;
  uint32_t stops_timers = 0;
  uint32_t logger_process = 0;
  uint32_t ends = 0;
  uint32_t newest_controller = 0;
  uint32_t begun_controller = 0;
  int64_t clock_offset = 0;  // of the daemon's host
  bool operator==(const TellUnits&) const = default;
};
static_assert(std::has_unique_object_representations_v<TellUnits>);

// Shared words of a loop's memory that the loop writes (LoopProgress).
struct TellDaemon {
  uint64_t received = 0;
  uint64_t sent = 0;
  int64_t next_due = 0;
  int64_t started = 0;  // by the clock of the daemon's host
  uint64_t buffers = 0;
  uint64_t seamless = 0;
  uint64_t pulled = 0;
  int64_t busy_ns = 0;
  bool operator==(const TellDaemon&) const = default;
};
static_assert(std::has_unique_object_representations_v<TellDaemon>);

// Appends items to a frame.
class MirrorWriter {
 public:
  explicit MirrorWriter(std::vector<std::byte>& frame) : frame_(frame) {}

  // Adds an item without its bytes, which the caller appends.
  void Add(const MirrorItem& item) { Append(&item, sizeof(item)); }
  void Append(const void* data, size_t bytes) {
    const auto* const from = static_cast<const std::byte*>(data);
    frame_.insert(frame_.end(), from, from + bytes);
  }
  template <typename Value>
  void AddValue(MirrorItem::Kind kind, const Value& value) {
    Add({.kind = kind, .bytes = sizeof(value)});
    Append(&value, sizeof(value));
  }

 private:
  std::vector<std::byte>& frame_;
};

// Reads the items of a frame, which comes from elsewhere.
class MirrorReader {
 public:
  explicit MirrorReader(std::span<const std::byte> frame) : rest_(frame) {}

  // Takes the next item; returns false at the end, and if the rest is no item:
  // then is_bad().
  bool Next() {
    if (rest_.empty()) return false;
    if (rest_.size() < sizeof(item_)) return Fail();
    std::memcpy(&item_, rest_.data(), sizeof(item_));
    rest_ = rest_.subspan(sizeof(item_));
    if (item_.kind >= MirrorItem::Kind::kCount || item_.reserved != 0 ||
        item_.bytes > rest_.size()) {
      return Fail();
    }
    bytes_ = rest_.first(item_.bytes);
    rest_ = rest_.subspan(item_.bytes);
    return true;
  }
  bool is_bad() const { return is_bad_; }
  const MirrorItem& item() const { return item_; }
  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  bool Fail() {
    is_bad_ = true;
    return false;
  }

  std::span<const std::byte> rest_;
  std::span<const std::byte> bytes_;
  MirrorItem item_;
  bool is_bad_ = false;
};

}  // namespace snf

#endif  // SNF_RUNTIME_MIRROR_MIRROR_FRAME_H_
