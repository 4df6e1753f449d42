// SPDX-License-Identifier: Apache-2.0
#include "resource_manager/etcd/test_etcd.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "absl/strings/str_join.h"
#include "base/check.h"

namespace snf {
namespace {

std::string NameOf(size_t member) { return fmt::format("m{}", member); }

[[noreturn]] void Exec(const std::vector<std::string>& words,
                       const std::string& log) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  const int file = open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
  dup2(file, STDOUT_FILENO);
  dup2(file, STDERR_FILENO);
  std::vector<char*> arguments;
  for (const std::string& word : words) {
    arguments.push_back(const_cast<char*>(word.c_str()));
  }
  arguments.push_back(nullptr);
  execvp(arguments[0], arguments.data());
  _exit(127);
}

}  // namespace

bool TestEtcd::IsHere() {
  return std::system("command -v etcd etcdctl >/dev/null 2>&1") == 0;
}

std::string TestEtcd::FreeEndpoint() {
  const int file = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  auto* const at = reinterpret_cast<sockaddr*>(&address);
  SNF_CHECK(bind(file, at, size) == 0 && getsockname(file, at, &size) == 0);
  close(file);
  return fmt::format("127.0.0.1:{}", ntohs(address.sin_port));
}

TestEtcd::TestEtcd(const Options& options) : options_(options) {
  std::string folder =
      (std::filesystem::temp_directory_path() / "snf-etcd-XXXXXX").string();
  SNF_CHECK(mkdtemp(folder.data()) != nullptr);
  folder_ = folder;
  const auto count = static_cast<size_t>(options.members);
  for (size_t i = 0; i < count; ++i) {
    endpoints_.push_back(FreeEndpoint());
    peers_.push_back(FreeEndpoint());
  }
  pids_.resize(count, 0);
  for (size_t i = 0; i < count; ++i) Start(i);
}

TestEtcd::~TestEtcd() {
  for (size_t i = 0; i < pids_.size(); ++i) Kill(i);
  std::filesystem::remove_all(folder_);
}

void TestEtcd::Start(size_t member) {
  const std::string scheme = options_.ca_file.empty() ? "http" : "https";
  std::vector<std::string> cluster;
  for (size_t i = 0; i < peers_.size(); ++i) {
    cluster.push_back(fmt::format("{}=http://{}", NameOf(i), peers_[i]));
  }
  const std::string own = fmt::format("{}://{}", scheme, endpoints_[member]);
  const std::string peer = "http://" + peers_[member];
  std::vector<std::string> words = {
      "etcd",
      "--name=" + NameOf(member),
      fmt::format("--data-dir={}/{}", folder_, NameOf(member)),
      "--listen-client-urls=" + own,
      "--advertise-client-urls=" + own,
      "--listen-peer-urls=" + peer,
      "--initial-advertise-peer-urls=" + peer,
      "--initial-cluster=" + absl::StrJoin(cluster, ","),
      "--initial-cluster-state=new",
      "--heartbeat-interval=50",
      "--election-timeout=500",
      "--logger=zap",
      "--log-level=error"};
  if (!options_.ca_file.empty()) {
    words.push_back("--trusted-ca-file=" + options_.ca_file);
    words.push_back("--cert-file=" + options_.cert_file);
    words.push_back("--key-file=" + options_.key_file);
    words.push_back("--client-cert-auth");
  }
  const std::string log = fmt::format("{}/{}.log", folder_, NameOf(member));
  const pid_t pid = fork();
  SNF_CHECK(pid >= 0);
  if (pid == 0) Exec(words, log);
  pids_[member] = pid;
}

void TestEtcd::Signal(size_t member, int signal) {
  kill(pids_[member], signal);
}

void TestEtcd::Kill(size_t member) {
  pid_t& pid = pids_[member];
  if (pid == 0) return;
  kill(pid, SIGKILL);
  waitpid(pid, nullptr, 0);
  pid = 0;
}

void TestEtcd::Restore(const std::string& snapshot) {
  const std::string data = fmt::format("{}/{}", folder_, NameOf(0));
  std::filesystem::remove_all(data);
  Control(
      fmt::format("snapshot restore {0} --name={1} --data-dir={2} "
                  "--initial-cluster={1}=http://{3} "
                  "--initial-advertise-peer-urls=http://{3}",
                  snapshot, NameOf(0), data, peers_[0]));
  Start(0);
}

std::string TestEtcd::Control(const std::string& words) const {
  return Run(absl::StrJoin(endpoints_, ","), words);
}

size_t TestEtcd::Leader() const {
  while (true) {
    for (size_t i = 0; i < endpoints_.size(); ++i) {
      const std::string told = Run(endpoints_[i], "endpoint status");
      if (told.find(", true, false,") != std::string::npos) return i;
    }
  }
}

std::string TestEtcd::Run(const std::string& endpoints,
                          const std::string& words) {
  std::string text;
  FILE* const pipe =
      popen(fmt::format("ETCDCTL_API=3 etcdctl --endpoints={} {} 2>&1",
                        endpoints, words)
                .c_str(),
            "r");
  SNF_CHECK(pipe != nullptr);
  std::array<char, 4096> some{};
  while (fgets(some.data(), some.size(), pipe) != nullptr) text += some.data();
  pclose(pipe);
  if (text.ends_with('\n')) text.pop_back();
  return text;
}

}  // namespace snf
