// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_BASE_PACKET_HEADERS_H_
#define SNF_BASE_PACKET_HEADERS_H_

// All header views: see header_view.h for what they share.
#include "base/packet/ip_headers.h"    // IWYU pragma: export
#include "base/packet/l4_headers.h"    // IWYU pragma: export
#include "base/packet/link_headers.h"  // IWYU pragma: export

#endif  // SNF_BASE_PACKET_HEADERS_H_
