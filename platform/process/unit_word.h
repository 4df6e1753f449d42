// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_PROCESS_UNIT_WORD_H_
#define SNF_PLATFORM_PROCESS_UNIT_WORD_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/ids.h"

namespace snf {

// Message of a process of units or loggers down its socket: a header, and
// `bytes` bytes.
struct UnitWord {
  enum class Kind : uint32_t {
    kReady,     // it takes turns from now on
    kFault,     // text: it found what cannot be, as a bad word, and ends
    kNfFailed,  // NfFailure: and it ends
    kResults,   // words of LoopResults: it has stopped
    kBlame,     // Blame: by loggers, which go on without that loop of units
    kRefused,   // text: another host refuses it or is away, and it ends
  };
  Kind kind;
  uint32_t bytes;

  struct NfFailure {
    FlowId flow;  // kNoFlow: it was for no packet
    uint64_t clock;
    PacketHandle packet;
    std::array<char, 1'012> text;  // ends with a zero
  };
  // The loop of units has said what cannot be: its process behind so many that
  // have ended.
  struct Blame {
    uint32_t loop;
    uint32_t ends;
    std::array<char, 248> text;  // ends with a zero
  };
};

// Lets this process tell words down the socket, also when an NF fails. `name`
// is the name of the process, `command` that of the program.
void BeginTelling(int socket, const char* name, const char* command);
// Tell a fault, and any word.
void TellFault(std::string_view text);
void TellWord(UnitWord::Kind kind, const void* data, size_t bytes);

}  // namespace snf

#endif  // SNF_PLATFORM_PROCESS_UNIT_WORD_H_
