// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_CONTROLLER_REBUILD_LEASE_FINDER_H_
#define SNF_CONTROLLER_REBUILD_LEASE_FINDER_H_

namespace snf {

// Finds the leases of a failed controller for its successor, by asking units
// (proto/protocol.md §7). All calls come from the thread of the controller's
// loop.
class LeaseFinder {
 public:
  virtual ~LeaseFinder() = default;

  // The controller's failure was seen, its knowledge of leases is lost: asks
  // all units.
  virtual void on_failure() = 0;
  // Returns true once all units have answered.
  virtual bool has_answers() = 0;
  // The successor has the units and flows that were reported, and no lease:
  // gives it the leases of the answers (Controller::on_lease, on_revoke).
  virtual void on_successor() = 0;
};

}  // namespace snf

#endif  // SNF_CONTROLLER_REBUILD_LEASE_FINDER_H_
