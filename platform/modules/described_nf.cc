// SPDX-License-Identifier: Apache-2.0
#include "platform/modules/described_nf.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <memory>
#include <utility>

#include "base/check.h"
#include "runtime/sdk/nf_call.h"
#include "runtime/sdk/table_copy.h"

namespace snf {
namespace {

using Object = proto::NfDescription::Object;
using Names = google::protobuf::RepeatedPtrField<std::string>;

// Bounds of what a module may say of itself.
constexpr int kMostItems = NetworkFunction::kMaxDeclared;  // of one kind
constexpr size_t kMostTextBytes = NetworkFunction::kMaxTextBytes;

absl::Status Bad(std::string_view field, std::string_view why) {
  return absl::InvalidArgumentError(
      fmt::format("the description of the module: {}: {}", field, why));
}

// --- Of an object to its description. ---

std::string WithoutCode(std::string_view what) {
  return fmt::format(
      "{}, and controllers do not run a module's code; --trust_modules lets "
      "them",
      what);
}

// Returns true if the NF writes records of the log in another form than
// DescribedNf will.
bool WritesItsOwnWay(NetworkFunction& nf, LogId log) {
  constexpr std::array<std::byte, 4> kBytes = {std::byte{'t'}, std::byte{'e'},
                                               std::byte{'x'}, std::byte{'t'}};
  const LogRecord record = {.log = log, .time = Instant{}, .bytes = kBytes};
  std::string own;
  std::string plain;
  nf.write_record(record, own);
  nf.NetworkFunction::write_record(record, plain);
  return own != plain;
}

bool IsEmpty(const NfReport& report) {
  return report.tables.empty() && report.files.empty() &&
         report.exports.empty();
}

void DescribeTables(const NetworkFunction& nf, Object& to, std::string& error) {
  for (const auto& table : nf.tables()) {
    const TableShape& shape = table->shape();
    const bool has_code = shape.has_code();
    if (has_code && error.empty()) {
      error = WithoutCode(fmt::format(
          "table \"{}\" has a merge, timer or trigger of its own", shape.name));
    }
    auto& described = *to.add_table();
    described.set_name(shape.name);
    described.set_key_bytes(shape.key_bytes);
    described.set_value_bytes(shape.value_bytes);
    described.set_max_entries(shape.max_entries);
    described.set_for_reports(shape.for_reports);
    if (shape.expires_after != Nanos::max()) {
      described.set_expires_after_ns(shape.expires_after.ns);
    }
  }
}

void DescribeObject(NetworkFunction& nf, Object& to, std::string& error) {
  for (const auto reason : nf.drop_reasons()) {
    to.add_drop_reason(std::string(reason));
  }
  for (const auto label : nf.labels()) to.add_label(std::string(label));
  for (const auto& counter : nf.counters()) {
    auto& described = *to.add_counter();
    described.set_name(counter.name);
    described.set_help(counter.help);
  }
  uint16_t number = 0;
  for (const auto& log : nf.logs()) {
    auto& described = *to.add_log();
    described.set_name(log.name);
    described.set_help(log.help);
    const LogId id{number++};
    if (error.empty() && WritesItsOwnWay(nf, id)) {
      to.add_warning(fmt::format(
          "log {}: records are written as they are; the module's form of them "
          "wants --trust_modules",
          log.name));
    }
  }
  for (const auto& pool : nf.pools()) {
    auto& described = *to.add_pool();
    described.set_name(pool.name);
    described.set_first(pool.first);
    described.set_last(pool.last);
    if (pool.address.has_value()) {
      described.set_address(std::bit_cast<uint32_t>(*pool.address));
    }
  }
  const StateSchema& schema = nf.schema();
  for (uint32_t i = 0; i < schema.slots(); ++i) {
    auto& described = *to.add_slot();
    described.set_name(std::string(schema.name(i)));
    described.set_type(std::string(schema.type(i)));
    described.set_bytes(schema.bytes(i));
    described.set_is_blob(schema.is_blob(i));
  }
  DescribeTables(nf, to, error);
  // An NF of wrong options may have neither warnings nor a report.
  if (!error.empty()) return;
  CallNf(nf, NfCall::Hook::kWarnings, nullptr, kNoPacket, [&] {
    for (const std::string& warning : nf.warnings()) to.add_warning(warning);
  });
  if (!IsEmpty(nf.report())) {
    to.add_warning("its report at the end wants --trust_modules");
  }
  if (nf.has_states()) {
    to.add_warning("the states of its objects want --trust_modules");
  }
}

// --- Of a description to an object. ---

absl::Status CheckText(std::string_view field, const std::string& text) {
  if (text.size() > kMostTextBytes) {
    return Bad(field, fmt::format("{} bytes of text, of at most {}",
                                  text.size(), kMostTextBytes));
  }
  const bool is_text = std::ranges::none_of(text, [](const char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte < 0x20 || byte == 0x7f;
  });
  return is_text ? absl::OkStatus() : Bad(field, "has a control character");
}

absl::Status CheckTexts(std::string_view field, const Names& texts, int most) {
  if (texts.size() > most) {
    return Bad(field, fmt::format("{} of at most {}", texts.size(), most));
  }
  for (const std::string& text : texts) {
    if (absl::Status s = CheckText(field, text); !s.ok()) return s;
  }
  return absl::OkStatus();
}

template <typename Items, typename Check>
absl::Status CheckAll(std::string_view field, const Items& items, Check check) {
  if (items.size() > kMostItems) {
    return Bad(field,
               fmt::format("{} of at most {}", items.size(), kMostItems));
  }
  for (const auto& item : items) {
    if (absl::Status s = CheckText(field, item.name()); !s.ok()) return s;
    if (absl::Status s = check(item); !s.ok()) return s;
  }
  return absl::OkStatus();
}

absl::Status CheckTable(const Object::Table& table) {
  const bool is_good =
      table.key_bytes() > 0 && table.key_bytes() <= TableShape::kMaxKeyBytes &&
      table.value_bytes() > 0 &&
      table.value_bytes() <= TableShape::kMaxValueBytes &&
      table.max_entries() > 0 &&
      table.max_entries() <= TableShape::kMaxEntries &&
      (!table.has_expires_after_ns() || table.expires_after_ns() > 0);
  if (is_good) return absl::OkStatus();
  return Bad("table",
             fmt::format("keys of {} bytes, values of {} bytes, {} "
                         "entries, {} ns until they expire",
                         table.key_bytes(), table.value_bytes(),
                         table.max_entries(), table.expires_after_ns()));
}

absl::Status CheckObject(const Object& object) {
  const auto help = [](const Object::Named& named) {
    return CheckText("help", named.help());
  };
  const auto most = static_cast<int>(NetworkFunction::kMaxDropReasons);
  absl::Status status = CheckTexts("drop_reason", object.drop_reason(), most);
  status.Update(CheckTexts("label", object.label(),
                           static_cast<int>(NetworkFunction::kMaxLabels)));
  status.Update(CheckTexts("warning", object.warning(), kMostItems));
  status.Update(CheckAll("counter", object.counter(), help));
  status.Update(CheckAll("log", object.log(), help));
  status.Update(CheckAll("pool", object.pool(),
                         [](const auto&) { return absl::OkStatus(); }));
  status.Update(CheckAll("slot", object.slot(), [](const auto& slot) {
    return CheckText("slot", slot.type());
  }));
  status.Update(CheckAll("table", object.table(), CheckTable));
  return status;
}

}  // namespace

proto::NfDescription Describe(const NfRegistration& registration,
                              const NfOptions& options) {
  proto::NfDescription to;
  to.set_name(std::string(registration.name));
  to.set_summary(std::string(registration.summary));
  NfOptions used = options;
  const std::unique_ptr<NetworkFunction> nf = registration.Make(used);
  for (const NfOptions::Description& option : used.described()) {
    auto& described = *to.add_option();
    described.set_key(option.key);
    described.set_values(option.values);
    described.set_otherwise(option.otherwise);
    described.set_help(option.help);
  }
  for (const auto& [key, value] : options.values()) {
    (*to.mutable_given())[key] = value;
  }
  std::string error(used.status().message());
  if (!nf->declared().ok()) {
    to.set_error(std::string(nf->declared().message()));
    return to;
  }
  to.set_flow_scope(static_cast<uint32_t>(nf->flow_scope()));
  to.set_is_barrier(nf->is_barrier());
  to.set_needs_first_fragment(nf->needs_first_fragment());
  to.set_takes_merged(nf->takes_merged());
  to.set_has_timer(nf->has_timer());
  if (nf->flow_scope() == FlowScope::kOwnKey && error.empty()) {
    error = WithoutCode("it has a flow key of its own");
  }
  DescribeObject(*nf, *to.mutable_object(), error);
  to.set_error(error);
  return to;
}

absl::Status CheckDescription(const proto::NfDescription& description) {
  absl::Status status = CheckText("name", description.name());
  status.Update(CheckText("summary", description.summary()));
  status.Update(CheckText("error", description.error()));
  if (description.name().empty()) status.Update(Bad("name", "is empty"));
  const auto last_scope = static_cast<uint32_t>(FlowScope::kInsideEndpoint);
  if (description.error().empty() && description.flow_scope() > last_scope) {
    status.Update(Bad("flow_scope", std::to_string(description.flow_scope())));
  }
  if (description.option().size() > kMostItems) {
    status.Update(Bad("option", std::to_string(description.option().size())));
  }
  for (const auto& option : description.option()) {
    for (const std::string& text :
         {option.key(), option.values(), option.otherwise(), option.help()}) {
      status.Update(CheckText("option", text));
    }
  }
  status.Update(CheckObject(description.object()));
  return status;
}

HeldDescription::HeldDescription(proto::NfDescription of)
    : description(std::move(of)),
      drop_reasons(description.object().drop_reason().begin(),
                   description.object().drop_reason().end()),
      labels(description.object().label().begin(),
             description.object().label().end()) {}

DescribedNf::DescribedNf(const HeldDescription& held) : held_(held) {
  const Object& object = held.description.object();
  for (const auto& slot : object.slot()) {
    Add(slot.name(), slot.bytes(), slot.type(), slot.is_blob());
  }
  for (const auto& counter : object.counter()) {
    declare_counter(counter.name(), counter.help());
  }
  for (const auto& log : object.log()) declare_log(log.name(), log.help());
  for (const auto& pool : object.pool()) {
    std::optional<be32> address;
    if (pool.has_address()) address = std::bit_cast<be32>(pool.address());
    declare_pool(pool.name(), pool.first(), pool.last(), address);
  }
  for (const auto& table : object.table()) {
    AddTable({.name = table.name(),
              .key_bytes = table.key_bytes(),
              .value_bytes = table.value_bytes(),
              .max_entries = table.max_entries(),
              .for_reports = table.for_reports(),
              .expires_after = table.has_expires_after_ns()
                                   ? Nanos{table.expires_after_ns()}
                                   : Nanos::max()});
  }
}

FlowScope DescribedNf::flow_scope() const {
  return static_cast<FlowScope>(description().flow_scope());
}

std::vector<std::string> DescribedNf::warnings() const {
  const auto& warnings = description().object().warning();
  return {warnings.begin(), warnings.end()};
}

Verdict DescribedNf::process_packet(Packet& /*packet*/, FlowState& /*flow*/) {
  SNF_CHECK(false);
  return Verdict::forward();
}

}  // namespace snf
