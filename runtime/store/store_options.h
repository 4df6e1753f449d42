// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RUNTIME_STORE_STORE_OPTIONS_H_
#define SNF_RUNTIME_STORE_STORE_OPTIONS_H_

#include <array>
#include <cstdint>

#include "base/histogram.h"
#include "base/time.h"

namespace snf {

// Time limits of requests to a store outside of units and, in virtual time, the
// model of its delays.
struct StoreOptions {
  // A state that is not there yet is asked for again after this time, then
  // after twice as long, and so on up to kMaxPoll.
  Nanos poll = Microseconds(50);
  static constexpr Nanos kMaxPoll = Microseconds(250);
  // A request without an answer is sent again after this time, then after twice
  // as long, and so on up to `patience`.
  Nanos timeout = Milliseconds(10);
  // If the store has not answered for this long, packets that wait for the
  // state are dropped as store_silent, when the next repetition of the request
  // is due.
  Nanos patience = Seconds(1);

  // The model of virtual time: a server as snf bench measures it, row 14, a
  // Redis over a unix socket. Round trips of an idle server without the
  // network, as the quantiles 0, 50, 90, 99 and 99.9 %, evenly distributed in
  // between; and the time that a request takes the server, each of whose
  // threads serves one request at a time.
  static constexpr std::array<uint32_t, 5> kShares = {0, 500, 900, 990, 999};
  std::array<Nanos, 5> round_trips = {Microseconds(12), Microseconds(23),
                                      Microseconds(32), Microseconds(64),
                                      Microseconds(180)};
  Nanos operation = Microseconds(2);
  uint32_t threads = 1;
};

// Counters of the requests to a store.
struct StoreCounters {
  uint64_t reads = 0;       // of states, without repetitions
  uint64_t read_again = 0;  // since the state was not there yet
  uint64_t timeouts = 0;    // requests sent again for want of an answer
  uint64_t silent = 0;  // times that a unit was told that the store is silent
  uint64_t writes = 0;
  uint64_t writes_lost =
      0;  // while the store was unreachable, or refused by it
  uint64_t erased = 0;
  uint64_t bytes_read = 0;  // of values: a header and a record each
  uint64_t bytes_written = 0;
  uint64_t refused = 0;     // answers that cannot be
  uint64_t reconnects = 0;  // after the connection broke
};

struct StoreFigures : StoreCounters {
  Histogram round_trip_ns;  // of all requests that were answered
};

// Adds the counters up.
void AddTo(StoreFigures& sum, const StoreFigures& one);

}  // namespace snf

#endif  // SNF_RUNTIME_STORE_STORE_OPTIONS_H_
