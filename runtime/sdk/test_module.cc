// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <cstdlib>

#include "runtime/sdk/nf.h"

// Modules for nf_module_test.cc, one for each of these macros.
#if defined(TEST_MODULE_UNRESOLVED)
extern "C" int snf_nobody_has_this();
#elif defined(TEST_MODULE_NONE)
// A symbol whose name is as long as snf_nf_abi and visible by nf_module.map.
extern const char second asm("_ZTSsecond");
const char second = 'x';
#endif

namespace snf {
namespace {

#if defined(TEST_MODULE_OTHER_STATE)
using Kept = uint32_t;
#else
using Kept = uint64_t;
#endif

class ModuleNf final : public NetworkFunction {
  Verdict process_packet(Packet&, FlowState&) override {
    return Verdict::forward();
  }
  const Slot<Kept> packets_ = declare<Kept>("packets");
};

#if defined(TEST_MODULE_PACKED)
SNF_REGISTER_NF(ModuleNf, "module_packed", "lays out structs otherwise");
#elif defined(TEST_MODULE_PLAIN)
SNF_REGISTER_NF(ModuleNf, "module_plain", "of a module");
const int kRan = setenv("SNF_TEST_MODULE_RAN", "yes", 1);
#elif defined(TEST_MODULE_SEVERAL)
class OtherNf final : public NetworkFunction {
  Verdict process_packet(Packet&, FlowState&) override {
    return Verdict::forward();
  }
};
SNF_REGISTER_NF(ModuleNf, "module_several", "one of two");
SNF_REGISTER_NF(OtherNf, "module_other", "the other of two");
#elif defined(TEST_MODULE_LINKED) || defined(TEST_MODULE_OTHER_STATE)
SNF_REGISTER_NF(ModuleNf, "linked", "in the place of one that is linked");
#elif defined(TEST_MODULE_TOO_LARGE)
class TooLargeNf final : public NetworkFunction {
  Verdict process_packet(Packet&, FlowState&) override {
    return Verdict::forward();
  }
  const Blob past_ = declare_blob("past", StateSchema::kMaxRecordBytes);
};
SNF_REGISTER_NF(TooLargeNf, "module_too_large", "keeps more than it can");
#elif defined(TEST_MODULE_UNRESOLVED)
SNF_REGISTER_NF(ModuleNf, "unresolved", "needs what is not there");
const int kUnresolved = snf_nobody_has_this();
#endif

}  // namespace
}  // namespace snf
