// SPDX-License-Identifier: Apache-2.0
#include "platform/process/unit_word.h"

#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/types.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "platform/process/nf_guard.h"
#include "runtime/sdk/nf_call.h"

namespace snf {
namespace {

int told_socket = -1;  // static, for signal handlers

void SendAll(const void* data, size_t bytes) {
  const char* from = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t sent = send(told_socket, from, bytes, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return;  // the reader has closed its end
    from += sent;
    bytes -= static_cast<size_t>(sent);
  }
}

// Needs no memory.
void TellNfFailure(const NfCall& call, std::string_view text) {
  static UnitWord::NfFailure failure;
  const bool is_made = call.hook == NfCall::Hook::kConstructor;
  const PacketMeta* const meta = is_made ? nullptr : call.meta;
  failure.flow = meta != nullptr ? meta->flow : kNoFlow;
  failure.clock = meta != nullptr ? value(meta->clock) : 0;
  failure.packet = meta != nullptr ? call.packet : kNoPacket;
  const size_t size = std::min(text.size(), failure.text.size() - 1);
  std::memcpy(failure.text.data(), text.data(), size);
  failure.text[size] = '\0';
  TellWord(UnitWord::Kind::kNfFailed, &failure, sizeof(failure));
}

}  // namespace

void BeginTelling(int socket, const char* name, const char* command) {
  told_socket = socket;
  prctl(PR_SET_NAME, name);
  GuardNfCalls(command);
  TellNfFailuresTo(TellNfFailure);
}

void TellFault(std::string_view text) {
  TellWord(UnitWord::Kind::kFault, text.data(), text.size());
}

void TellWord(UnitWord::Kind kind, const void* data, size_t bytes) {
  const UnitWord word = {.kind = kind, .bytes = static_cast<uint32_t>(bytes)};
  SendAll(&word, sizeof(word));
  SendAll(data, bytes);
}

}  // namespace snf
