// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_NFS_IDS_EVENTS_H_
#define SNF_NFS_IDS_EVENTS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/messages/log_batch.h"
#include "base/packet/flow_key.h"
#include "nfs/ids_connection.h"
#include "nfs/snort/rule_set.h"

namespace snf {

// Defects of a stream, a message, fragments or headers. Each is a counter, and
// an event of the type anomaly.
enum class IdsAnomaly : uint8_t {
  kMidstream,
  kGap,
  kMemcap,
  kOverlap,
  kHttpHeaderTooLong,
  kHttpBodyCut,
  kHttpMalformed,
  kFragmentOverlap,
  kFragmentTooLarge,
  kFragmentMemcap,
  kTooManyExtensions,
};
inline constexpr size_t kIdsAnomalies = 11;

struct IdsAnomalyText {
  std::string_view counter;
  std::string_view help;  // of the counter
  std::string_view type;  // in EVE
  // Names in EVE: of IPv4 and IPv6 for type decode, to the server and to the
  // client for other types.
  std::array<std::string_view, 2> events;
};
const IdsAnomalyText& TextOf(IdsAnomaly anomaly);

// A set of types of events.
struct IdsEventTypes {
  bool flow = false;
  bool http = false;
  bool anomaly = false;
  bool flowbits = false;  // as metadata of alerts and flows
};

// The begin of a log record of an event. Of kFlow, the connection and its
// flowbits follow; of kHttp, a transaction (ids_http_log.h).
struct IdsEventHead {
  enum Kind : uint8_t { kFlow, kHttp, kAnomaly };
  FlowKey ends;
  uint64_t begin_ns = 0;  // of the flow
  Kind kind = kFlow;
  IdsAnomaly anomaly{};
  uint8_t to_client = 0;
  uint8_t zero = 0;
  uint32_t transaction = 0;  // its number in the connection
};
static_assert(sizeof(IdsEventHead) == 56 &&
              std::has_unique_object_representations_v<IdsEventHead>);

// Returns the bytes of a record that begins with `head`.
std::vector<std::byte> IdsEventRecord(const IdsEventHead& head,
                                      std::span<const std::byte> first = {},
                                      std::span<const std::byte> second = {});

// Appends a record of an event as a line of EVE JSON (Suricata 7). Appends
// nothing for bytes that are no record.
void WriteIdsEvent(const snort::RuleSet& set, const LogRecord& record,
                   std::string& lines);

// Returns the names of the bits that are set as an object of JSON; "" if none
// is.
std::string FlowbitsJson(const snort::RuleSet& set,
                         std::span<const std::byte> bits);

}  // namespace snf

#endif  // SNF_NFS_IDS_EVENTS_H_
