// SPDX-License-Identifier: Apache-2.0
//
// Construction of a chain from its plan.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/check.h"
#include "base/messages/messages.h"
#include "runtime/sdk/chain.h"

namespace snf {
namespace {

absl::Status Wrong(std::string_view nf, const std::string& what) {
  return absl::InvalidArgumentError(absl::StrCat(std::string(nf), ": ", what));
}

// In words, why it is no NF whose flows are connections; "" if it is one.
std::string TurnOf(const NetworkFunction& nf) {
  switch (nf.flow_scope()) {
    case FlowScope::kConnection:
      return "";
    case FlowScope::kInsideEndpoint:
      return "it has two sides";
    case FlowScope::kOwnKey:
      return "it has flow keys of its own";
  }
  return "";
}

std::string InWords(std::span<const std::string_view> labels) {
  if (labels.empty()) return "nothing";
  return absl::StrJoin(labels, ", ", [](std::string* to, std::string_view one) {
    to->append(one);
  });
}

constexpr uint32_t kTimerBytes = sizeof(Instant);

// Returns the bytes of a record without its presence bits.
uint32_t SlotBytes(const StateSchema& schema) {
  return schema.slots() == 0 ? 0 : schema.record_bytes() - 8;
}

}  // namespace

absl::StatusOr<std::unique_ptr<NetworkFunction>> Chain::Make(Plan plan) {
  SNF_CHECK(!plan.nfs.empty() && plan.nfs.size() <= kMaxNfs);
  SNF_CHECK(plan.connections > 0);
  std::unique_ptr<Chain> chain(new Chain(std::move(plan)));
  absl::Status status = chain->Build();
  if (!status.ok()) return status;
  return std::unique_ptr<NetworkFunction>(std::move(chain));
}

Chain::Chain(Plan plan) : plan_(std::move(plan)) {}

absl::Status Chain::Build() {
  name_ = "chain";
  for (const Plan::Nf& nf : plan_.nfs) {
    nf.nf->name_ = nf.name;
    Step& step = steps_.emplace_back();
    step.nf = nf.nf.get();
    step.has_timer = nf.nf->has_timer();
    has_timer_ |= step.has_timer;
  }
  for (const auto add : {&Chain::FindTurn, &Chain::AddState,
                         &Chain::AddReasonsAndPools, &Chain::AddLabels}) {
    absl::Status status = (this->*add)();
    if (!status.ok()) return status;
  }
  AddWays();
  if (!ways_[0].may_wait.empty() || !ways_[1].may_wait.empty()) {
    undo_.emplace(schema_.record_bytes());
  }
  return absl::OkStatus();
}

absl::Status Chain::FindTurn() {
  for (size_t i = 0; i < steps_.size(); ++i) {
    const Plan::Nf& nf = plan_.nfs[i];
    const std::string why = TurnOf(*nf.nf);
    if (why.empty()) continue;
    if (turn().has_value()) {
      const Plan::Nf& other = plan_.nfs[*turn()];
      const bool is_same = nf.nf->flow_scope() == other.nf->flow_scope();
      const std::string clash =
          is_same
              ? absl::StrCat(", as ", other.name, " has")
              : absl::StrCat(", and ", other.name, " cannot stand beside it");
      return Wrong(nf.name,
                   absl::StrCat(why, clash, ": a chain has one such NF"));
    }
    if (nf.in_braces || !nf.arms.empty()) {
      return Wrong(
          nf.name,
          absl::StrCat(why, ": it cannot be in braces, or before them"));
    }
    const bool has_sides = nf.nf->flow_scope() == FlowScope::kInsideEndpoint;
    (has_sides ? sided_ : keyed_) = i;
  }
  for (size_t i = 0; i < steps_.size(); ++i) {
    steps_[i].in_connection = sided_.has_value() && i != *sided_;
  }
  return absl::OkStatus();
}

absl::Status Chain::AddState() {
  const auto timers = std::ranges::count_if(
      steps_, [](const Step& step) { return step.has_timer; });
  StateSchema of_connection;
  for (size_t i = 0; i < steps_.size(); ++i) {
    Step& step = steps_[i];
    const std::string& name = plan_.nfs[i].name;
    const StateSchema& own = step.nf->schema();
    StateSchema& schema = step.in_connection ? of_connection : schema_;
    const bool has_slot = step.has_timer && (timers > 1 || step.in_connection);
    if (!schema.HasRoomFor(own.slots() + (has_slot ? 1 : 0),
                           SlotBytes(own) + (has_slot ? kTimerBytes : 0))) {
      return Wrong(name, absl::StrCat("with it a chain keeps more than ",
                                      StateSchema::kMaxSlots, " slots, or ",
                                      StateSchema::kMaxRecordBytes, " bytes"));
    }
    const StateSchema::Shift shift = schema.Append(name, own);
    step.place.first_slot = shift.slots;
    step.place.first_byte = shift.bytes;
    if (!has_slot) continue;
    const uint32_t slot = schema.AddSlot(name + " timer", kTimerBytes, "timer");
    step.timer = TimerSlot(slot, schema.offset(slot));
    connections_have_timers_ |= step.in_connection;
  }
  schema_.set_nf("chain");
  if (of_connection.slots() == 0) return absl::OkStatus();
  const uint64_t bytes =
      StateSchema::kBlobHeaderBytes +
      plan_.connections *
          uint64_t{sizeof(ConnectionTable::Key) + of_connection.record_bytes()};
  if (!schema_.HasRoomFor(1, bytes)) {
    return Wrong(plan_.nfs[*sided_].name,
                 absl::StrCat("with ", plan_.connections,
                              " connections a chain keeps more than ",
                              StateSchema::kMaxSlots, " slots, or ",
                              StateSchema::kMaxRecordBytes, " bytes"));
  }
  const uint32_t slot =
      schema_.AddTable("connections", sizeof(ConnectionTable::Key),
                       of_connection, plan_.connections);
  connections_.emplace(schema_, slot);
  forgotten_ = declare_counter("connections_forgotten",
                               "connections that made room for others");
  return absl::OkStatus();
}

absl::Status Chain::AddReasonsAndPools() {
  size_t logs = 0;
  for (size_t i = 0; i < steps_.size(); ++i) {
    Step& step = steps_[i];
    const std::string& name = plan_.nfs[i].name;
    const std::span<const std::string_view> reasons = step.nf->drop_reasons();
    step.first_reason = static_cast<uint8_t>(reason_names_.size());
    step.reasons = static_cast<uint8_t>(reasons.size());
    step.labels =
        static_cast<uint8_t>(std::max<size_t>(step.nf->labels().size(), 1));
    for (const std::string_view reason : reasons) {
      reason_names_.push_back(absl::StrCat(name, ".", std::string(reason)));
    }
    if (reason_names_.size() > kMaxReasons) {
      return Wrong(name, absl::StrCat("with it a chain drops for more than ",
                                      kMaxReasons, " reasons"));
    }
    step.place.first_pool = static_cast<uint16_t>(pools_.size());
    for (const Pool& pool : step.nf->pools()) {
      pools_.push_back(
          {name + "." + pool.name, pool.first, pool.last, pool.address});
    }
    step.place.first_log = static_cast<uint16_t>(logs);
    logs += step.nf->logs().size();
    if (logs > LogBatch::kMaxLogs) {
      return Wrong(name, absl::StrCat("with it a chain has more than ",
                                      LogBatch::kMaxLogs, " logs"));
    }
    if (pools_.size() > kMaxPools) {
      return Wrong(name, absl::StrCat("with it a chain has more than ",
                                      kMaxPools, " pools"));
    }
  }
  reasons_.assign(reason_names_.begin(), reason_names_.end());
  return absl::OkStatus();
}

absl::Status Chain::AddLabels() {
  for (size_t i = 0; i < steps_.size(); ++i) {
    Step& step = steps_[i];
    const Plan::Nf& nf = plan_.nfs[i];
    const std::span<const std::string_view> labels = step.nf->labels();
    for (const Plan::Arm& arm : nf.arms) {
      const std::string_view label = arm.label;
      if (label == "*" || std::ranges::count(labels, label) > 0) continue;
      return Wrong(nf.name, absl::StrCat("it finds ", InWords(labels),
                                         ", not \"", arm.label, "\""));
    }
    std::array<uint8_t, 256>& next = ways_[0].by_label[i];
    for (size_t label = 0; label < next.size(); ++label) {
      const auto arm = std::ranges::find_if(nf.arms, [&](const Plan::Arm& one) {
        return one.label == "*" ||
               (label < labels.size() && one.label == labels[label]);
      });
      const uint8_t to = arm == nf.arms.end() ? nf.after : arm->next;
      SNF_CHECK(to > i && to <= steps_.size());
      next[label] = to == steps_.size() ? kOut : to;
    }
  }
  return absl::OkStatus();
}

// For packets from the outside, the NFs behind the one with the turn come
// before it, and those before it come behind it.
void Chain::AddWays() {
  Way& in = ways_[0];
  Way& out = ways_[1];
  for (size_t i = 0; i < steps_.size(); ++i) {
    in.order.push_back(static_cast<uint8_t>(i));
  }
  out = in;
  if (turn().has_value()) {
    const auto sided = static_cast<uint8_t>(*turn());
    const auto split = out.order.begin() + sided;
    std::rotate(out.order.begin(), split, out.order.end());
    std::rotate(out.order.begin(), out.order.begin() + 1,
                out.order.end() - sided);
    for (size_t i = 0; i < steps_.size(); ++i) {
      for (uint8_t& to : out.by_label[i]) {
        if (i == sided) {
          to = sided == 0 ? kOut : 0;
        } else if (to == kOut) {
          to = sided;
        } else if (to == sided) {
          to = kOut;
        }
      }
    }
  }
  for (Way& way : ways_) {
    for (const uint8_t index : way.order) {
      const std::array<uint8_t, 256>& next = way.by_label[index];
      const bool is_one = std::ranges::count(next, next[0]) == 256;
      way.next[index] = is_one ? next[0] : kByLabel;
      const Step& step = steps_[index];
      const bool is_first = index == way.order[0] && !step.in_connection;
      if (!step.nf->pools().empty() && !is_first) {
        way.may_wait.push_back(index);
      }
    }
  }
}

std::vector<NetworkFunction::Part> Chain::parts() const {
  std::vector<Part> parts;
  for (const Plan::Nf& nf : plan_.nfs) {
    parts.push_back({nf.name, nf.nf.get()});
  }
  if (forgotten_.has_value()) parts.push_back({"chain", this});
  return parts;
}

}  // namespace snf
