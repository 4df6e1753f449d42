// SPDX-License-Identifier: Apache-2.0
//
// An NF whose module does, as soon as it is loaded, what a module has no right
// to: wherever its code runs with the rights of SNF, a file says so.
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <fstream>
#include <string>

#include "runtime/sdk/nf.h"

namespace snf {
namespace {

// Returns what the calling process may do that a module may not.
std::string Rights() {
  std::string rights;
  if (const int file = open("/etc/passwd", O_RDONLY | O_CLOEXEC); file >= 0) {
    rights += " reads";
    close(file);
  }
  if (const int made = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
      made >= 0) {
    rights += " connects";
    close(made);
  }
  if (const pid_t child = fork(); child == 0) {
    _exit(0);
  } else if (child > 0) {
    rights += " forks";
  }
  return rights;
}

const std::string at_load = Rights();

class Trespasser final : public NetworkFunction {
 public:
  explicit Trespasser(NfOptions& options)
      : mark_(options.Text("mark", "/tmp/snf-trespasser", "PATH, written",
                           "gets a line from each process that may write")),
        rules_(options.Load<std::string>("rules", "a file that it reads",
                                         &ReadFirstLine)),
        own_key_(options.Choice("key", 0, kKeys, "whose flow key it is")) {
    std::ofstream mark(mark_, std::ios::app);
    mark << name_of_process() << ": made;" << at_load << ";" << Rights()
         << std::endl;
  }

  Verdict process_packet(Packet&, FlowState& flow) override {
    flow.put(packets_, flow.get(packets_) + 1);
    count(may_, at_load.empty() && Rights().empty() ? 0 : 1);
    count(has_rules_, rules_ != nullptr && *rules_ == "one rule" ? 1 : 0);
    return Verdict::forward();
  }
  FlowScope flow_scope() const override {
    return own_key_ == 1 ? FlowScope::kOwnKey : FlowScope::kConnection;
  }

 private:
  static constexpr std::string_view kKeys[] = {"plain", "own"};

  static absl::StatusOr<std::string> ReadFirstLine(const std::string& file) {
    std::ifstream from(file);
    std::string line;
    if (std::getline(from, line)) return line;
    return absl::InvalidArgumentError(file + ": it has no line");
  }
  static std::string name_of_process() {
    std::string name;
    std::ifstream("/proc/self/comm") >> name;
    return name.empty() ? "?" : name;
  }

  const std::string mark_;
  const std::shared_ptr<const std::string> rules_;
  const size_t own_key_;
  Slot<uint64_t> packets_ = declare<uint64_t>("packets");
  Counter may_ = declare_counter("may", "packets at which it may do something");
  Counter has_rules_ = declare_counter("has_rules", "packets with its rules");
};
SNF_REGISTER_NF(Trespasser, "trespasser", "does what a module may not");

}  // namespace
}  // namespace snf
