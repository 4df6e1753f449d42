// SPDX-License-Identifier: Apache-2.0
#include "platform/commands/nf/nf_description.h"

#include <algorithm>
#include <memory>

#include "absl/strings/str_replace.h"
#include "base/quantity.h"
#include "base/text/page.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "nlohmann/json.hpp"

namespace snf {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kColumns = 80;

// Lines of two columns, the first as wide as its names need, within limits.
class Names {
 public:
  static constexpr size_t kMost = 26;

  void Add(std::string name, std::string what) {
    columns_ = std::max(columns_, std::min(ColumnsOf(name), kMost));
    rows_.push_back({std::move(name), std::move(what)});
  }
  void Print(Page& page) const {
    const size_t indent = columns_ + 4;
    for (const auto& [name, what] : rows_) {
      std::string front = "  " + name;
      if (what.empty() || ColumnsOf(name) > columns_) {
        page.Raw(front + "\n");
        if (what.empty()) continue;
        front.clear();
      }
      front.append(indent - ColumnsOf(front), ' ');
      page.Wrap(front, indent, what);
    }
  }

 private:
  size_t columns_ = 0;
  std::vector<std::pair<std::string, std::string>> rows_;
};

std::string_view NameOf(FlowScope scope) {
  switch (scope) {
    case FlowScope::kConnection:
      return "connection";
    case FlowScope::kInsideEndpoint:
      return "inside_endpoint";
    case FlowScope::kOwnKey:
      return "own_key";
  }
  return "";
}

std::string FlowOf(const NetworkFunction& nf) {
  switch (nf.flow_scope()) {
    case FlowScope::kConnection:
      return "A flow is a connection, or what --flow_key says.";
    case FlowScope::kInsideEndpoint:
      return "A flow is all connections of one inside address, port and "
             "protocol.";
    case FlowScope::kOwnKey:
      return "A flow is what the NF says.";
  }
  return "";
}

std::string OptionLine(const NfOptions::Description& option,
                       const std::string& values) {
  const std::string by_default =
      option.otherwise.empty() ? "" : fmt::format("  [{}]", option.otherwise);
  return fmt::format("  {}={}{}", option.key, values, by_default);
}

void AddOptions(const NfRegistration& nf, Page& page) {
  const std::vector<NfOptions::Description> options = nf.options();
  if (options.empty()) return;
  page.Raw(fmt::format("\nOptions, as in --nf {}:{}=…,…:\n", nf.name,
                       options.front().key));
  for (const NfOptions::Description& option : options) {
    std::string line = OptionLine(option, option.values);
    std::string help = option.help;
    if (ColumnsOf(line) > size_t{kColumns}) {
      line = OptionLine(option, "VALUE");
      help += ": " + absl::StrReplaceAll(option.values, {{"|", ", "}});
    }
    page.Raw(line + "\n");
    page.Wrap("      ", 6, help);
  }
}

void AddNames(std::string_view heading, std::span<const std::string_view> names,
              Page& page) {
  if (names.empty()) return;
  page.Raw(fmt::format("\n{}:\n", heading));
  page.Prose(fmt::format("{}", fmt::join(names, ", ")));
}

void AddCounters(const NetworkFunction& nf, Page& page) {
  if (nf.counters().empty()) return;
  page.Raw("\nCounters:\n");
  Names names;
  for (const NetworkFunction::CounterInfo& counter : nf.counters()) {
    names.Add(counter.name, counter.help);
  }
  names.Print(page);
}

void AddState(const NetworkFunction& nf, Page& page) {
  const StateSchema& schema = nf.schema();
  if (schema.slots() == 0) {
    page.Raw(fmt::format("\nState: none kept of a flow (schema {})\n",
                         SchemaHashOf(nf)));
    return;
  }
  page.Raw(fmt::format("\nState, {} bytes of each flow (schema {}):\n",
                       FormatCount(schema.record_bytes()), SchemaHashOf(nf)));
  Names names;
  for (uint32_t slot = 0; slot < schema.slots(); ++slot) {
    names.Add(std::string(schema.name(slot)),
              (schema.is_blob(slot) ? "up to " : "") +
                  Plural(schema.bytes(slot), "byte"));
  }
  names.Print(page);
}

void AddPools(const NetworkFunction& nf, Page& page) {
  if (nf.pools().empty()) return;
  page.Raw("\nPools:\n");
  Names names;
  for (const NetworkFunction::Pool& pool : nf.pools()) {
    names.Add(pool.name, Plural(pool.last - pool.first + 1, "piece") +
                             fmt::format(", {} to {}", pool.first, pool.last));
  }
  names.Print(page);
}

void AddTables(const NetworkFunction& nf, Page& page) {
  if (nf.tables().empty()) return;
  page.Raw("\nTables, shared by all units:\n");
  Names names;
  for (const std::unique_ptr<TableCopy>& table : nf.tables()) {
    const TableShape& shape = table->shape();
    names.Add(shape.name,
              fmt::format("at most {} entries, keys of {}, values of {}{}",
                          FormatCount(shape.max_entries),
                          Plural(shape.key_bytes, "byte"),
                          Plural(shape.value_bytes, "byte"),
                          shape.for_reports ? ", for reports" : ""));
  }
  names.Print(page);
}

Json JsonTables(const NetworkFunction& nf) {
  Json json = Json::array();
  for (const std::unique_ptr<TableCopy>& table : nf.tables()) {
    const TableShape& shape = table->shape();
    json.push_back({{"name", shape.name},
                    {"key_bytes", shape.key_bytes},
                    {"value_bytes", shape.value_bytes},
                    {"max_entries", shape.max_entries},
                    {"for_reports", shape.for_reports}});
  }
  return json;
}

Json JsonOptions(const NfRegistration& nf) {
  Json json = Json::array();
  for (const NfOptions::Description& option : nf.options()) {
    json.push_back({{"key", option.key},
                    {"values", option.values},
                    {"default", option.otherwise},
                    {"help", option.help}});
  }
  return json;
}

Json JsonState(const NetworkFunction& nf) {
  const StateSchema& schema = nf.schema();
  Json slots = Json::array();
  for (uint32_t slot = 0; slot < schema.slots(); ++slot) {
    slots.push_back({{"name", schema.name(slot)},
                     {"offset", schema.offset(slot)},
                     {"bytes", schema.bytes(slot)},
                     {"is_blob", schema.is_blob(slot)}});
  }
  return {{"schema_hash", SchemaHashOf(nf)},
          {"record_bytes", schema.record_bytes()},
          {"slots", std::move(slots)}};
}

std::string Print(const Json& json) {
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace

std::string ListOf(std::span<const NfRegistration* const> nfs) {
  Page page({.columns = kColumns});
  Names names;
  for (const NfRegistration* nf : nfs) {
    names.Add(std::string(nf->name), std::string(nf->summary));
  }
  names.Print(page);
  return page.Take();
}

std::string JsonListOf(std::span<const NfRegistration* const> nfs) {
  Json json = Json::array();
  for (const NfRegistration* nf : nfs) {
    json.push_back({{"name", nf->name}, {"summary", nf->summary}});
  }
  return Print(json);
}

std::string DescriptionOf(const NfRegistration& registration) {
  const std::unique_ptr<NetworkFunction> nf = registration.example();
  Page page({.columns = kColumns});
  page.Wrap("", 0,
            fmt::format("{}: {}", registration.name, registration.summary));
  page.Blank();
  page.Wrap("", 0, FlowOf(*nf) + (nf->has_timer() ? " It has a timer." : ""));
  AddOptions(registration, page);
  AddNames("Labels", nf->labels(), page);
  AddNames("Drop reasons", nf->drop_reasons(), page);
  AddCounters(*nf, page);
  AddState(*nf, page);
  AddPools(*nf, page);
  AddTables(*nf, page);
  return page.Take();
}

std::string JsonDescriptionOf(const NfRegistration& registration) {
  const std::unique_ptr<NetworkFunction> nf = registration.example();
  Json json = {{"name", registration.name},
               {"summary", registration.summary},
               {"flow_scope", NameOf(nf->flow_scope())},
               {"has_timer", nf->has_timer()},
               {"labels", nf->labels()},
               {"options", JsonOptions(registration)},
               {"drop_reasons", nf->drop_reasons()},
               {"counters", Json::array()},
               {"state", JsonState(*nf)},
               {"pools", Json::array()},
               {"tables", JsonTables(*nf)}};
  for (const NetworkFunction::CounterInfo& counter : nf->counters()) {
    json["counters"].push_back(
        {{"name", counter.name}, {"help", counter.help}});
  }
  for (const NetworkFunction::Pool& pool : nf->pools()) {
    json["pools"].push_back(
        {{"name", pool.name}, {"first", pool.first}, {"last", pool.last}});
  }
  return Print(json);
}

std::string SchemaHashOf(const NetworkFunction& nf) {
  return fmt::format("{:016x}", nf.schema().hash());
}

}  // namespace snf
