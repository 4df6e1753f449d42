// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_CONTROL_ETCD_FLAGS_H_
#define SNF_PLATFORM_CONTROL_ETCD_FLAGS_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "platform/process/flags.h"
#include "resource_manager/etcd/etcd_client.h"

namespace snf {

// The flags of a command that is a client of etcd. Owner-thread only.
class EtcdFlags {
 public:
  // `help` says what etcd is for.
  void AddTo(FlagSet& flags, const std::string& help);

  bool is_given() const { return !endpoints_.empty(); }
  const std::string& cluster() const { return cluster_; }
  // Errors: InvalidArgument, begins with the flag; FailedPrecondition and
  // others of the files.
  absl::StatusOr<EtcdClient::Options> Options() const;
  // As Options, and connects at the first call.
  absl::StatusOr<std::unique_ptr<EtcdClient>> Client() const;

 private:
  std::string endpoints_;
  std::string cluster_ = "default";
  std::string user_;
  std::string password_file_;
  std::string tls_;
};

}  // namespace snf

#endif  // SNF_PLATFORM_CONTROL_ETCD_FLAGS_H_
