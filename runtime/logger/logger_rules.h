// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RUNTIME_LOGGER_LOGGER_RULES_H_
#define SNF_RUNTIME_LOGGER_LOGGER_RULES_H_

// SNF_LOGGER_RULE(rule, condition) marks where the logger keeps to a rule of
// proto/protocol.md §5 and §6. Its value is `condition`; nothing else is
// compiled into the product. In a build for tests, which defines
// SNF_RULES_CAN_BE_LEFT_OUT, it is false while that rule is left out: so a test
// can show that the rule is needed, and that it would notice.

#ifdef SNF_RULES_CAN_BE_LEFT_OUT

namespace snf {

enum class LoggerRule {
  kNone,
  kInOrder,           // L4: entries behind a hole wait
  kOnce,              // L3: a number counts once
  kBase,              // L2: a partial delta needs its base
  kAppliedOnce,       // L4: applied clocks are released, not applied again
  kSeal,              // F2: a sealed incarnation is refused
  kForgetOlder,       // U7: only an older copy is forgotten
  kKeepUntilTold,     // U13: messages to the controller are kept
  kUpdateOnce,        // T4: an update of a table has a number, and is kept once
  kUpdatesLogged,     // T2: a logger keeps the updates of entries that it takes
  kUpdatesThrough,    // T3: updates outlive the incarnation that made them
  kUpdatesHandedOver  // T5: a new logger gets the updates that its unit keeps
};
inline LoggerRule left_out_logger_rule = LoggerRule::kNone;

}  // namespace snf

#define SNF_LOGGER_RULE(rule, condition) \
  (::snf::left_out_logger_rule != ::snf::LoggerRule::rule && (condition))

#else

#define SNF_LOGGER_RULE(rule, condition) (condition)

#endif

#endif  // SNF_RUNTIME_LOGGER_LOGGER_RULES_H_
