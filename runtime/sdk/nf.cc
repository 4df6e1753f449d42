// SPDX-License-Identifier: Apache-2.0
#include "runtime/sdk/nf.h"

#include <algorithm>

#include "base/check.h"

namespace snf {
namespace {

const NfRegistration*& Head() {
  static const NfRegistration* head = nullptr;
  return head;
}

}  // namespace

NfRegistration::NfRegistration(std::string_view nf_name,
                               std::string_view nf_summary, Factory nf_factory)
    : name(nf_name), summary(nf_summary), factory(nf_factory), next(Head()) {
  SNF_CHECK(FindNf(name) == nullptr);
  Head() = this;
}

std::unique_ptr<NetworkFunction> NfRegistration::create(
    const NfOptions& options) const {
  NfOptions used = options;
  std::unique_ptr<NetworkFunction> nf = factory(used);
  SNF_CHECK(used.status().ok());
  nf->schema_.set_nf(name);
  return nf;
}

std::unique_ptr<NetworkFunction> NfRegistration::example() const {
  NfOptions none;
  std::unique_ptr<NetworkFunction> nf = factory(none);
  nf->schema_.set_nf(name);
  return nf;
}

absl::Status NfRegistration::check(const NfOptions& options) const {
  NfOptions used = options;
  factory(used);
  return used.status();
}

std::vector<NfOptions::Description> NfRegistration::options() const {
  NfOptions asked;
  factory(asked);
  return {asked.described().begin(), asked.described().end()};
}

const NfRegistration* FindNf(std::string_view name) {
  for (const NfRegistration* nf = Head(); nf != nullptr; nf = nf->next) {
    if (nf->name == name) return nf;
  }
  return nullptr;
}

std::vector<const NfRegistration*> ListNfs() {
  std::vector<const NfRegistration*> nfs;
  for (const NfRegistration* nf = Head(); nf != nullptr; nf = nf->next) {
    nfs.push_back(nf);
  }
  std::sort(nfs.begin(), nfs.end(),
            [](auto* a, auto* b) { return a->name < b->name; });
  return nfs;
}

}  // namespace snf
