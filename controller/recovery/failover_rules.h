// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_CONTROLLER_RECOVERY_FAILOVER_RULES_H_
#define SNF_CONTROLLER_RECOVERY_FAILOVER_RULES_H_

// SNF_FAILOVER_RULE(rule, condition, otherwise) marks where the controller
// keeps to a rule of proto/protocol.md §6. Its value is `condition`; nothing
// else is compiled into the product. In a build for tests, which defines
// SNF_RULES_CAN_BE_LEFT_OUT, its value is `otherwise` while that rule is left
// out: so a test can show that the rule is needed, and that it would notice.

#ifdef SNF_RULES_CAN_BE_LEFT_OUT

namespace snf {

enum class FailoverRule {
  kNone,
  kWait,        // F2: nothing is re-routed before all have answered
  kSurvivors,   // F3: survivors are asked, not only loggers
  kOldLoggers,  // F3: so are loggers that were sealed earlier
  kLost,        // F1, F4: lost clocks are re-routed
  kDone,        // F4: done clocks are not re-routed
  kNull,        // F4: a flow without lost clocks is moved by a null packet
  kSource,      // F5: the state of a failed unit is at its logger
  kRedirect,    // F6: the unit that holds the next clock is redirected
  kAlias,       // U9: aliases of lost clocks are withdrawn
  kPiecesLast,  // F10: pieces come back behind that
  kEnds,        // U11: an end that no logger has comes again
  kForget,      // U7: Takeovers are sent in place of a failed unit
};
inline FailoverRule left_out_failover_rule = FailoverRule::kNone;

}  // namespace snf

#define SNF_FAILOVER_RULE(rule, condition, otherwise)                       \
  (::snf::left_out_failover_rule == ::snf::FailoverRule::rule ? (otherwise) \
                                                              : (condition))

#else

#define SNF_FAILOVER_RULE(rule, condition, otherwise) (condition)

#endif

#endif  // SNF_CONTROLLER_RECOVERY_FAILOVER_RULES_H_
