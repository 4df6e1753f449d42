// SPDX-License-Identifier: Apache-2.0
#include "platform/system_test/test_failover_explorer.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/container/flat_hash_map.h"

namespace snf {
namespace {

class Explorer {
 public:
  Explorer(const FailoverPlan& plan, const ExplorerLimits& limits)
      : plan_(plan), limits_(limits) {}

  FailoverFindings Run() {
    Restart();
    Reach(0);
    while (!way_.empty() && found_.violation.empty() &&
           seen_.size() < limits_.max_states) {
      Place& place = way_.back();
      if (place.next == place.steps.size()) {
        way_.pop_back();
        is_there_ = false;
        continue;
      }
      const FailoverStep step = place.steps[place.next++];
      const bool turns = limits_.max_turns != kAnyTurns && place.next > 1 &&
                         !step.is_failure();
      const uint32_t turned = place.turned + (turns ? 1 : 0);
      if (turned > limits_.max_turns) continue;
      GoTo();
      ++found_.steps;
      found_.violation = world_->Take(step);
      if (found_.violation.empty()) {
        is_there_ = false;
        Reach(turned);
      }
    }
    found_.states = seen_.size();
    found_.is_complete = way_.empty() && found_.violation.empty();
    if (!found_.violation.empty()) Trace();
    return std::move(found_);
  }

 private:
  // A state on the way to the present one.
  struct Place {
    std::vector<FailoverStep> steps;
    size_t next = 0;      // which is taken next; those before were
    uint32_t turned = 0;  // on the way here
  };

  void Restart() {
    ++found_.runs;
    world_ = std::make_unique<FailoverWorld>(1, plan_);
    is_there_ = true;
  }

  // Makes the world that of the last place.
  void GoTo() {
    if (is_there_) return;
    Restart();
    for (size_t i = 0; i + 1 < way_.size(); ++i) {
      world_->Take(way_[i].steps[way_[i].next - 1]);
    }
  }

  // The world is in a state that may be new.
  void Reach(uint32_t turned) {
    const auto [seen, is_new] = seen_.try_emplace(world_->Hash(), turned);
    if (!is_new && seen->second <= turned) return;
    seen->second = turned;
    Place place = {.steps = {}, .turned = turned};
    const bool goes_on = world_->ListSteps(place.steps);
    way_.push_back(std::move(place));
    found_.depth = std::max(found_.depth, way_.size());
    is_there_ = true;
    if (goes_on) return;
    ++found_.ends;
    found_.violation = world_->End();
    is_there_ = false;
  }

  void Trace() {
    Restart();
    for (const Place& place : way_) {
      if (place.next == 0) break;
      const FailoverStep& step = place.steps[place.next - 1];
      found_.trace.push_back(world_->Describe(step));
      world_->Take(step);
    }
    found_.trace.push_back(found_.violation);
  }

  FailoverPlan plan_;
  ExplorerLimits limits_;
  absl::flat_hash_map<uint64_t, uint32_t> seen_;  // and how often turned
  std::vector<Place> way_;
  std::unique_ptr<FailoverWorld> world_;
  bool is_there_ = false;  // the world is in the state of the last place
  FailoverFindings found_;
};

}  // namespace

FailoverFindings ExploreFailover(const FailoverPlan& plan,
                                 const ExplorerLimits& limits) {
  return Explorer(plan, limits).Run();
}

std::string Summary(const FailoverFindings& found) {
  return std::to_string(found.states) + " states, " +
         std::to_string(found.steps) + " steps, depth " +
         std::to_string(found.depth) + ", " + std::to_string(found.ends) +
         " ends" + (found.is_complete ? "; complete" : "; cut off");
}

}  // namespace snf
