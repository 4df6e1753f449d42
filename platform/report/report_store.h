// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_REPORT_REPORT_STORE_H_
#define SNF_PLATFORM_REPORT_REPORT_STORE_H_

#include "base/text/page.h"
#include "platform/run/run.h"

namespace snf {

// Adds the external store's part of the text report: requests, and how fast the
// store answered. Adds nothing without requests.
void AddStore(const StoreFigures& store, Page& page);

}  // namespace snf

#endif  // SNF_PLATFORM_REPORT_REPORT_STORE_H_
