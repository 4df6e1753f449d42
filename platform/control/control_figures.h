// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_CONTROL_CONTROL_FIGURES_H_
#define SNF_PLATFORM_CONTROL_CONTROL_FIGURES_H_

#include "platform/run/figures/live_figures.h"
#include "platform/run/run.h"
#include "proto/control.pb.h"

namespace snf {

// Adds the figures to the reply, and reads them back; a figure that the reader
// does not know is left out, as are times of a schedule, which live traffic
// does not have. Pure functions.
void AddFigures(const LiveFigures& figures, proto::StatusReply& reply);
LiveFigures FiguresOf(const proto::StatusReply& reply);
// The same for a port.
void SetPort(const PortFigures& from, proto::Port& to);
PortFigures PortOf(const proto::Port& from);

}  // namespace snf

#endif  // SNF_PLATFORM_CONTROL_CONTROL_FIGURES_H_
