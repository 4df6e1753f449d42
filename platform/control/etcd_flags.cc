// SPDX-License-Identifier: Apache-2.0
#include "platform/control/etcd_flags.h"

#include <fmt/format.h>

#include <utility>

#include "base/text_file.h"
#include "platform/service/tls_files.h"

namespace snf {

void EtcdFlags::AddTo(FlagSet& flags, const std::string& help) {
  flags.Text("etcd", endpoints_, "HOST:PORT,…",
             help + ". The endpoints are tried in this order");
  flags.Text("cluster", cluster_, "NAME",
             "name of the cluster, whose keys in etcd begin with /snf/NAME/");
  flags.Text("etcd_user", user_, "NAME",
             "user of etcd. Without this flag: no authentication");
  flags.Text("etcd_password_file", password_file_, "FILE",
             "file whose first line is the password of --etcd_user");
  flags.Text("etcd_tls", tls_, "DIRECTORY",
             "connect by TLS, with ca.crt, client.crt and client.key of this "
             "directory, as snf cert makes them. Without this flag: no TLS");
}

absl::StatusOr<EtcdClient::Options> EtcdFlags::Options() const {
  auto endpoints = ReadEndpoints(endpoints_);
  if (!endpoints.ok()) {
    return absl::InvalidArgumentError(
        fmt::format("--etcd: {}", std::string(endpoints.status().message())));
  }
  EtcdClient::Options options = {.endpoints = *std::move(endpoints),
                                 .user = user_};
  if (user_.empty() != password_file_.empty()) {
    return absl::InvalidArgumentError(
        "--etcd_user: wants --etcd_password_file, which wants --etcd_user");
  }
  if (!password_file_.empty()) {
    constexpr size_t kMostBytes = 4'096;
    auto text = ReadTextFile(password_file_, kMostBytes);
    if (!text.ok()) return text.status();
    options.password = text->substr(0, text->find('\n'));
  }
  if (!tls_.empty()) {
    // Looks whether the files fit together; etcd's client reads them again.
    const auto files = ReadTlsFiles(tls_, TlsEnd::kClient);
    if (!files.ok()) return files.status();
    options.ca_file = tls_ + "/ca.crt";
    options.cert_file = tls_ + "/client.crt";
    options.key_file = tls_ + "/client.key";
  }
  return options;
}

absl::StatusOr<std::unique_ptr<EtcdClient>> EtcdFlags::Client() const {
  const absl::StatusOr<EtcdClient::Options> options = Options();
  if (!options.ok()) return options.status();
  return EtcdClient::Create(*options);
}

}  // namespace snf
