// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RUNTIME_SDK_NF_CALL_H_
#define SNF_RUNTIME_SDK_NF_CALL_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/ids.h"
#include "base/messages/messages.h"
#include "base/packet/flow_key.h"

namespace snf {

class NetworkFunction;
class Verdict;

// Names the packet or flow that an NF is called for. Implemented by drivers;
// may be called by a thread that runs an NF, also in a signal handler.
class NfCallNames {
 public:
  // Returns FlowKey{} for a flow that is forgotten.
  virtual FlowKey FlowOf(FlowId flow) const = 0;
  // Returns the packet's number in the capture, from 1 on, or 0 if it has none.
  virtual uint64_t NumberOf(PacketHandle packet) const = 0;

 protected:
  ~NfCallNames() = default;
};

// Looks after each NF that a packet goes through, in a chain after each of its
// NFs, whether it wrote outside of the packet, and fails it then.
class NfCallGuard {
 public:
  virtual void Check() const = 0;
  // The packet has this many bytes from now on.
  virtual void OnResize(size_t bytes) = 0;

 protected:
  ~NfCallGuard() = default;
};

// The call of an NF that a thread is in. Any failure meanwhile, an exception,
// exit() or a signal, is the NF's fault, and is reported with its name
// (platform/process/nf_guard.h). An exception must not get out of the call:
// callers are noexcept, so that it ends in std::terminate with the call still
// noted.
struct NfCall {
  enum class Hook : uint8_t {
    kNone,  // no call is under way
    kConstructor,
    kProcessPacket,
    kOnTimer,
    kOnEnd,
    kOnAliasRefused,
    kReport,
    kStates,
    kFlowKey,
    kWarnings,
  };

  bool is_under_way() const { return hook != Hook::kNone; }

  // During a call of a chain, the NF in it that is called.
  const NetworkFunction* nf = nullptr;
  const std::string_view* made = nullptr;  // names the NF of a kConstructor
  const PacketMeta* meta = nullptr;  // has the flow and its clock, if not null
  PacketHandle packet = kNoPacket;
  Hook hook = Hook::kNone;
  NfCallGuard* guard = nullptr;        // of this call, if not null
  const NfCallNames* names = nullptr;  // stays from call to call; may be null
};
extern constinit thread_local NfCall nf_call;

// Ends the process because of a fault of the NF that this thread calls; the
// handler reports `what`, such as "returned Verdict::drop(7), but …". Without a
// handler, aborts.
[[noreturn]] void FailNf(const std::string& what);
using NfFailureHandler = void (*)(const std::string& what);
void SetNfFailureHandler(NfFailureHandler handler);

// Fail the NF that this thread calls if it has fewer drop reasons or labels.
void CheckDropReason(const NetworkFunction& nf, const Verdict& verdict);
void CheckLabel(const NetworkFunction& nf, const Verdict& verdict);

// Calls `call`, a hook of the NF.
template <typename Call>
void CallNf(const NetworkFunction& nf, NfCall::Hook hook,
            const PacketMeta* meta, PacketHandle packet, Call call) noexcept {
  nf_call.nf = &nf;
  nf_call.hook = hook;
  nf_call.meta = meta;
  nf_call.packet = packet;
  call();
  nf_call.hook = NfCall::Hook::kNone;
}

}  // namespace snf

#endif  // SNF_RUNTIME_SDK_NF_CALL_H_
