// SPDX-License-Identifier: Apache-2.0
#include "runtime/core/test_explorer.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_set.h"

namespace snf {
namespace {

class Explorer {
 public:
  Explorer(const Configuration& configuration, bool keeps_looks)
      : rules_(configuration),
        max_states_(configuration.max_states),
        keeps_looks_(keeps_looks) {}

  Findings Run() {
    Reach(rules_.Start(), 0, {});
    while (!next_.empty() && findings_.violation.empty() &&
           ways_.size() < max_states_) {
      std::swap(level_, next_);
      next_.clear();
      const size_t first = ways_.size() - level_.size();
      ++findings_.depth;
      for (size_t i = 0; i < level_.size(); ++i) {
        Visit(level_[i], static_cast<uint32_t>(first + i));
        if (!findings_.violation.empty()) break;
      }
    }
    findings_.states = ways_.size();
    findings_.unit_states = rules_.unit_states();
    findings_.is_complete = next_.empty() && findings_.violation.empty();
    findings_.totals = rules_.totals();
    std::ranges::sort(findings_.looks);
    const auto doubled = std::ranges::unique(findings_.looks);
    findings_.looks.erase(doubled.begin(), doubled.end());
    return std::move(findings_);
  }

 private:
  // How a state was first reached.
  struct Way {
    uint32_t from;
    Action by;
  };

  void Reach(const World& world, uint32_t from, const Action& by) {
    if (!seen_.insert(HashOf(world)).second) return;
    ways_.push_back({from, by});
    next_.push_back(world);
  }

  void Visit(const World& world, uint32_t number) {
    if (keeps_looks_) findings_.looks.push_back(rules_.Look(world));
    if (rules_.IsQuiet(world)) {
      findings_.violation = rules_.CheckQuiet(world);
      if (findings_.violation.empty() && rules_.IsSettled(world)) {
        ++findings_.settled;
        findings_.violation = rules_.CheckSettled(world);
      }
      if (!findings_.violation.empty()) {
        Trace(number);
        findings_.trace.push_back(findings_.violation);
        return;
      }
    }
    rules_.ListActions(world, actions_);
    for (const Action& action : actions_) {
      World next = world;
      ++findings_.steps;
      findings_.violation = rules_.Take(next, action);
      if (!findings_.violation.empty()) {
        Trace(number);
        findings_.trace.push_back(rules_.Describe(world, action));
        return;
      }
      Reach(next, number, action);
    }
  }

  void Trace(uint32_t number) {
    std::vector<Action> actions;
    for (; number != 0; number = ways_[number].from) {
      actions.push_back(ways_[number].by);
    }
    World world = rules_.Start();
    for (size_t i = actions.size(); i-- > 0;) {
      findings_.trace.push_back(rules_.Describe(world, actions[i]));
      rules_.Take(world, actions[i]);
    }
  }

  WorldRules rules_;
  uint64_t max_states_;
  bool keeps_looks_;
  absl::flat_hash_set<uint64_t> seen_;
  std::vector<Way> ways_;     // by state
  std::vector<World> level_;  // the last states but those of next_
  std::vector<World> next_;
  std::vector<Action> actions_;
  Findings findings_;
};

}  // namespace

Findings Explore(const Configuration& configuration, bool keeps_looks) {
  return Explorer(configuration, keeps_looks).Run();
}

std::string Summary(const Findings& f) {
  const auto n = [](const char* name, uint64_t number) {
    return ", " + std::to_string(number) + " " + name;
  };
  std::string text = std::to_string(f.states) + " states";
  text += n("steps", f.steps) + ", depth " + std::to_string(f.depth) +
          n("settled", f.settled) + n("states of units", f.unit_states);
  text += (f.is_complete ? "; complete" : "; cut off");
  const WorldRules::Totals& t = f.totals;
  text += n("seamless", t.seamless) + n("waited", t.waited) +
          n("pulls", t.pulls) + n("answers", t.answers) +
          n("pushes", t.pushes) + n("takeovers", t.takeovers) +
          n("evicted", t.evicted) + n("expired", t.expired) +
          n("repeated", t.repeated) + n("stopped", t.stopped) +
          n("shown", t.shown) + n("seamless after a failure", t.seen) +
          n("tombstones", t.tombstones) + n("NF timers", t.timers) +
          n("rounds", t.rounds);
  return text;
}

}  // namespace snf
