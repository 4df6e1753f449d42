// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RUNTIME_SDK_NF_REGISTRY_H_
#define SNF_RUNTIME_SDK_NF_REGISTRY_H_

#include <vector>

#include "runtime/sdk/nf.h"

namespace snf {

// Catches the NFs that register while it lives: FindNf and ListNfs do not know
// them until Add. Only one may live at a time. For the loading of modules.
class CaughtNfs {
 public:
  CaughtNfs();
  ~CaughtNfs();
  CaughtNfs(const CaughtNfs&) = delete;
  CaughtNfs& operator=(const CaughtNfs&) = delete;

  // The caught NFs, in the order of registration.
  const std::vector<const NfRegistration*>& nfs() const { return nfs_; }
  // Makes them known; each replaces an NF of the same name.
  void Add();

 private:
  friend struct NfRegistration;
  std::vector<const NfRegistration*> nfs_;
};

}  // namespace snf

#endif  // SNF_RUNTIME_SDK_NF_REGISTRY_H_
