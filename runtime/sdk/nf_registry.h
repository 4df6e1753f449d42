// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RUNTIME_SDK_NF_REGISTRY_H_
#define SNF_RUNTIME_SDK_NF_REGISTRY_H_

#include <vector>

#include "runtime/sdk/nf.h"

namespace snf {

// While it lives, NFs that register are caught: not known to FindNf and
// ListNfs until Add. One at a time; for what loads modules.
class CaughtNfs {
 public:
  CaughtNfs();
  ~CaughtNfs();
  CaughtNfs(const CaughtNfs&) = delete;
  CaughtNfs& operator=(const CaughtNfs&) = delete;

  // In the order of registration.
  const std::vector<const NfRegistration*>& nfs() const { return nfs_; }
  // Makes them known, each in the place of one of its name.
  void Add();

 private:
  friend struct NfRegistration;
  std::vector<const NfRegistration*> nfs_;
};

}  // namespace snf

#endif  // SNF_RUNTIME_SDK_NF_REGISTRY_H_
