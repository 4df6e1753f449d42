// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_PROCESS_NF_GUARD_H_
#define SNF_PLATFORM_PROCESS_NF_GUARD_H_

#include <string>
#include <string_view>

#include "runtime/sdk/nf_call.h"

namespace snf {

// Theory of operation. An NF is somebody else's code. What goes wrong while a
// thread is in a call of one (runtime/sdk/nf_call.h) ends the process with one
// line that names it, and with kExitNf:
//
//   snf replay: NF "quota": process_packet threw std::out_of_range: map::at;
//   packet 17, clock 3, flow udp 10.0.0.1:5000 > 192.0.2.9:53
//
// These are an exception that gets out of it, exit(), a signal that would kill
// the process (SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT), and what breaks its
// contract. The line is of one piece; unfinished files are removed. What goes
// wrong otherwise goes the way that it went before.
//
// A signal finds memory in any state: first comes the part of the line that
// needs none, and if the rest does not come within kRestOfLine, the process
// ends without it. Under sanitizers, signals but SIGABRT are theirs.

// Lets the line begin with `command` from now on; begins to guard. Threads that
// are made later call GuardThread.
void GuardNfCalls(const std::string& command);
// Reports failures to `tell` instead of stderr: the call, and a text such as
// "NF "quota": process_packet threw …". The teller runs in signal handlers,
// needs no memory then, and the process ends when it returns.
using NfFailureTeller = void (*)(const NfCall& call, std::string_view text);
void TellNfFailuresTo(NfFailureTeller tell);
// Gives the calling thread a stack for signals, so that a stack overflow can be
// reported. Without it, a thread is guarded except for that.
void GuardThread();

}  // namespace snf

#endif  // SNF_PLATFORM_PROCESS_NF_GUARD_H_
