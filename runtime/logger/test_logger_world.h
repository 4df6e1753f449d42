// SPDX-License-Identifier: Apache-2.0
// A unit's entries go to its logger over a network that loses, doubles and
// reorders them; what comes out is compared with the unit's own maps.
#ifndef SNF_RUNTIME_LOGGER_TEST_LOGGER_WORLD_H_
#define SNF_RUNTIME_LOGGER_TEST_LOGGER_WORLD_H_

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/rng.h"
#include "runtime/logger/test_logged_unit.h"

namespace snf {

class LoggerWorld {
 public:
  explicit LoggerWorld(uint64_t seed) : rng_(seed) {}

  // Returns what went wrong first, or "".
  std::string Run() {
    for (int entry = 0; entry < 150; ++entry) Make();
    const uint64_t stop = rng_.Below(4) == 0 ? rng_.Below(400) : 100'000;
    for (uint64_t step = 0; step < 100'000 && wrong_.empty(); ++step) {
      if (step == stop || logger_.taken() + 1 == unit_.entries.size()) break;
      Deliver();
    }
    if (stop == 100'000 && wrong_.empty() &&
        logger_.taken() + 1 != unit_.entries.size()) {
      wrong_ = "no progress";
    }
    CheckFlows();
    Seal();
    return wrong_;
  }
  uint64_t lost() const { return logger_.lost(); }

 private:
  void Fail(const char* what) {
    if (wrong_.empty()) wrong_ = what;
  }

  void Make() {
    const uint64_t flow = 1 + rng_.Below(6);
    const uint64_t kind = rng_.Below(12);
    if (kind == 0 && granted_ < 4) {
      unit_.Grant(granted_++, rng_.Next());
      return;
    }
    if (kind == 1 && unit_.clocks[flow] > 1) {
      // A Takeover of an older clock, which does no harm.
      unit_.Forget(flow, rng_.Below(unit_.clocks[flow]));
      return;
    }
    if (kind == 2 && !unit_.free.empty()) {
      const uint32_t piece = *unit_.free.begin();
      unit_.Return(piece / 64, uint64_t{1} << piece % 64);
      returned_.insert(unit_.entries.size() - 1);
      return;
    }
    if (kind == 3 && unit_.clocks[flow] > 0) {
      // What comes next should be whole, and is not.
      const uint64_t name = rng_.Next();
      unit_.AdvanceElsewhere(flow, std::as_bytes(std::span(&name, 1)));
      elsewhere_.insert({flow, unit_.clocks[flow]});
    }
    std::vector<PieceUse> pieces;
    if (kind < 6 && !unit_.free.empty()) {
      pieces.push_back({.piece = *unit_.free.rbegin()});
      taken_.push_back(pieces[0].piece);
    } else if (kind < 8 && !taken_.empty()) {
      pieces.push_back({.piece = taken_.back(), .gives = 1});
      taken_.pop_back();
    }
    unit_.Advance(flow, rng_.Next(), rng_.Below(8) == 0, pieces);
  }

  // Sends one entry near those that are due, or another in its place.
  void Deliver() {
    const uint64_t first = logger_.taken() > 2 ? logger_.taken() - 2 : 1;
    const uint64_t number =
        std::min<uint64_t>(first + rng_.Below(12), unit_.entries.size() - 1);
    if (dead_.contains(number)) {
      // Only a stand-in comes, as if the entry itself had been lost.
      Send(unit_.Instead(number, true));
    } else if (rng_.Below(40) == 0 && number > logger_.taken()) {
      dead_.insert(number);
    } else {
      Send(unit_.entries[number]);
    }
  }

  void Send(const Bytes& bytes) {
    const auto result = logger_.on_entry(bytes, out_);
    if (result == OutputLogger::Result::kImpossible)
      Fail("refused as impossible");
    Execute();
    while (logger_.has_more() && wrong_.empty()) {
      logger_.Resume(out_);
      Execute();
    }
  }

