// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_RUN_OBSERVERS_H_
#define SNF_PLATFORM_RUN_OBSERVERS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string_view>
#include <type_traits>
#include <vector>

#include "platform/run/run_events.h"

namespace snf {

// Every event of RunObserver but on_decision, in any order.
#define SNF_RUN_EVENTS(EVENT) \
  EVENT(on_start)             \
  EVENT(on_end)               \
  EVENT(on_arrival)           \
  EVENT(on_enqueue)           \
  EVENT(on_end_flow)          \
  EVENT(on_unit_up)           \
  EVENT(on_unit_down)         \
  EVENT(on_state_sent)        \
  EVENT(on_pull)              \
  EVENT(on_state)             \
  EVENT(on_takeover)          \
  EVENT(on_service_begin)     \
  EVENT(on_service_again)     \
  EVENT(on_service_end)       \
  EVENT(on_run)               \
  EVENT(on_busy)              \
  EVENT(on_nf_begin)          \
  EVENT(on_nf_end)            \
  EVENT(on_logged)            \
  EVENT(on_release)           \
  EVENT(on_records)           \
  EVENT(on_drop)              \
  EVENT(on_consumed)          \
  EVENT(on_taken)             \
  EVENT(on_advanced)          \
  EVENT(on_payload_dropped)   \
  EVENT(on_lost)              \
  EVENT(on_drained)           \
  EVENT(on_alias)             \
  EVENT(on_alias_refused)     \
  EVENT(on_flow_note)         \
  EVENT(on_pieces_granted)    \
  EVENT(on_pieces_returned)   \
  EVENT(on_grants_sealed)     \
  EVENT(on_process_begins)    \
  EVENT(on_unsent)            \
  EVENT(on_end_unsent)        \
  EVENT(on_grant_unsent)      \
  EVENT(on_flow_found)        \
  EVENT(on_successor)

// The observers of a run, which a driver owns and tells every event:
// `observers_.on_enqueue(now, unit, meta)`. Each event goes to its observers
// in the order in which they were added, and to those only whose class
// overrides it, so an event that nobody overrides costs a compare.
// Owner-thread only.
class Observers final : public DecisionObserver {
 public:
  Observers() = default;
  // Adds the observers that are not null.
  Observers(std::initializer_list<RunObserver*> observers) {
    for (RunObserver* observer : observers) {
      if (observer != nullptr) Add(*observer);
    }
  }

  // Adds an observer, which must outlive the object. An observer of a final
  // class gets the events that the class overrides, any other gets all events.
  template <typename T>
  void Add(T& observer) {
    const auto subscribe = [&](size_t event, bool overrides) {
      if (overrides || !std::is_final_v<T>) of_[event].push_back(&observer);
    };
#define SNF_SUBSCRIBE(event) \
  subscribe(                 \
      k_##event,             \
      !std::is_same_v<decltype(&T::event), decltype(&RunObserver::event)>);
    SNF_RUN_EVENTS(SNF_SUBSCRIBE)
    SNF_SUBSCRIBE(on_decision)
#undef SNF_SUBSCRIBE
  }

  // Calls `make` for the packet only if an observer overrides the event.
  template <typename Make>
  void on_release_of(const Make& make) {
    for (RunObserver* const observer : of_[k_on_release]) {
      observer->on_release(make());
    }
  }
  template <typename Make>
  void on_drop_of(const Make& make, std::string_view reason) {
    for (RunObserver* const observer : of_[k_on_drop]) {
      observer->on_drop(make(), reason);
    }
  }

#define SNF_TELL(event)                                  \
  template <typename... Args>                            \
  void event(Args&&... args) {                           \
    for (RunObserver* const observer : of_[k_##event]) { \
      observer->event(args...);                          \
    }                                                    \
  }
  SNF_RUN_EVENTS(SNF_TELL)
#undef SNF_TELL
  void on_decision(const Decision& decision, const UnitPool& units) override {
    for (RunObserver* const observer : of_[k_on_decision]) {
      observer->on_decision(decision, units);
    }
  }

  // Returns what Controller::set_decision_observer takes: null if nobody
  // overrides on_decision.
  DecisionObserver* decision_observer() {
    return of_[k_on_decision].empty() ? nullptr : this;
  }

 private:
#define SNF_NUMBER(event) k_##event,
  enum : uint8_t { SNF_RUN_EVENTS(SNF_NUMBER) k_on_decision, kEvents };
#undef SNF_NUMBER

  std::array<std::vector<RunObserver*>, kEvents> of_;
};

}  // namespace snf

#endif  // SNF_PLATFORM_RUN_OBSERVERS_H_
