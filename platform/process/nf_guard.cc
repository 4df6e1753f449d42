// SPDX-License-Identifier: Apache-2.0
#include "platform/process/nf_guard.h"

#include <cxxabi.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <string_view>
#include <typeinfo>

#include "base/packet/flow_key_text.h"
#include "platform/process/exit_code.h"
#include "runtime/sdk/nf.h"
#include "runtime/sdk/nf_call.h"
#include "traces/byte_sink.h"

namespace snf {
namespace {

constexpr unsigned kRestOfLine = 2;  // seconds
constexpr size_t kStackBytes = 64 * 1024;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr std::array kSignals = {SIGABRT};  // others are the sanitizer's
#else
constexpr std::array kSignals = {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL};
#endif

// Is static, for signal handlers.
std::array<char, 64> command_name = {"snf"};
std::terminate_handler terminate_before = nullptr;
NfFailureTeller teller = nullptr;

// A line of limited length that needs no memory.
class Line {
 public:
  [[gnu::format(printf, 2, 3)]] void Add(const char* format, ...) {
    va_list arguments;
    va_start(arguments, format);
    const int added = std::vsnprintf(text_.data() + size_, text_.size() - size_,
                                     format, arguments);
    va_end(arguments);
    if (added > 0) {
      size_ = std::min(size_ + static_cast<size_t>(added), text_.size() - 1);
    }
  }
  std::string_view text() const { return {text_.data(), size_}; }
  void Write() {
    // A closed stderr cannot be reported.
    [[maybe_unused]] const auto written =
        write(STDERR_FILENO, text_.data(), size_);
    size_ = 0;
  }

