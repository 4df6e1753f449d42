// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_CONTROLLER_LIVE_LOOP_TABLES_H_
#define SNF_CONTROLLER_LIVE_LOOP_TABLES_H_

#include "base/ids.h"
#include "base/time.h"
#include "controller/core/controller.h"
#include "controller/live/loop_links.h"
#include "runtime/tables/table_homes.h"
#include "runtime/tables/table_message.h"

namespace snf {

// The homes of the NF's shared tables, in a controller's loop: takes messages
// of replicas and of loggers, and sends the answers by the links. Updates come
// from loggers if loops of units may end; other updates come from units. A unit
// that has failed hears nothing more.
//
// Owner-thread only.
class LoopTables {
 public:
  // The controller and the links must outlive the object.
  LoopTables(TableHomes homes, const Controller& controller)
      : homes_(std::move(homes)), controller_(controller) {}

  TableHomes& homes() { return homes_; }
  const TableHomes& homes() const { return homes_; }

  // Takes a message of a unit, or of its logger.
  void Take(Instant now, const TableMessage& message, LoopLinks& links);
  // Does what is due.
  void RunTimers(Instant now, LoopLinks& links);

 private:
  void Answer(const TableMessage& answer, LoopLinks& links);
  void SendToUnit(const TableMessage& message, LoopLinks& links);

  TableHomes homes_;
  const Controller& controller_;
};

}  // namespace snf

#endif  // SNF_CONTROLLER_LIVE_LOOP_TABLES_H_
