// SPDX-License-Identifier: Apache-2.0
#include "controller/sdk/policy.h"

namespace snf {
namespace {

std::vector<const PolicyRegistration*>& Registered() {
  static std::vector<const PolicyRegistration*> registered;
  return registered;
}

}  // namespace

PolicyRegistration::PolicyRegistration(std::string_view policy_name,
                                       std::string_view policy_help,
                                       Factory policy_factory)
    : name(policy_name), help(policy_help), factory(policy_factory) {
  Registered().push_back(this);
}

const std::vector<const PolicyRegistration*>& RegisteredPolicies() {
  return Registered();
}

}  // namespace snf
