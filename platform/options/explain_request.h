// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_OPTIONS_EXPLAIN_REQUEST_H_
#define SNF_PLATFORM_OPTIONS_EXPLAIN_REQUEST_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/packet/flow_key.h"

namespace snf {

// The flows whose story --explain asks for.
struct ExplainRequest {
  enum class Kind : uint8_t {
    kNothing,
    kFlows,      // `flows`
    kTop,        // the `top` flows that have the most bytes
    kWorstWait,  // the flow whose packet was held longest
  };
  Kind kind = Kind::kNothing;
  std::vector<FlowKey> flows = {};
  size_t top = 0;
  std::string text = {};  // as on the command line
};

// Returns true if a pass over the captures, or a run, has to find the flow that
// the text of --explain means.
bool ExplainsAfterAPass(std::string_view text);

// Says what a flow is in a run.
struct FlowForm {
  FlowKeyKind kind = FlowKeyKind::kConnection;
  bool is_inside_end = false;  // of an NF that has two sides
  std::string nf_flag;         // "--nf=nat": for errors
};

// Reads the text of --explain; an empty one asks for nothing. Errors are
// InvalidArgument and begin with the flag.
absl::StatusOr<ExplainRequest> ParseExplain(const std::string& text,
                                            const FlowForm& form);

}  // namespace snf

#endif  // SNF_PLATFORM_OPTIONS_EXPLAIN_REQUEST_H_