 private:
  std::array<char, 2'048> text_{};
  size_t size_ = 0;
};

const char* InWords(NfCall::Hook hook) {
  switch (hook) {
    case NfCall::Hook::kProcessPacket:
      return "process_packet";
    case NfCall::Hook::kOnTimer:
      return "on_timer";
    case NfCall::Hook::kOnEnd:
      return "on_end";
    case NfCall::Hook::kOnAliasRefused:
      return "on_alias_refused";
    case NfCall::Hook::kReport:
      return "report";
    case NfCall::Hook::kStates:
      return "states";
    case NfCall::Hook::kFlowKey:
      return "flow_key";
    case NfCall::Hook::kWarnings:
      return "warnings";
    default:
      return "its constructor";
  }
}

// Needs no memory.
void AddWhat(const NfCall& call, const char* what, Line& line) {
  const bool is_made = call.hook == NfCall::Hook::kConstructor;
  const std::string_view name = is_made ? *call.made : call.nf->name();
  line.Add("NF \"%.*s\": %s %s", static_cast<int>(name.size()), name.data(),
           InWords(call.hook), what);
}

void AddCall(const NfCall& call, const char* what, Line& line) {
  line.Add("%s%s: ", isatty(STDERR_FILENO) != 0 ? "\r\033[K" : "",
           command_name.data());
  AddWhat(call, what, line);
  if (call.hook == NfCall::Hook::kConstructor || call.meta == nullptr) return;
  const uint64_t number = call.names == nullptr || call.packet == kNoPacket
                              ? 0
                              : call.names->NumberOf(call.packet);
  if (number != 0) {
    line.Add("; packet %llu,", static_cast<unsigned long long>(number));
  } else {
    line.Add(";");
  }
  line.Add(" clock %llu", static_cast<unsigned long long>(call.meta->clock));
}

// Needs memory.
void AddFlow(const NfCall& call, Line& line) {
  if (call.hook == NfCall::Hook::kConstructor || call.meta == nullptr ||
      call.names == nullptr) {
    return;
  }
  const FlowKey key = call.names->FlowOf(call.meta->flow);
  if (key != FlowKey{}) line.Add(", flow %s", ToString(key).c_str());
}

[[noreturn]] void GiveUp(int /*signal*/) {
  [[maybe_unused]] const auto written = write(STDERR_FILENO, "\n", 1);
  _exit(kExitNf);
}

[[noreturn]] void End(const char* what) {
  // Only the first of several failing threads reports.
  static std::atomic<bool> is_ending = false;
  static pthread_t ending;
  if (is_ending.exchange(true)) {
    while (pthread_equal(ending, pthread_self()) == 0) pause();
    _exit(kExitNf);
  }
  ending = pthread_self();
  for (const int signal : kSignals) std::signal(signal, GiveUp);
  std::signal(SIGALRM, GiveUp);
  alarm(kRestOfLine);
  const NfCall call = nf_call;
  Line line;
  if (teller != nullptr) {
    AddWhat(call, what, line);
    teller(call, line.text());
    _exit(kExitNf);
  }
  AddCall(call, what, line);
  line.Write();
  const auto lock = ByteSink::RemovePartialFiles();
  AddFlow(call, line);
  line.Add("\n");
  line.Write();
  _exit(kExitNf);
}

void OnFailure(const std::string& what) { End(what.c_str()); }

void OnExit() {
  if (nf_call.is_under_way()) End("called exit()");
}

std::string NameOf(const std::type_info& type) {
  int status = 0;
  char* const name =
      abi::__cxa_demangle(type.name(), nullptr, nullptr, &status);
  std::string text = status == 0 ? name : type.name();
  std::free(name);
  return text;
}

std::string CurrentException() {
  const std::exception_ptr exception = std::current_exception();
  if (exception == nullptr) return "called std::terminate()";
  try {
    std::rethrow_exception(exception);
  } catch (const std::exception& error) {
    return "threw " + NameOf(typeid(error)) + ": " + error.what();
  } catch (...) {
    const std::type_info* const type = abi::__cxa_current_exception_type();
    return "threw " + (type == nullptr ? "something" : NameOf(*type));
  }
}

[[noreturn]] void OnTerminate() {
  if (nf_call.is_under_way()) End(CurrentException().c_str());
  if (terminate_before != nullptr) terminate_before();
  std::abort();
}

const char* NameOf(int signal) {
  switch (signal) {
    case SIGSEGV:
      return "SIGSEGV";
    case SIGBUS:
      return "SIGBUS";
    case SIGFPE:
      return "SIGFPE";
    case SIGILL:
      return "SIGILL";
    default:
      return "SIGABRT";
  }
}

// The action was to reset itself: a signal that is not from an NF is raised
// again, with its original action.
void OnSignal(int signal, siginfo_t* info, void* /*context*/) {
  if (!nf_call.is_under_way()) {
    // A fault comes again by itself; others are sent once more.
    if (info->si_code <= 0) raise(signal);
    return;
  }
  std::array<char, 80> text;
  if (signal == SIGABRT) {
    std::snprintf(text.data(), text.size(), "was ended by SIGABRT");
  } else {
    std::snprintf(text.data(), text.size(), "was ended by %s at address %p",
                  NameOf(signal), info->si_addr);
  }
  End(text.data());
}

void Install() {
  SetNfFailureHandler(OnFailure);
  terminate_before = std::set_terminate(OnTerminate);
  std::atexit(OnExit);
  std::at_quick_exit(OnExit);
  struct sigaction action = {};
  action.sa_sigaction = OnSignal;
  action.sa_flags =
      SA_SIGINFO | SA_ONSTACK | SA_NODEFER | static_cast<int>(SA_RESETHAND);
  sigemptyset(&action.sa_mask);
  for (const int signal : kSignals) sigaction(signal, &action, nullptr);
}

// Lives as long as its thread.
class SignalStack {
 public:
  SignalStack() {
    stack_.ss_sp = mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    stack_.ss_size = kStackBytes;
    if (stack_.ss_sp != MAP_FAILED) sigaltstack(&stack_, nullptr);
  }
  SignalStack(const SignalStack&) = delete;
  SignalStack& operator=(const SignalStack&) = delete;
  ~SignalStack() {
    if (stack_.ss_sp == MAP_FAILED) return;
    stack_t none = {};
    none.ss_flags = SS_DISABLE;
    sigaltstack(&none, nullptr);
    munmap(stack_.ss_sp, kStackBytes);
  }

 private:
  stack_t stack_ = {};
};

}  // namespace

void GuardNfCalls(const std::string& command) {
  const size_t size = std::min(command.size(), command_name.size() - 1);
  std::memcpy(command_name.data(), command.data(), size);
  command_name[size] = '\0';
  static const bool is_installed = [] {
    Install();
    return true;
  }();
  static_cast<void>(is_installed);
  GuardThread();
}

void TellNfFailuresTo(NfFailureTeller tell) { teller = tell; }

void GuardThread() {
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  static thread_local SignalStack stack;
  static_cast<void>(stack);
#endif
}

}  // namespace snf
