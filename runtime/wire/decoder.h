// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RUNTIME_WIRE_DECODER_H_
#define SNF_RUNTIME_WIRE_DECODER_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "base/messages/controller_commands.h"
#include "base/messages/messages.h"
#include "base/messages/unit_commands.h"
#include "runtime/ring/buffer_pool.h"
#include "runtime/ring/thread_link.h"
#include "runtime/tables/table_homes.h"
#include "runtime/tables/table_message.h"
#include "runtime/wire/log_word.h"
#include "runtime/wire/wire_faults.h"

// Theory of operation. A decoder stands between a link and a core: words that
// have passed it are safe to use. It checks every id, handle, length, reason
// and bool of a word against the existing ones, and that the sender named in
// the word belongs to the loop of the link (proto/protocol.md U14). The cores
// check flows and clocks, which only they know.
//
// A decoder takes a message's first cell and returns the length of its payload,
// as LinkIn::Handle asks for, or LinkIn::kNoMessage for a bad word, at which
// the link closes. But a logger repeats what its unit has told it: if single
// units may be ended (WireFaults::BlameLoops), and a logger sends such a word,
// the unit's loop is blamed and the word is skipped. IsSound then checks the
// payload. The first fault is reported to WireFaults.
//
// Worked example: the link from loop 1 of 2 brings a Pull for unit 4 with
// requester 60000. There is no such unit, so the receiver, loop 0, refuses the
// word, and takes no more words of loop 1.
//
// Decoders are values; owner-thread only. Budget: a packet's word costs a few
// compares.
namespace snf {

// The units that a loop runs: index, loops + index, 2 · loops + index … below
// max_units.
class UnitsOfLoop {
 public:
  UnitsOfLoop(uint32_t index, uint32_t loops, uint32_t max_units);
  uint32_t index() const { return index_; }
  bool Has(UnitId unit) const {
    return value(unit) < has_.size() && has_[value(unit)] != 0;
  }

 private:
  uint32_t index_;
  std::vector<uint8_t> has_;  // by unit; a division would cost more
};

// Words from a loop of units to a controller, or from the loop of their
// loggers.
class WordsToController {
 public:
  // Units with loggers leave to them the messages of their entries: outcomes of
  // packets, notes, returned pieces, and their stop.
  enum class Sender : uint8_t { kUnits, kUnitsWithLoggers, kLoggers };
  struct Limits {
    uint32_t max_flows = 0;
    uint32_t nf_reasons = 0;  // NetworkFunction::drop_reasons()
    uint32_t pools = 0;       // NetworkFunction::pools()
    Sender sender = Sender::kUnits;
    // Updates of shared tables come from loggers, not from units.
    bool logs_tables = false;
  };
  // The arguments must outlive the decoder. `buffers` is the controller's end
  // of the pool; loop i is its party i + 1.
  WordsToController(UnitsOfLoop units, const Limits& limits,
                    const BufferPool& buffers, const TableHomes& tables,
                    WireFaults& faults);

  size_t operator()(const Cell& cell) const {
    const auto& word = cell.As<UnitCommand>();
    if (word.kind == UnitCommand::Kind::kRelease && may_release_ &&
        units_.Has(word.unit) && word.meta.has_payload() &&
        buffers_->IsInUse(word.packet)) [[likely]] {
      return 0;
    }
    return Other(cell);
  }
  bool IsSound(const Cell& cell, std::span<const std::byte> payload) const;
  // Reports a word that passed the decoder, but that the receiver knows to be
  // wrong.
  void Refuse(UnitId unit, std::string_view kind, std::string_view field,
              uint64_t value) const {
    faults_->Add({.loop = units_.index(),
                  .unit = unit,
                  .kind = kind,
                  .field = field,
                  .value = value,
                  .of_logger = limits_.sender == Sender::kLoggers});
  }

 private:
  [[gnu::noinline]] size_t Other(const Cell& cell) const;
  bool IsOfSender(const UnitCommand& word) const;
  size_t OfPacket(const UnitCommand& word) const;
  size_t OfShown(const UnitCommand& word) const;
  size_t OfRecovery(const UnitCommand& word) const;
  size_t OfReport(const UnitCommand& word) const;
  size_t Bad(const UnitCommand& word, std::string_view field,
             uint64_t value) const;

  UnitsOfLoop units_;
  Limits limits_;
  bool may_release_;
  BufferPool::Share emits_;  // in these buffers are packets that NFs make
  const BufferPool* buffers_;
  const TableHomes* tables_;
  WireFaults* faults_;
};

// Words from a controller to a loop of units.
class WordsToUnits {
 public:
  struct Limits {
    uint32_t max_units = 0;
    uint32_t tables = 0;  // shared tables of the NF
  };
  // The pool is the loop's end of it; the controller is party 0.
  WordsToUnits(UnitsOfLoop units, const Limits& limits,
               const BufferPool& buffers, WireFaults& faults);

