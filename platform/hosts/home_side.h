// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_HOSTS_HOME_SIDE_H_
#define SNF_PLATFORM_HOSTS_HOME_SIDE_H_

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "platform/hosts/geneve_link.h"
#include "platform/hosts/host_place.h"
#include "platform/hosts/host_stream.h"
#include "runtime/mirror/loop_mirror.h"

namespace snf {

// Stands for a process of units that runs on another host: the launcher of the
// daemon starts this process in its place. So all rules for processes of units
// hold for hosts as well: a lost host is a process that has ended.
//
//   daemon ⇄ memory ⇄ this process ⇄ TCP ⇄ agent's session ⇄ memory ⇄ units
//
// With HostWire::kGeneve frames of the mirrors go over a GeneveLink, all else
// over TCP.
//
// Thread-compatible; one object in a process.
class HomeSide {
 public:
  struct Options {
    std::string host;     // its name
    std::string address;  // ADDRESS:PORT of its agent
    HostWire wire = HostWire::kTcp;
    std::string tls;       // a directory for ReadTlsFiles; "": no encryption
    int word_socket = -1;  // to which the process of units tells its words
    size_t longest_entry = 0;
  };
  HomeSide(Options options, MirrorParts parts);

  // Connects, and asks the agent to start the process of units; `setup` says
  // which. Errors name the host; the agent's own reason is among them.
  absl::Status Begin(std::span<const std::byte> setup);
  // Carries everything until the process of units has ended. Then this process
  // ends in the same way; if the host is lost, with kExitUnavailable.
  [[noreturn]] void Run();

 private:
  absl::Status Named(const absl::Status& status) const;
  absl::StatusOr<HostStream::Received> Expect(HostFrame kind, Nanos patience);
  absl::Status Connect();
  absl::Status AnswerPings();
  absl::Status OpenLink();
  void TellCounts() const;
  [[noreturn]] void Lose(const absl::Status& status);
  [[noreturn]] static void EndLike(int status);
  void TellWord(std::span<const std::byte> bytes) const;

  Options options_;
  LoopProgress* progress_;
  Doorbell* units_bell_;
  LoopMirror mirror_;
  std::optional<HostStream> stream_;
  std::unique_ptr<GeneveLink> link_;  // null: all goes over the stream
};

}  // namespace snf

#endif  // SNF_PLATFORM_HOSTS_HOME_SIDE_H_
