// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_CONTROLLER_REBUILD_LEASE_FINDER_H_
#define SNF_CONTROLLER_REBUILD_LEASE_FINDER_H_

namespace snf {

// Finds the leases of a controller that has failed, for its successor: units
// say which it has (proto/protocol.md §7). All calls are made by the thread of
// the controller's loop.
class LeaseFinder {
 public:
  virtual ~LeaseFinder() = default;

  // The controller's end was seen: what it knew of its leases is lost, and all
  // units are asked.
  virtual void on_failure() = 0;
  // Returns true once all have answered.
  virtual bool has_answers() = 0;
  // The successor has the units and flows that were reported, and no lease: it
  // is given those of the answers (Controller::on_lease, on_revoke).
  virtual void on_successor() = 0;
};

}  // namespace snf

#endif  // SNF_CONTROLLER_REBUILD_LEASE_FINDER_H_
