// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_TRACES_PCAPNG_READER_H_
#define SNF_TRACES_PCAPNG_READER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/packet/link_type.h"
#include "base/time.h"
#include "traces/capture_format.h"
#include "traces/capture_reader.h"

namespace snf {

// The clock of one pcapng interface: turns its ticks into an Instant.
//
// A tick of 10^-r s with r ≤ 9 is 10^(9-r) ns; with r > 9, 10^(r-9) ticks are a
// nanosecond; a tick of 2^-r s is 10^9 / 2^r ns. Parts of a nanosecond are
// dropped. Example: if_tsresol 0x94 (r = 20, binary): 1,572,864 ticks are
// 1,572,864 × 10^9 >> 20 = 1,500,000,000 ns.
class InterfaceClock {
 public:
  // Sets the tick by the byte of if_tsresol. Without a call it is 10^-6 s.
  void SetResolution(uint8_t resolution);
  // Sets the seconds of if_tsoffset, which are added to every time.
  void SetOffset(int64_t seconds) { offset_seconds_ = seconds; }

  // Returns the time that `ticks` stand for, or nothing if it exceeds an int64
  // of nanoseconds.
  std::optional<Instant> TimeOf(uint64_t ticks) const {
    return TimeOfWide(ticks);
  }
  // The same if `ticks` are a number below zero in two's complement: writers
  // whose clock was before 1970 have written such.
  std::optional<Instant> TimeBefore1970(uint64_t ticks) const {
    return TimeOfWide(static_cast<int64_t>(ticks));
  }

 private:
  __extension__ using Wide = __int128;

  std::optional<Instant> TimeOfWide(Wide ticks) const;

  uint64_t multiplier_ = 1'000;
  uint64_t divisor_ = 1;
  uint8_t shift_ = 0;
  int64_t offset_seconds_ = 0;
};

// The pcapng part of CaptureReader: sections of blocks. Blocks that carry no
// packet and no interface are passed over, but their framing is checked.
class PcapngReader final : public CaptureReader {
 public:
  // Reads from `source`, which stands at the file's start.
  explicit PcapngReader(std::unique_ptr<ByteSource> source)
      : CaptureReader(std::move(source), CaptureFormat::kPcapng) {}

 protected:
  ReadResult ReadFileHeader() override;
  ReadResult Read(CapturedPacket& packet) override;

 private:
  struct Interface {
    uint16_t link_number = 0;
    std::optional<LinkType> link;  // empty: not supported
    uint32_t snap_bytes = 0;       // 0: no limit
    InterfaceClock clock;
    uint8_t resolution = 6;  // if_tsresol
  };
  // Makes all of the next block available in body_, without consuming it.
  ReadResult ReadBlock();
  ReadResult StartSection();
  ReadResult AddInterface();
  ReadResult ReadInterfaceOptions(Interface& interface);
  // Read the packet of a block, or nothing: kEnd, after CountUnread, if it is
  // passed over. An enhanced and an obsolete packet block differ only in the
  // width of the interface number.
  ReadResult ReadTimedPacket(CapturedPacket& packet);
  ReadResult ReadSimplePacket(CapturedPacket& packet);
  // Passes over the block, and returns kEnd.
  ReadResult PassOver(const std::string& why, const absl::Status& alone);
  // Completes `packet`, whose interface is known, from the body's bytes after
  // the block's own fields.
  ReadResult Deliver(uint32_t captured_bytes, uint32_t field_bytes,
                     CapturedPacket& packet);
  ReadResult FailNoInterface(uint32_t number);
  ReadResult FailTooShort(uint32_t wanted_bytes);

  FieldLoader fields_;
  uint32_t block_type_ = 0;
  uint32_t block_bytes_ = 0;
  std::span<const std::byte> body_;    // the block without type and lengths
  std::vector<Interface> interfaces_;  // of the section
  bool warned_untimed_ = false;
};

}  // namespace snf

#endif  // SNF_TRACES_PCAPNG_READER_H_
