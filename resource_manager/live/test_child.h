// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RESOURCE_MANAGER_LIVE_TEST_CHILD_H_
#define SNF_RESOURCE_MANAGER_LIVE_TEST_CHILD_H_

#include "resource_manager/live/process_watch.h"

namespace snf {

// A process that does nothing until it is killed, in whose name a test talks to
// a resource manager.
class TestChild {
 public:
  TestChild();
  ~TestChild() { Kill(); }
  TestChild(const TestChild&) = delete;
  TestChild& operator=(const TestChild&) = delete;

  ProcessId id() const { return id_; }
  // Returns once it has ended.
  void Kill();

 private:
  ProcessId id_;
};

}  // namespace snf

#endif  // SNF_RESOURCE_MANAGER_LIVE_TEST_CHILD_H_
