// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RUNTIME_CORE_RULES_H_
#define SNF_RUNTIME_CORE_RULES_H_

// SNF_RULE(rule, condition, otherwise) marks where the code keeps to a rule of
// proto/protocol.md §4. Its value is `condition`; nothing else is compiled into
// the product. In a build for tests, which defines SNF_RULES_CAN_BE_LEFT_OUT,
// its value is `otherwise` while that rule is left out: so a test can show that
// the rule is needed, and that it would notice.

#ifdef SNF_RULES_CAN_BE_LEFT_OUT

namespace snf {

enum class Rule {
  kNone,
  kU1,
  kU2,
  kU4,
  kU5,
  kU6,
  kU7,
  kU8,
  kU11,  // the timer is part of the state
  kU13,
  kU16,  // a shown state is taken only for the clock behind it
  kF5,   // the same, of a unit that has failed
  kHandedOver,
  kGivenBack,  // U13: a piece that is given back is free once that is released
};
inline Rule left_out_rule = Rule::kNone;

}  // namespace snf

#define SNF_RULE(rule, condition, otherwise) \
  (::snf::left_out_rule == ::snf::Rule::rule ? (otherwise) : (condition))

#else

#define SNF_RULE(rule, condition, otherwise) (condition)

#endif

#endif  // SNF_RUNTIME_CORE_RULES_H_
