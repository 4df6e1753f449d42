// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RUNTIME_WIRE_KEPT_WORD_H_
#define SNF_RUNTIME_WIRE_KEPT_WORD_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>

#include "base/byte_order.h"
#include "base/ids.h"
#include "base/messages/report_messages.h"
#include "runtime/ring/thread_link.h"
#include "runtime/wire/decoder.h"
#include "runtime/wire/wire_faults.h"

namespace snf {

// Begins each message by which a loop of units hands over what the units keep
// to a new process of their loggers (proto/protocol.md F8).
//
// Worked example: unit 2 keeps two flows and a pool. Process 1 of the loggers
// gets kBegin(1), three kEntry, two kName, kUnit(2) and kAll.
struct KeptWord {
  enum class Kind : uint8_t {
    kBegin,  // the following words are for process `number` of the loggers, and
             // all earlier ones are void
    kEntry,  // `bytes` follow without a gap: an entry for OutputLogger::Restore
    kName,   // a FlowName follows, which the unit has been told
    kUnit,   // end of the words of `unit`; its entries up to `released` are
             // released, its last entry is `number`
    kAll,    // end of all words
  };
  Kind kind{};
  // For kEntry: the flow waits for its alias, and its record is ahead of its
  // clock. A whole entry follows in the ring of entries.
  uint8_t is_ahead = 0;
  UnitId unit = kNoUnit;  // of kEntry, kName and kUnit
  uint32_t bytes = 0;
  uint64_t released = 0;
  uint64_t number = 0;

  // Returns the word that begins the message with this first cell.
  static KeptWord Of(const Cell& first) {
    return LoadAs<KeptWord>(first.bytes.data());
  }
  // Returns how many bytes there are beyond the first cell.
  size_t payload_bytes() const {
    const size_t all = sizeof(KeptWord) + bytes;
    return all <= sizeof(Cell) ? 0 : all - sizeof(Cell);
  }
  // Returns the entry, or name, whose other cells follow the first one in
  // memory.
  std::span<const std::byte> entry(const Cell& first) const {
    return {reinterpret_cast<const std::byte*>(&first) + sizeof(KeptWord),
            bytes};
  }
};
static_assert(sizeof(KeptWord) == 24);
static_assert(std::is_trivially_copyable_v<KeptWord>);

// Looks at the words of a loop of units to a new process of its loggers.
// Returns the payload of each (LinkIn::Handle); reports an impossible word to
// the faults.
class WordsToNewLoggers {
 public:
  // No entry is longer than `entry_bytes`.
  WordsToNewLoggers(UnitsOfLoop units, uint32_t entry_bytes, WireFaults& faults)
      : units_(std::move(units)), entry_bytes_(entry_bytes), faults_(&faults) {}

  size_t operator()(const Cell& cell) const {
    using Kind = KeptWord::Kind;
    const KeptWord word = KeptWord::Of(cell);
    const bool has_unit = word.kind != Kind::kBegin && word.kind != Kind::kAll;
    if (word.kind > Kind::kAll) {
      Refuse(kNoUnit, "kind", static_cast<uint8_t>(word.kind));
    } else if (has_unit && !units_.Has(word.unit)) {
      Refuse(kNoUnit, "unit", value(word.unit));
    } else if (word.kind == Kind::kName ? word.bytes != sizeof(FlowName)
                                        : word.bytes > MostBytes(word.kind)) {
      Refuse(word.unit, "bytes", word.bytes);
    } else if (word.kind == Kind::kUnit && word.released > word.number) {
      Refuse(word.unit, "released", word.released);
    } else {
      return word.payload_bytes();
    }
    return LinkIn::kNoMessage;
  }
  void Refuse(UnitId unit, std::string_view field, uint64_t value) const {
    faults_->Add({.loop = units_.index(),
                  .unit = unit,
                  .kind = "kept word",
                  .field = field,
                  .value = value});
  }

 private:
  uint32_t MostBytes(KeptWord::Kind kind) const {
    return kind == KeptWord::Kind::kEntry ? entry_bytes_ : 0;
  }

  UnitsOfLoop units_;
  uint32_t entry_bytes_;
  WireFaults* faults_;
};

}  // namespace snf

#endif  // SNF_RUNTIME_WIRE_KEPT_WORD_H_
