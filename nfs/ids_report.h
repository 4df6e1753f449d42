// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_NFS_IDS_REPORT_H_
#define SNF_NFS_IDS_REPORT_H_

#include <cstdint>

#include "nfs/ids_eve.h"
#include "nfs/ids_options.h"
#include "runtime/sdk/nf_report.h"

namespace snf {

// Returns the report of the NF "ids": the rules with the most alerts, the
// numbers of rules, and the file of alerts if there is one. `without_room`
// alerts had no room in the table.
NfReport IdsReport(const IdsOptions& options, IdsAlerts alerts,
                   uint64_t without_room);

}  // namespace snf

#endif  // SNF_NFS_IDS_REPORT_H_
