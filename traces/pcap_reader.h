// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_TRACES_PCAP_READER_H_
#define SNF_TRACES_PCAP_READER_H_

#include <cstdint>
#include <memory>
#include <utility>

#include "traces/capture_format.h"
#include "traces/capture_reader.h"

namespace snf {

// The pcap part of CaptureReader: a 24-byte file header, then records of a
// fixed header and the captured bytes.
class PcapReader final : public CaptureReader {
 public:
  // Returns true if `word`, loaded in the file's order, opens a pcap file.
  static bool IsMagic(uint32_t word) {
    return word == kPcapMicroseconds || word == kPcapNanoseconds ||
           word == kPcapModified;
  }

  // Reads from `source`, which stands at the file's start. The first word,
  // loaded by `fields`, is `magic`.
  PcapReader(std::unique_ptr<ByteSource> source, FieldLoader fields,
             uint32_t magic)
      : CaptureReader(std::move(source), CaptureFormat::kPcap),
        fields_(fields),
        record_bytes_(magic == kPcapModified ? kPcapModifiedRecordBytes
                                             : kPcapRecordBytes),
        nanos_per_tick_(magic == kPcapNanoseconds ? 1 : 1'000),
        ticks_per_second_(1'000'000'000 / nanos_per_tick_) {}

 protected:
  ReadResult ReadFileHeader() override;
  ReadResult Read(CapturedPacket& packet) override;

 private:
  FieldLoader fields_;
  uint32_t record_bytes_;
  uint32_t nanos_per_tick_;
  uint32_t ticks_per_second_;
  bool lengths_may_be_swapped_ = false;
  LinkType link_ = LinkType::kEthernet;
  uint16_t link_number_ = 0;
};

}  // namespace snf

#endif  // SNF_TRACES_PCAP_READER_H_
