// SPDX-License-Identifier: Apache-2.0
#include "platform/control/control_server.h"

#include <fmt/format.h>
#include <grpc/grpc_security_constants.h>
#include <grpc/support/log.h>
#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/health_check_service_interface.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <utility>
#include <vector>

#include "platform/control/control_access.h"
#include "proto/control.grpc.pb.h"

namespace snf {
namespace {

using std::chrono::steady_clock;
using std::chrono::system_clock;

// As long as WhyNotReachable waits: who says nothing keeps a descriptor.
constexpr int kHandshakeMs = 2'000;

// Connections from elsewhere may be many. If it fails, there is room for fewer.
void AllowAllDescriptors() {
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

// A deadline on the wall's clock, as gRPC has it.
ControlHandler::Deadline DeadlineOf(const grpc::ServerContext& context) {
  constexpr auto kMost = std::chrono::seconds(ControlServer::kMostSeconds);
  const auto now = system_clock::now();
  // Without one it is so late that a sum would overflow.
  const auto end = std::min(context.deadline(), now + kMost);
  return steady_clock::now() +
         std::chrono::duration_cast<steady_clock::duration>(end - now);
}

// Codes of both have the same numbers.
grpc::Status ToGrpc(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  return {static_cast<grpc::StatusCode>(status.code()),
          std::string(status.message())};
}

// Only clients at the unix socket have none, whatever they say.
ControlClientRole RoleOfClient(const grpc::ServerContext& context) {
  if (context.peer().starts_with("unix:")) return std::nullopt;
  std::vector<std::string> uris;
  for (const grpc::string_ref& uri : context.auth_context()->FindPropertyValues(
           GRPC_PEER_URI_PROPERTY_NAME)) {
    uris.emplace_back(uri.data(), uri.size());
  }
  return RoleOf(uris);
}

class Service final : public proto::Control::Service {
 public:
  explicit Service(ControlHandler& handler) : handler_(handler) {}

#define SNF_CALL(name)                                                \
  grpc::Status name(grpc::ServerContext* context,                     \
                    const proto::name##Request* request,              \
                    proto::name##Reply* reply) override {             \
    return Answer(*context, *request, *reply, &ControlHandler::name); \
  }
  SNF_CALL(Status)
  SNF_CALL(Units)
  SNF_CALL(Flows)
  SNF_CALL(Rules)
  SNF_CALL(Capture)
  SNF_CALL(Set)
  SNF_CALL(Drain)
  SNF_CALL(Kill)
  SNF_CALL(Chain)
  SNF_CALL(Upgrade)
  SNF_CALL(Down)
#undef SNF_CALL

 private:
  template <typename Request, typename Reply>
  grpc::Status Answer(const grpc::ServerContext& context,
                      const Request& request, Reply& reply,
                      absl::Status (ControlHandler::*call)(
                          ControlHandler::Deadline, const Request&, Reply&)) {
    if (under_way_.fetch_add(1) >= ControlServer::kMostCalls) {
      --under_way_;
      return {grpc::StatusCode::RESOURCE_EXHAUSTED,
              fmt::format("{} calls are under way already",
                          ControlServer::kMostCalls)};
    }
    absl::Status status = CheckAccess(RoleOfClient(context), request);
    if (status.ok()) {
      status = (handler_.*call)(DeadlineOf(context), request, reply);
    }
    --under_way_;
    return ToGrpc(status);
  }

  ControlHandler& handler_;
  std::atomic<int> under_way_ = 0;
};

class GrpcServer final : public ControlServer {
 public:
  explicit GrpcServer(ControlHandler& handler) : service_(handler) {}
  ~GrpcServer() override {
    if (server_ != nullptr) {
      // A daemon that gives its place on waits for this, and so do packets.
      constexpr auto kOfCalls = std::chrono::milliseconds(100);
      server_->Shutdown(system_clock::now() + kOfCalls);
    }
  }

  // Returns where it cannot listen; "" if it does.
  std::string Listen(const std::string& socket,
                     const std::optional<TlsEndpoint>& tcp) {
    // A few more than there may be calls, which are refused by them.
    constexpr int kThreads = kMostCalls + 8;
    grpc::ResourceQuota quota("snf control");
    quota.SetMaxThreads(kThreads);
    grpc::ServerBuilder builder;
    builder.SetResourceQuota(quota);
    builder.SetMaxReceiveMessageSize(kMostBytes);
    builder.SetSyncServerOption(grpc::ServerBuilder::SyncServerOption::NUM_CQS,
                                1);
    builder.SetSyncServerOption(
        grpc::ServerBuilder::SyncServerOption::MAX_POLLERS, 2);
    builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, 2 * kMostCalls);
    builder.AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, 8 * 1024);
    int has_socket = 0;
    builder.AddListeningPort("unix:" + socket,
                             grpc::InsecureServerCredentials(), &has_socket);
    if (tcp.has_value()) {
      AllowAllDescriptors();
      // Another process could take a part of the calls.
      builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
      builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS,
                                 kHandshakeMs);
      builder.AddListeningPort(tcp->address.text(), Credentials(tcp->files));
    }
    builder.RegisterService(&service_);
    const mode_t before = umask(0177);
    server_ = builder.BuildAndStart();
    umask(before);
    if (server_ != nullptr) return "";
    return has_socket != 0 && tcp.has_value() ? tcp->address.text() : socket;
  }

 private:
  static std::shared_ptr<grpc::ServerCredentials> Credentials(
      const TlsFiles& files) {
    grpc::SslServerCredentialsOptions options(
        GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
    options.pem_root_certs = files.authority;
    options.pem_key_cert_pairs.push_back(
        {.private_key = files.key, .cert_chain = files.certificate});
    return grpc::SslServerCredentials(options);
  }

  Service service_;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<ControlServer>> ControlServer::Start(
    const std::string& socket, const std::optional<TlsEndpoint>& tcp,
    ControlHandler& handler) {
  gpr_set_log_function([](gpr_log_func_args*) {});
  grpc::EnableDefaultHealthCheckService(true);
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  auto server = std::make_unique<GrpcServer>(handler);
  const std::string where_not = server->Listen(socket, tcp);
  if (!where_not.empty()) {
    return absl::UnavailableError(
        fmt::format("{}: cannot listen there", where_not));
  }
  return server;
}

}  // namespace snf
