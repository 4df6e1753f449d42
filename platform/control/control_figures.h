// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_CONTROL_CONTROL_FIGURES_H_
#define SNF_PLATFORM_CONTROL_CONTROL_FIGURES_H_

#include "platform/run/live_figures.h"
#include "proto/control.pb.h"

namespace snf {

// Adds the figures to the reply, and reads them back; a figure that the reader
// does not know is left out, as are times of a schedule, which live traffic
// does not have. Pure functions.
void AddFigures(const LiveFigures& figures, proto::StatusReply& reply);
LiveFigures FiguresOf(const proto::StatusReply& reply);

}  // namespace snf

#endif  // SNF_PLATFORM_CONTROL_CONTROL_FIGURES_H_
