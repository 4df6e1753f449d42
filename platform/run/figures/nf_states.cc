// SPDX-License-Identifier: Apache-2.0
#include "platform/run/figures/nf_states.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>

#include "base/ids.h"
#include "platform/run/figures/table_totals.h"
#include "runtime/sdk/nf_call.h"

namespace snf {
namespace {

void LoadTables(const NetworkFunction& nf, size_t first,
                const TableHomes& homes) {
  for (const auto& copy : nf.tables()) {
    const TableHome& home = homes.home(first++);
    if (home.size() <= NetworkFunction::kMaxStateEntries) {
      LoadTotals(home, *copy);
    } else {
      copy->Clear();
    }
  }
}

std::vector<NfState> StatesOf(const NetworkFunction& nf, Instant now) {
  std::vector<NfState> states;
  CallNf(nf, NfCall::Hook::kStates, nullptr, kNoPacket,
         [&] { states = nf.states(now); });
  states.resize(std::min(states.size(), NetworkFunction::kMaxStates));
  return states;
}

}  // namespace

std::vector<LiveFigures::NfObject> NfObjects(const NetworkFunction& nf,
                                             const TableHomes& homes,
                                             Instant now) {
  std::vector<LiveFigures::NfObject> objects;
  size_t table = 0;
  for (const NetworkFunction::Part& part : nf.parts()) {
    const size_t first = std::exchange(table, table + part.nf->tables().size());
    if (!part.nf->has_states()) continue;
    LoadTables(*part.nf, first, homes);
    for (NfState& state : StatesOf(*part.nf, now)) {
      LiveFigures::NfObject& object = objects.emplace_back();
      object.nf = std::string(part.nf->name());
      object.object = std::move(state.object);
      object.state = std::move(state.state);
      object.why = std::move(state.why);
      if (state.since.has_value()) {
        object.age = std::max(now - *state.since, Nanos{});
      }
    }
  }
  return objects;
}

}  // namespace snf
