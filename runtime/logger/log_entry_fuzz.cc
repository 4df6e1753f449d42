// SPDX-License-Identifier: Apache-2.0
//
// Reads any bytes as an entry of a unit for its logger, and as a delta: the
// readers must stay inside the bytes, an entry that is read must be written as
// the same bytes, a record must stay well-formed, and a log takes each update
// of a table once.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "base/check.h"
#include "runtime/logger/delta.h"
#include "runtime/logger/log_entry.h"
#include "runtime/logger/update_log.h"
#include "runtime/sdk/state_schema.h"

namespace snf {
namespace {

const StateSchema& Schema() {
  static const StateSchema schema = [] {
    StateSchema made;
    made.AddSlot("packets", sizeof(uint64_t), "unsigned");
    made.AddSlot("ports", 12, "aligned to 4");
    made.AddBlob("name", 20);
    return made;
  }();
  return schema;
}

LogEntryLimits Limits() {
  return {.schema = Schema().hash(),
          .max_delta_bytes =
              std::max(Schema().record_bytes(), MaxDeltaBytes(Schema())),
          .packets = 1'000,
          .pools = 3,
          .max_update_bytes = 400};
}

// Takes the updates, which are sound, twice, as two entries would bring them.
void Log(std::span<const std::byte> updates) {
  static const TableShape shapes[] = {
      {.name = "n", .key_bytes = 8, .value_bytes = 8, .max_entries = 4},
      {.name = "m", .key_bytes = 16, .value_bytes = 8, .max_entries = 4}};
  UpdateLog log(shapes, 1);
  if (!log.Follows(updates)) return;
  log.Add(1, updates);
  const uint64_t added = log.added(0) + log.added(1);
  SNF_CHECK(log.Follows(updates));
  log.Add(2, updates);
  SNF_CHECK(log.added(0) + log.added(1) == added);
  log.on_entries_merged(1);
  SNF_CHECK(log.empty());
}

// Applies the delta to an empty record, and then to the record after it.
void Apply(std::span<const std::byte> delta) {
  std::vector<std::byte> record(Schema().record_bytes());
  for (int i = 0; i < 2; ++i) {
    const std::vector<std::byte> before = record;
    const bool is_applied = ApplyDelta(Schema(), delta, record);
    SNF_CHECK(is_applied || record == before);
    SNF_CHECK(Schema().IsWellFormed(record));
  }
}

void Read(std::span<const std::byte> bytes) {
  const auto view = LogEntryView::Parse(Limits(), bytes);
  if (!view.has_value()) return;
  std::vector<PieceUse> pieces;
  for (size_t i = 0; i < (*view)->pieces; ++i) pieces.push_back(view->piece(i));
  std::vector<PacketHandle> emitted;
  for (size_t i = 0; i < (*view)->emitted; ++i) {
    emitted.push_back(view->emitted(i));
  }
  const bool has_alias = (*view)->is(LogEntry::kHasAlias);
  const Alias alias = has_alias ? view->alias() : Alias{};
  std::vector<std::byte> written(bytes.size());
  const uint32_t size =
      WriteLogEntry(**view, pieces, emitted, has_alias ? &alias : nullptr,
                    view->delta(), written, view->updates());
  SNF_CHECK(size == bytes.size());
  SNF_CHECK(std::ranges::equal(written, bytes));
  Log(view->updates());
  if (!(*view)->is(LogEntry::kWhole)) Apply(view->delta());
}

// Sets the schema and the lengths, so that Parse reads more of the bytes.
std::vector<std::byte> Mended(std::span<const std::byte> bytes) {
  std::vector<std::byte> mended(bytes.begin(), bytes.end());
  if (bytes.size() < sizeof(LogEntry)) return mended;
  LogEntry entry;
  std::memcpy(&entry, mended.data(), sizeof(entry));
  entry.schema = Schema().hash();
  entry.pieces %= 4;
  entry.emitted %= 4;
  entry.argument %= 256;
  const size_t others = entry.pieces * sizeof(PieceUse) +
                        entry.emitted * sizeof(PacketHandle) +
                        entry.update_bytes() +
                        (entry.is(LogEntry::kHasAlias) ? sizeof(Alias) : 0);
  const size_t tail = bytes.size() - sizeof(entry);
  entry.delta_bytes = static_cast<uint32_t>(tail - std::min(tail, others));
  std::memcpy(mended.data(), &entry, sizeof(entry));
  return mended;
}

}  // namespace
}  // namespace snf

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  const auto input = std::as_bytes(std::span(data, bytes));
  snf::Read(input);
  snf::Read(snf::Mended(input));
  snf::Apply(input);
  return 0;
}
