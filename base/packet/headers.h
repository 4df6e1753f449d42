// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_BASE_PACKET_HEADERS_H_
#define SNF_BASE_PACKET_HEADERS_H_

// Includes all header views; header_view.h describes the part that they share.
#include "base/packet/ip_headers.h"    // IWYU pragma: export
#include "base/packet/l4_headers.h"    // IWYU pragma: export
#include "base/packet/link_headers.h"  // IWYU pragma: export

#endif  // SNF_BASE_PACKET_HEADERS_H_
