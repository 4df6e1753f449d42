// SPDX-License-Identifier: Apache-2.0
//
// State that cannot move between units; each of the macros must not compile
// (CMakeLists.txt).
#include "runtime/sdk/nf.h"

namespace snf {
namespace {

struct Deep {
  uint64_t number;
  struct {
    const char* text;
  } inner;
};

union Either {
  uint32_t number;
  uint8_t bytes[4];
};

#if defined(TEST_STATE_GOOD)
struct Good {
  uint32_t number;
  be16 ports[2];
  IpAddress address;
};
using Kept = Good;
#elif defined(TEST_STATE_POINTER)
using Kept = char*;
#elif defined(TEST_STATE_POINTERS)
using Kept = char* [2];
#elif defined(TEST_STATE_MEMBER_POINTER)
using Kept = uint64_t Deep::*;
#elif defined(TEST_STATE_DEEP) || defined(TEST_STATE_TABLE)
using Kept = Deep;
#elif defined(TEST_STATE_UNION)
using Kept = Either;
#elif defined(TEST_STATE_LARGE)
struct Kept {
  uint8_t bytes[65'537];
};
#elif defined(TEST_STATE_LARGE_VALUE)
struct Kept {
  uint64_t words[33];
};
#elif defined(TEST_STATE_LARGE_KEY)
struct Kept {
  uint64_t words[9];
};
#endif

class Keeps final : public NetworkFunction {
  Verdict process_packet(Packet&, FlowState&) override {
    return Verdict::forward();
  }
#if defined(TEST_STATE_LARGE_KEY)
  SharedTable<Kept, uint64_t> kept_ = declare_shared<Kept, uint64_t>("kept", 1);
#elif defined(TEST_STATE_TABLE) || defined(TEST_STATE_LARGE_VALUE)
  SharedTable<uint64_t, Kept> kept_ = declare_shared<uint64_t, Kept>("kept", 1);
#else
  Slot<Kept> kept_ = declare<Kept>("kept");
#endif
};
SNF_REGISTER_NF(Keeps, "keeps", "keeps what it cannot");

}  // namespace
}  // namespace snf