  size_t operator()(const Cell& cell) const {
    const auto& word = cell.As<ControllerCommand>();
    if (word.kind == ControllerCommand::Kind::kEnqueue &&
        units_.Has(word.unit) && word.meta.has_payload() &&
        packets_.Has(word.packet) &&
        IsSource(word.meta.source_kind, word.meta.source)) [[likely]] {
      return 0;
    }
    return Other(cell);
  }
  bool IsSound(const Cell& cell, std::span<const std::byte> payload) const;
  void Refuse(std::string_view kind, std::string_view field,
              uint64_t value) const {
    faults_->Add(
        {.unit = kNoUnit, .kind = kind, .field = field, .value = value});
  }

 private:
  bool IsSource(StateSource kind, UnitId source) const {
    return kind == StateSource::kNone ||
           (kind <= StateSource::kLogger && value(source) < limits_.max_units);
  }
  [[gnu::noinline]] size_t Other(const Cell& cell) const;
  size_t OfPacket(const ControllerCommand& word) const;
  size_t OfTaken(const ControllerCommand& word) const;
  size_t OfReplicas(const ControllerCommand& word) const;
  size_t Bad(const ControllerCommand& word, std::string_view field,
             uint64_t value) const;

  UnitsOfLoop units_;
  Limits limits_;
  BufferPool::Share packets_;
  BufferPool::Share own_;
  WireFaults* faults_;
};

// Words from a loop of units to another, or to itself.
class WordsBetweenUnits {
 public:
  // No record of state is longer than `record_bytes`.
  WordsBetweenUnits(UnitsOfLoop from, UnitsOfLoop to, uint32_t record_bytes,
                    WireFaults& faults);

  size_t operator()(const Cell& cell) const;
  void Refuse(std::string_view kind, std::string_view field,
              uint64_t value) const {
    faults_->Add({.loop = from_.index(),
                  .unit = kNoUnit,
                  .kind = kind,
                  .field = field,
                  .value = value});
  }

 private:
  size_t FromUnit(const UnitCommand& word, UnitId sender,
                  std::string_view field) const;
  size_t OfState(const UnitCommand& word) const;
  size_t Bad(const UnitCommand& word, std::string_view field,
             uint64_t value) const;

  UnitsOfLoop from_;
  UnitsOfLoop to_;
  uint32_t record_bytes_;
  WireFaults* faults_;
};

// Words from a loop of units to the loop of their loggers (log_word.h). The
// logger checks the contents of entries.
class WordsToLoggers {
 public:
  // No entry is longer than `entry_bytes`.
  WordsToLoggers(UnitsOfLoop units, uint32_t max_units, uint32_t entry_bytes,
                 WireFaults& faults);

  size_t operator()(const Cell& cell) const {
    const LogWord word = LogWord::Of(cell);
    if (word.kind == LogWord::Kind::kEntry && units_.Has(word.unit) &&
        word.bytes <= entry_bytes_) [[likely]] {
      return word.payload_bytes();
    }
    return Other(word);
  }
  void Refuse(UnitId unit, std::string_view kind, std::string_view field,
              uint64_t value) const {
    faults_->Add({.loop = units_.index(),
                  .unit = unit,
                  .kind = kind,
                  .field = field,
                  .value = value});
  }

 private:
  [[gnu::noinline]] size_t Other(const LogWord& word) const;

  UnitsOfLoop units_;
  uint32_t max_units_;
  uint32_t entry_bytes_;
  WireFaults* faults_;
};

// Words from a controller to the loop of loggers: its orders, which the loop
// checks, and the answers of tables' homes.
class OrdersToLoggers {
 public:
  OrdersToLoggers(UnitsOfLoop units, uint32_t tables, WireFaults& faults)
      : units_(std::move(units)), tables_(tables), faults_(&faults) {}

  size_t operator()(const Cell& cell) const {
    return cell.is_table() ? sizeof(TableMessage) : 0;
  }
  bool IsSound(const TableMessage& answer) const;
  void Refuse(std::string_view kind, std::string_view field,
              uint64_t value) const {
    faults_->Add({.loop = units_.index(),
                  .unit = kNoUnit,
                  .kind = kind,
                  .field = field,
                  .value = value});
  }

 private:
  UnitsOfLoop units_;
  uint32_t tables_;  // of which there are answers
  WireFaults* faults_;
};

}  // namespace snf

#endif  // SNF_RUNTIME_WIRE_DECODER_H_
