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
                               std::string_view nf_summary,
                               std::unique_ptr<NetworkFunction> (*nf_create)())
    : name(nf_name), summary(nf_summary), create(nf_create), next(Head()) {
  SNF_CHECK(FindNf(name) == nullptr);
  Head() = this;
}

uint64_t NetworkFunction::HashOfName(std::string_view name) {
  uint64_t hash = 0xcbf2'9ce4'8422'2325;  // FNV-1a
  for (const char c : name) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100'0000'01b3;
  }
  return hash;
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
