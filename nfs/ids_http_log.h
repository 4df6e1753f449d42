// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_NFS_IDS_HTTP_LOG_H_
#define SNF_NFS_IDS_HTTP_LOG_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "nfs/snort/http_message.h"
#include "runtime/sdk/state.h"

namespace snf {

// Theory of operation. Requests and answers of HTTP are joined to transactions,
// in their order. The parts of a request wait in a blob of its flow until the
// header of the answer has come. Parts are texts, each behind its number and
// length; long texts are cut.
//
//   blob       { bytes, 2 each  parts }  of each request
//   parts      { number, 1 each  bytes, 1 each  text }
//
// Example: "GET /a" waits as 10 bytes, 3 "GET" … 2 "/a"; "200" joins it, and
// the transaction is told. If requests need more room than the blob has, the
// oldest one is told without an answer.
//
// Owner-thread only.
class IdsHttpLog {
 public:
  using OnDone = absl::FunctionRef<void(std::string_view parts)>;
  // The most that waits, so that the end of a flow tells all in one batch.
  static constexpr uint32_t kMaxBytes = 1'024;  // of the blob
  static constexpr size_t kMaxWaiting = 12;

  // Notes the header of a message that has come whole.
  void Note(const snort::HttpHeader& header);
  void Forget() { noted_.clear(); }
  // Joins the noted messages to the flow's requests, and calls on_done for each
  // transaction that is complete, or has no room to wait.
  void Join(FlowState& flow, Blob waiting, OnDone on_done);
  // Calls on_done for the requests without an answer.
  static void End(FlowState& flow, Blob waiting, OnDone on_done);

 private:
  struct Message {
    bool is_request;
    std::string parts;
  };
  std::vector<Message> noted_;
};

// Returns a transaction's parts as an object of JSON. Bytes that are no parts
// are left out.
std::string IdsHttpJson(std::span<const std::byte> parts);

}  // namespace snf

#endif  // SNF_NFS_IDS_HTTP_LOG_H_
