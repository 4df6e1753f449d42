// SPDX-License-Identifier: Apache-2.0
#include "runtime/sdk/nf_call.h"

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "runtime/sdk/nf.h"

namespace snf {
namespace {

NfFailureHandler handler = nullptr;

}  // namespace

constinit thread_local NfCall nf_call;

void FailNf(const std::string& what) {
  if (handler != nullptr) handler(what);
  internal::CheckFailed(__FILE__, __LINE__, what.c_str());
}

void CheckDropReason(const NetworkFunction& nf, const Verdict& verdict) {
  const size_t reasons = nf.drop_reasons().size();
  if (verdict.reason() < reasons) return;
  FailNf(absl::StrCat("returned Verdict::drop(", verdict.reason(),
                      "), but drop_reasons() has ", reasons));
}

void CheckLabel(const NetworkFunction& nf, const Verdict& verdict) {
  const size_t labels = nf.labels().size();
  if (verdict.label() == 0 || verdict.label() < labels) return;
  FailNf(absl::StrCat("returned Verdict::forward(", verdict.label(),
                      "), but labels() has ", labels));
}

void SetNfFailureHandler(NfFailureHandler new_handler) {
  handler = new_handler;
}

namespace internal {

void CheckSetTimer() {
  if (!nf_call.is_under_way() || nf_call.nf->has_timer()) return;
  FailNf("called set_timer, but has_timer() is false");
}

void CheckSetAlias() {
  if (!nf_call.is_under_way()) return;
  if (nf_call.hook != NfCall::Hook::kProcessPacket) {
    FailNf("called set_alias outside of process_packet");
  }
  if (nf_call.nf->flow_scope() != FlowScope::kInsideEndpoint) {
    FailNf(
        nf_call.nf->flow_scope() == FlowScope::kConnection
            ? "called set_alias, but its flow_scope() is kConnection: only "
              "inside endpoints have aliases"
            : "called set_alias, but its flow_scope() is kOwnKey: only inside "
              "endpoints have aliases");
  }
}

void NoteResize(size_t bytes) {
  if (nf_call.guard != nullptr) nf_call.guard->OnResize(bytes);
}

void RefuseFrame(size_t bytes) {
  if (!nf_call.is_under_way()) return;
  FailNf(absl::StrCat("emitted a frame of ", bytes, " bytes: want at most ",
                      FlowState::kMaxFrameBytes));
}

}  // namespace internal
}  // namespace snf
