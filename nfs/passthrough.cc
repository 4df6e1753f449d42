// SPDX-License-Identifier: Apache-2.0
#include "runtime/sdk/nf.h"

namespace snf {
namespace {

class Passthrough final : public NetworkFunction {
  Verdict process_packet(Packet&, FlowState&) override {
    return Verdict::forward();
  }
  bool takes_merged() const override { return true; }
};
SNF_REGISTER_NF(Passthrough, "passthrough", "forwards every packet unchanged");

}  // namespace
}  // namespace snf
