// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_REPORT_CHART_H_
#define SNF_PLATFORM_REPORT_CHART_H_

#include <cstdint>
#include <span>
#include <string>

#include "base/text/terminal.h"
#include "base/time.h"
#include "platform/run/provisioning.h"

namespace snf {

// When an epoch began, in whole 100 ms since the first packet.
Nanos SinceFirstPacket(const EpochSample& sample, Instant first_packet);

// Draws demanded against provisioned bandwidth per 100 ms (SNF Fig. 1), at most
// 72 columns wide, with rates on the y axis and the time since `first_packet`
// on the x axis. Lines end with '\n'; no epoch gives "".
//
//   400 Mbit/s ┤      ▓▓▓▓▓░░░░░           █ demanded, served by ░ provisioned
//              │▅▅▅▅▅▇▇▇▇▇▅▅▅▅▅
//            0 └───────────────
//               0 s       0.2 s
//
// Few epochs are drawn several columns wide; where there are more epochs than
// columns, a column is the mean of several. Stretches of more than a second in
// which nothing happened are cut out, and that is said below the chart.
// `epochs` are in the order of time. If `unit_capacity_bps` is 0, units have no
// capacity, and only what was demanded is drawn. A pure function; O(epochs).
std::string BandwidthChart(std::span<const EpochSample> epochs,
                           Instant first_packet, int64_t unit_capacity_bps,
                           const Terminal& terminal);

}  // namespace snf

#endif  // SNF_PLATFORM_REPORT_CHART_H_
