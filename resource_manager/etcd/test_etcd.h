// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RESOURCE_MANAGER_ETCD_TEST_ETCD_H_
#define SNF_RESOURCE_MANAGER_ETCD_TEST_ETCD_H_

#include <sys/types.h>

#include <string>
#include <vector>

namespace snf {

// A cluster of etcd servers on loopback, with its data in a temporary folder.
// The servers end with the object, and with the thread that made it.
class TestEtcd {
 public:
  struct Options {
    int members = 1;
    // PEM files; empty: no TLS. Clients then need a certificate as well.
    std::string ca_file{}, cert_file{}, key_file{};
  };

  // Returns false if this machine has no etcd.
  static bool IsHere();
  // Returns a port of loopback that was free a moment ago.
  static std::string FreeEndpoint();

  TestEtcd() : TestEtcd(Options{}) {}
  explicit TestEtcd(const Options& options);
  ~TestEtcd();
  TestEtcd(const TestEtcd&) = delete;
  TestEtcd& operator=(const TestEtcd&) = delete;

  const std::vector<std::string>& endpoints() const { return endpoints_; }
  const std::string& folder() const { return folder_; }

  void Signal(size_t member, int signal);  // SIGSTOP, SIGCONT
  void Kill(size_t member);
  // Starts a member that was killed, with its data.
  void Start(size_t member);
  // Starts the only member, which was killed, with the data of a snapshot.
  void Restore(const std::string& snapshot);
  // Runs etcdctl; returns its output, without the last line's end.
  std::string Control(const std::string& words) const;
  // Waits for a leader; returns its place among the members.
  size_t Leader() const;

 private:
  static std::string Run(const std::string& endpoints,
                         const std::string& words);

  Options options_;
  std::string folder_;
  std::vector<std::string> endpoints_;
  std::vector<std::string> peers_;
  std::vector<pid_t> pids_;
};

}  // namespace snf

#endif  // SNF_RESOURCE_MANAGER_ETCD_TEST_ETCD_H_
