// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_REAL_TIME_UNIT_PROCESS_H_
#define SNF_PLATFORM_REAL_TIME_UNIT_PROCESS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/ids.h"
#include "base/time.h"
#include "platform/process/command.h"
#include "platform/real_time/loop_region.h"
#include "runtime/live/unit_loop.h"

namespace snf {

// Where loops of units run.
enum class Isolation : uint8_t {
  kThread,     // in the process of the controller
  kProcess,    // each in a process of its own
  kContainer,  // each in a process of its own, in a container (LXC)
};

// What the process of a loop of units is told, by the same program. What it
// runs follows.
struct UnitProcessSetup {
  LoopRegion::Options region;
  UnitLoopOptions loop;  // `index` is the process's own
  Nanos nf_patience;
  Isolation isolation = Isolation::kProcess;
  // So many processes are started at once, the others when they are asked for.
  uint32_t at_once = ~uint32_t{0};
  // Each runs the NF once, with a packet of its own, before it is ready.
  bool rehearses = false;
  std::array<char, 64> command{};  // named first in messages; ends with a zero

  // The text of the NF (NfSpec), behind the files of modules, each of which
  // ends with a zero.
  std::vector<std::byte> WithNf(const std::string& nf) const;
};
static_assert(std::is_trivially_copyable_v<UnitProcessSetup>);

// Such a process tells this down its socket: a header, and so many bytes.
struct UnitWord {
  enum class Kind : uint32_t {
    kReady,     // it takes turns from now on
    kFault,     // text: a bad word came, and it ends
    kNfFailed,  // NfFailure: and it ends
    kResults,   // words of LoopResults: it has stopped
  };
  Kind kind;
  uint32_t bytes;

  struct NfFailure {
    FlowId flow;  // kNoFlow: it was for no packet
    uint64_t clock;
    PacketHandle packet;
    std::array<char, 1'012> text;  // ends with a zero
  };
};

// The command that the program is called by, as a process of units.
inline constexpr std::string_view kUnitProcessCommand = "unit-process";
// Is called with the descriptor of a launcher's socket (launcher.h), whose
// descriptors are the region and a socket for each process. Starts the
// processes, and returns when the socket is closed.
int UnitProcessMain(int socket);

}  // namespace snf

#endif  // SNF_PLATFORM_REAL_TIME_UNIT_PROCESS_H_
