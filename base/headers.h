// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_BASE_HEADERS_H_
#define SNF_BASE_HEADERS_H_

// All header views: see header_view.h for what they share.
#include "base/ip_headers.h"    // IWYU pragma: export
#include "base/l4_headers.h"    // IWYU pragma: export
#include "base/link_headers.h"  // IWYU pragma: export

#endif  // SNF_BASE_HEADERS_H_