  void Execute() {
    const LoggerOut out = out_;
    out_.clear();
    for (const LoggerCommand& command : out.commands()) {
      const uint64_t flow = value(command.meta.flow);
      if (command.kind == LoggerCommand::Kind::kRelease) {
        if (!packets_.insert(command.packet).second) Fail("released twice");
      } else if (command.kind == LoggerCommand::Kind::kAskWhole) {
        Send(unit_.Instead(command.ask.first, false));
      } else if (command.kind == LoggerCommand::Kind::kReleased) {
        CheckReleased(flow, value(command.meta.clock));
      }
    }
  }

  void CheckReleased(uint64_t flow, uint64_t clock) {
    uint64_t& released = released_[flow];
    ++released;
    while (elsewhere_.contains({flow, released})) ++released;
    if (clock != released) Fail("I3: released out of order");
    const uint64_t applied = value(logger_.applied(FlowId{flow}));
    if (applied < clock) Fail("I4: released before it was applied");
    if (applied < applied_[flow]) Fail("I2: an applied clock went back");
    applied_[flow] = applied;
  }

  void CheckFlows() {
    for (const auto& [flow, records] : unit_.history) {
      const uint64_t applied = value(logger_.applied(FlowId{flow}));
      if (applied < released_[flow]) Fail("I5: a released effect is gone");
      if (applied == 0) continue;
      const auto state = logger_.state_bytes(FlowId{flow});
      if (!std::equal(state.begin(), state.end(), records[applied - 1].begin(),
                      records[applied - 1].end())) {
        Fail("I2: another state");
      }
    }
  }

  void Seal() {
    const uint64_t taken = logger_.taken();
    logger_.Seal();
    std::set<uint64_t> tells;
    std::set<uint32_t> pieces;
    uint32_t flows = 0;
    bool ended = false;
    while (logger_.has_more()) {
      logger_.Resume(out_);
      for (const LoggerCommand& command : out_.commands()) {
        using Kind = LoggerCommand::Kind;
        if (command.kind == Kind::kTell) tells.insert(command.tell.number);
        if (command.kind == Kind::kApplied) ++flows;
        if (command.kind == Kind::kSealed) ended = true;
        if (command.kind == Kind::kDrop &&
            !packets_.insert(command.packet).second) {
          Fail("dropped what was released");
        }
        for (uint32_t bit = 0; command.kind == Kind::kFreePieces && bit < 64;
             ++bit) {
          if ((command.pieces.mask >> bit & 1) != 0) {
            pieces.insert(command.pieces.word * 64 + bit);
          }
        }
      }
      out_.clear();
    }
    if (!ended || flows != logger_.flows()) Fail("F2: report is not whole");
    if (pieces != unit_.free_at[taken]) Fail("I8: other pieces");
    std::erase_if(returned_, [&](uint64_t number) { return number > taken; });
    if (tells != returned_) Fail("U13: the controller is not told");
    for (uint64_t number = taken + 1; number < unit_.entries.size(); ++number) {
      if (logger_.on_entry(unit_.entries[number], out_) !=
          OutputLogger::Result::kRefused) {
        Fail("F2: taken after the Seal");
      }
      out_.clear();
    }
    if (logger_.taken() != taken) Fail("F2: taken after the Seal");
  }

  Rng rng_;
  LoggedUnit unit_;
  OutputLogger logger_{LoggedUnit::kIncarnation,
                       {.max_flows = 8, .window = 8},
                       unit_.nf.schema(),
                       unit_.nf.pools()};
  LoggerOut out_;
  std::string wrong_;
  uint32_t granted_ = 0;
  std::vector<uint32_t> taken_;
  std::set<uint64_t> returned_;
  std::set<uint64_t> dead_;
  std::set<PacketHandle> packets_;
  std::map<uint64_t, uint64_t> released_;
  std::map<uint64_t, uint64_t> applied_;
  std::set<std::pair<uint64_t, uint64_t>> elsewhere_;
};

}  // namespace snf

#endif  // SNF_RUNTIME_LOGGER_TEST_LOGGER_WORLD_H_
