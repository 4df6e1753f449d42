// SPDX-License-Identifier: Apache-2.0
#include "runtime/sdk/nf.h"

#include <algorithm>
#include <exception>
#include <functional>
#include <new>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "runtime/sdk/nf_call.h"
#include "runtime/sdk/nf_registry.h"

namespace snf {
namespace {

std::vector<const NfRegistration*>& Known() {
  static std::vector<const NfRegistration*> known;
  return known;
}

CaughtNfs* catching = nullptr;

bool HasControl(std::string_view text) {
  return std::ranges::any_of(text, [](const char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte < 0x20 || byte == 0x7f;
  });
}

// Returns why nothing can have this name, or "".
std::string WhyNotName(std::string_view name) {
  if (name.empty()) return "it has no name";
  if (HasControl(name)) return "its name has a control character";
  if (name.size() <= NetworkFunction::kMaxTextBytes) return "";
  return absl::StrCat("its name has more than ", NetworkFunction::kMaxTextBytes,
                      " bytes");
}

// Returns why nothing can have this name and help next to the others, or "".
template <typename Items, typename Name>
std::string WhyNotAlso(std::string_view name, std::string_view help,
                       const Items& others, Name name_of, size_t most,
                       const char* kind) {
  std::string why = WhyNotName(name);
  if (!why.empty()) return why;
  if (HasControl(help)) return "its help has a control character";
  if (help.size() > NetworkFunction::kMaxTextBytes) {
    return absl::StrCat("its help has more than ",
                        NetworkFunction::kMaxTextBytes, " bytes");
  }
  if (std::ranges::find(others, name, name_of) != others.end()) {
    return "there is one of that name";
  }
  if (others.size() < most) return "";
  return absl::StrCat("more than ", most, " ", kind);
}

std::string WhyNotTable(const TableShape& shape) {
  if (shape.max_entries == 0) return "it has no entries";
  if (shape.max_entries > TableShape::kMaxEntries) {
    return absl::StrCat("it has more than ", TableShape::kMaxEntries,
                        " entries");
  }
  if (shape.expires_after > Nanos{}) return "";
  return "its expires_after is not above 0";
}

}  // namespace

void NetworkFunction::CheckDeclares(std::string_view what,
                                    std::string_view name) const {
  if (!is_declared_) return;
  const std::string late =
      absl::StrCat("declared ", std::string(what), " \"", std::string(name),
                   "\": declare in the constructor");
  if (nf_call.is_under_way()) FailNf(late);
  internal::CheckFailed(__FILE__, __LINE__, late.c_str());
}

void NetworkFunction::CheckNames(std::string_view what,
                                 std::span<const std::string_view> all,
                                 size_t most) {
  const std::string kind = absl::StrCat(std::string(what), "s");
  for (size_t i = 0; i < all.size(); ++i) {
    const std::string why = WhyNotAlso(all[i], "", all.first(i),
                                       std::identity(), most, kind.c_str());
    if (!why.empty()) return Refuse(what, all[i], why);
  }
}

void NetworkFunction::EndDeclaring() {
  is_declared_ = true;
  CheckNames("drop reason", drop_reasons(), kMaxDropReasons);
  CheckNames("label", labels(), kMaxLabels);
  for (const auto& table : tables_) {
    table->EndShaping();
    const TableShape& shape = table->shape();
    if (shape.on_timer != nullptr && shape.timer_period <= Nanos{}) {
      Refuse("table", shape.name, "the period of its every() is not above 0");
    }
  }
}

uint32_t NetworkFunction::Add(std::string_view slot, uint64_t bytes,
                              std::string_view type, bool is_blob) {
  CheckDeclares("slot", slot);
  std::string why = WhyNotName(slot);
  if (why.empty()) why = schema_.WhyNot(slot, bytes, is_blob);
  if (!why.empty()) {
    Refuse("slot", slot, why);
    return 0;
  }
  const auto size = static_cast<uint32_t>(bytes);
  return is_blob ? schema_.AddBlob(slot, size)
                 : schema_.AddSlot(slot, size, type);
}

NetworkFunction::Counter NetworkFunction::declare_counter(std::string name,
                                                          std::string help) {
  CheckDeclares("counter", name);
  const std::string why =
      WhyNotAlso(name, help, std::span<const CounterInfo>(counters_),
                 &CounterInfo::name, kMaxDeclared, "counters");
  if (!why.empty()) Refuse("counter", name, why);
  counters_.push_back({std::move(name), std::move(help)});
  counts_.push_back(0);
  kept_counts_.push_back(0);
  return Counter(static_cast<uint32_t>(counters_.size() - 1));
}

LogId NetworkFunction::declare_log(std::string name, std::string help) {
  CheckDeclares("log", name);
  const std::string why =
      WhyNotAlso(name, help, std::span<const LogInfo>(logs_), &LogInfo::name,
                 LogBatch::kMaxLogs, "logs");
  if (!why.empty()) {
    Refuse("log", name, why);
    return LogId{0};
  }
  logs_.push_back({std::move(name), std::move(help)});
  return LogId{static_cast<uint16_t>(logs_.size() - 1)};
}

PoolId NetworkFunction::declare_pool(std::string name, uint32_t first,
                                     uint32_t last,
                                     std::optional<be32> address) {
  CheckDeclares("pool", name);
  std::string why = WhyNotAlso(name, "", std::span<const Pool>(pools_),
                               &Pool::name, kMaxDeclared, "pools");
  if (why.empty() && (first > last || last > 65'535)) {
    why = "its pieces are not first <= last <= 65535";
  }
  if (!why.empty()) {
    Refuse("pool", name, why);
    return PoolId{0};
  }
  pools_.push_back({std::move(name), first, last, address});
  return PoolId{static_cast<uint16_t>(pools_.size() - 1)};
}

TableCopy& NetworkFunction::AddTable(TableShape shape) {
  CheckDeclares("table", shape.name);
  std::string why = WhyNotAlso(
      shape.name, "", tables_,
      [](const auto& table) -> std::string_view { return table->shape().name; },
      kMaxDeclared, "tables");
  if (why.empty()) why = WhyNotTable(shape);
  if (!why.empty()) {
    Refuse("table", shape.name, why);
    shape.max_entries = 1;  // such a table never runs
  }
  return *tables_.emplace_back(std::make_unique<TableCopy>(std::move(shape)));
}

void NetworkFunction::write_record(const LogRecord& record,
                                   std::string& lines) {
  lines.append(reinterpret_cast<const char*>(record.bytes.data()),
               record.bytes.size());
  lines += '\n';
}

void NetworkFunction::Refuse(std::string_view what, std::string_view name,
                             std::string_view why) {
  if (!declared_.ok()) return;
  declared_ = absl::InvalidArgumentError(
      absl::StrCat("it cannot have a ", std::string(what), " \"",
                   std::string(name), "\": ", std::string(why)));
}

KeyedPacket KeyedPacket::Of(std::span<const std::byte> frame,
                            const ParsedPacket& headers) {
  KeyedPacket packet = {.bytes = frame,
                        .headers = headers,
                        .connection = {},
                        .direction = Direction::kForward};
  const bool is_error = headers.icmp_inner_offset != 0;
  const ParsedPacket quoted =
      is_error ? ParseInner(frame, headers) : ParsedPacket();
  const ParsedPacket& one = quoted.has_ip() ? quoted : headers;
  if (one.fragment == Fragment::kLater) {
    packet.connection = FragmentKey(frame, one, false);
    if (quoted.has_ip()) packet.direction = Direction::kReverse;
    return packet;
  }
  const bool is_reverse =
      ConnectionKey(frame, one, false, packet.connection) != quoted.has_ip();
  if (is_reverse) packet.direction = Direction::kReverse;
  return packet;
}

NfRegistration::NfRegistration(std::string_view nf_name,
                               std::string_view nf_summary, Factory nf_factory,
                               std::source_location nf_where)
    : name(nf_name),
      summary(nf_summary),
      factory(std::move(nf_factory)),
      where(nf_where) {
  if (catching != nullptr) {
    catching->nfs_.push_back(this);
    return;
  }
  if (const NfRegistration* const first = FindNf(name); first != nullptr) {
    const std::string what =
        absl::StrCat("there is an NF \"", std::string(name), "\" already, of ",
                     first->where.file_name(), ":", first->where.line());
    internal::CheckFailed(where.file_name(), static_cast<int>(where.line()),
                          what.c_str());
  }
  Known().push_back(this);
}

// A table that is too large is an error of the options, not of the NF.
std::unique_ptr<NetworkFunction> NfRegistration::Make(
    NfOptions& options) const {
  nf_call.made = &name;
  nf_call.hook = NfCall::Hook::kConstructor;
  std::unique_ptr<NetworkFunction> nf;
  try {
    nf = factory(options);
    nf->EndDeclaring();
  } catch (const std::bad_alloc&) {
    nf_call.hook = NfCall::Hook::kNone;
    throw;
  } catch (...) {
    std::terminate();
  }
  nf_call.hook = NfCall::Hook::kNone;
  return nf;
}

CaughtNfs::CaughtNfs() {
  SNF_CHECK(catching == nullptr);
  catching = this;
}

CaughtNfs::~CaughtNfs() { catching = nullptr; }

void CaughtNfs::Add() {
  for (const NfRegistration* nf : nfs_) {
    std::erase_if(Known(), [nf](auto* one) { return one->name == nf->name; });
    Known().push_back(nf);
  }
}

std::unique_ptr<NetworkFunction> NfRegistration::create(
    const NfOptions& options) const {
  NfOptions used = options;
  std::unique_ptr<NetworkFunction> nf = Make(used);
  SNF_CHECK(used.status().ok() && nf->declared().ok());
  nf->schema_.set_nf(name, options.text());
  nf->name_ = name;
  return nf;
}

std::unique_ptr<NetworkFunction> NfRegistration::example() const {
  NfOptions none;
  std::unique_ptr<NetworkFunction> nf = Make(none);
  nf->schema_.set_nf(name);
  return nf;
}

absl::Status NfRegistration::check(const NfOptions& options) const {
  NfOptions used = options;
  const std::unique_ptr<NetworkFunction> nf = Make(used);
  return nf->declared().ok() ? used.status() : nf->declared();
}

std::vector<NfOptions::Description> NfRegistration::options() const {
  NfOptions asked;
  Make(asked);
  return {asked.described().begin(), asked.described().end()};
}

const NfRegistration* FindNf(std::string_view name) {
  const auto found = std::ranges::find(Known(), name, &NfRegistration::name);
  return found == Known().end() ? nullptr : *found;
}

std::vector<const NfRegistration*> ListNfs() {
  std::vector<const NfRegistration*> nfs = Known();
  std::ranges::sort(nfs, {}, &NfRegistration::name);
  return nfs;
}

std::vector<TableCopy*> TablesOf(const NetworkFunction& nf) {
  std::vector<TableCopy*> tables;
  for (const NetworkFunction::Part& part : nf.parts()) {
    for (const auto& table : part.nf->tables()) tables.push_back(table.get());
  }
  return tables;
}

std::vector<NfLog> LogsOf(const NetworkFunction& nf) {
  std::vector<NfLog> logs;
  for (const NetworkFunction::Part& part : nf.parts()) {
    const std::string of(part.name.empty() ? nf.name() : part.name);
    uint16_t own = 0;
    for (const NetworkFunction::LogInfo& log : part.nf->logs()) {
      // The maker of the NF may call its parts.
      logs.push_back({.nf = const_cast<NetworkFunction*>(part.nf),
                      .own = LogId{own++},
                      .name = absl::StrCat(of, ".", log.name)});
    }
  }
  return logs;
}

}  // namespace snf
