// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_COMMANDS_NF_NF_DESCRIPTION_H_
#define SNF_PLATFORM_COMMANDS_NF_NF_DESCRIPTION_H_

#include <span>
#include <string>

#include "runtime/sdk/nf.h"

namespace snf {

// Returns name and summary of each NF, in a line of at most 80 columns.
std::string ListOf(std::span<const NfRegistration* const> nfs);
// Returns the same as one JSON array of objects: name, summary.
std::string JsonListOf(std::span<const NfRegistration* const> nfs);

// Describes an NF from its own declarations: its flow scope, labels, options,
// drop reasons, counters, state of a flow, pools and shared tables, all without
// options given. Lines have at most 80 columns.
std::string DescriptionOf(const NfRegistration& nf);
// Returns the same as one JSON object: name, summary, flow_scope (connection,
// inside_endpoint), has_timer, labels, options (key, values, default, help),
// drop_reasons, counters (name, help), state (schema_hash: 16 hexadecimal
// digits, record_bytes, slots: name, offset, bytes, is_blob), pools (name,
// first, last), tables (name, key_bytes, value_bytes, max_entries).
std::string JsonDescriptionOf(const NfRegistration& nf);

// Returns the hash of the NF's state as 16 hexadecimal digits.
std::string SchemaHashOf(const NetworkFunction& nf);

}  // namespace snf

#endif  // SNF_PLATFORM_COMMANDS_NF_NF_DESCRIPTION_H_
