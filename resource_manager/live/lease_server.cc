// SPDX-License-Identifier: Apache-2.0
#include "resource_manager/live/lease_server.h"

#include <fmt/format.h>
#include <grpc/support/log.h>
#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/health_check_service_interface.h>
#include <sys/stat.h>

#include <atomic>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "base/messages/controller_counts.h"
#include "proto/leases.grpc.pb.h"

namespace snf {
namespace {

constexpr auto kLongestLook = std::chrono::seconds(40);
constexpr int kMostStreams = kMostControllers;  // one of each member
constexpr int kHandshakeMs = 5'000;

// Writes what waits by a thread of its own: a member that stands still makes
// nobody else wait.
class Stream final : public MemberStream {
 public:
  using Wire = grpc::ServerReaderWriter<proto::ToMember, proto::ToManager>;

  Stream(grpc::ServerContext& context, Wire& wire)
      : context_(&context), writer_([this, &wire] { Write(wire); }) {}
  ~Stream() override { Close(); }

  void Send(proto::ToMember message) override {
    const std::lock_guard lock(mutex_);
    if (is_closed_ || is_ending_) return;
    if (waiting_.size() >= kMostWaiting) {
      context_->TryCancel();
      return;
    }
    waiting_.push_back(std::move(message));
    changed_.notify_all();
  }
  void End() override {
    const std::lock_guard lock(mutex_);
    is_ending_ = true;
    changed_.notify_all();
  }
  // Lets go of the wire. Called by the thread that reads.
  void Close() {
    {
      const std::lock_guard lock(mutex_);
      is_closed_ = true;
      changed_.notify_all();
    }
    if (writer_.joinable()) writer_.join();
  }

 private:
  void Write(Wire& wire) {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [this] {
        return is_closed_ || is_ending_ || !waiting_.empty();
      });
      if (is_closed_) return;
      if (waiting_.empty()) break;
      const proto::ToMember message = std::move(waiting_.front());
      waiting_.pop_front();
      lock.unlock();
      const bool is_written = wire.Write(message);
      lock.lock();
      if (!is_written) return;
    }
    // The member hangs up: a reset could overtake the last message.
    changed_.wait_for(lock, std::chrono::seconds(1),
                      [this] { return is_closed_; });
    if (!is_closed_) context_->TryCancel();
  }

  grpc::ServerContext* const context_;  // until Close
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<proto::ToMember> waiting_ ABSL_GUARDED_BY(mutex_);
  bool is_ending_ ABSL_GUARDED_BY(mutex_) = false;
  bool is_closed_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread writer_;
};

class Service final : public proto::Leases::Service {
 public:
  Service(LeaseHandler& handler, const std::optional<LeasePort>& port)
      : handler_(handler), port_(port) {}

  grpc::Status Attend(grpc::ServerContext* context,
                      Stream::Wire* wire) override {
    if (!MayCall(*context)) return Stranger();
    if (members_.fetch_add(1) >= kMostStreams) {
      --members_;
      return {grpc::StatusCode::RESOURCE_EXHAUSTED,
              fmt::format("{} members are there already", kMostControllers)};
    }
    const auto stream = std::make_shared<Stream>(*context, *wire);
    proto::ToManager message;
    while (wire->Read(&message)) handler_.on_message(stream, message);
    stream->Close();
    handler_.on_end(stream);
    --members_;
    return grpc::Status::OK;
  }

  grpc::Status Look(grpc::ServerContext* context,
                    const proto::LookRequest* /*request*/,
                    proto::LookReply* reply) override {
    if (!MayCall(*context)) return Stranger();
    using std::chrono::steady_clock;
    const auto now = std::chrono::system_clock::now();
    const auto end = std::min(context->deadline(), now + kLongestLook);
    const absl::Status status = handler_.Look(
        steady_clock::now() +
            std::chrono::duration_cast<steady_clock::duration>(end - now),
        *reply);
    if (status.ok()) return grpc::Status::OK;
    return {static_cast<grpc::StatusCode>(status.code()),
            std::string(status.message())};
  }

 private:
  // A client at the socket is this user, and shows no certificate.
  bool MayCall(const grpc::ServerContext& context) const {
    if (context.peer().starts_with("unix:")) return true;
    std::vector<std::string> uris;
    for (const grpc::string_ref& uri :
         context.auth_context()->FindPropertyValues(
             GRPC_PEER_URI_PROPERTY_NAME)) {
      uris.emplace_back(uri.data(), uri.size());
    }
    return port_.has_value() && port_->may_call(uris);
  }
  static grpc::Status Stranger() {
    return {grpc::StatusCode::PERMISSION_DENIED,
            "the certificate does not let its owner lease units: snf cert "
            "--role=admin makes another one"};
  }

  LeaseHandler& handler_;
  const std::optional<LeasePort> port_;
  std::atomic<int> members_ = 0;
};

class GrpcLeaseServer final : public LeaseServer {
 public:
  GrpcLeaseServer(LeaseHandler& handler, const std::optional<LeasePort>& port)
      : service_(handler, port) {}
  ~GrpcLeaseServer() override {
    if (server_ != nullptr) server_->Shutdown(std::chrono::system_clock::now());
  }

  bool Listen(const std::string& socket, const std::optional<LeasePort>& port) {
    constexpr int kLooks = 16;
    grpc::ResourceQuota quota("snf leases");
    quota.SetMaxThreads(kMostStreams + kLooks);
    grpc::ServerBuilder builder;
    builder.SetResourceQuota(quota);
    builder.SetMaxReceiveMessageSize(kMostBytes);
    builder.SetSyncServerOption(grpc::ServerBuilder::SyncServerOption::NUM_CQS,
                                1);
    builder.SetSyncServerOption(
        grpc::ServerBuilder::SyncServerOption::MAX_POLLERS, 2);
    builder.AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, 8 * 1024);
    builder.AddListeningPort("unix:" + socket,
                             grpc::InsecureServerCredentials());
    if (port.has_value()) {
      // Another process could take a part of the streams.
      builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
      builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS,
                                 kHandshakeMs);
      builder.AddListeningPort(port->address.target,
                               Credentials(*port->address.tls));
    }
    builder.RegisterService(&service_);
    const mode_t before = umask(0177);
    server_ = builder.BuildAndStart();
    umask(before);
    return server_ != nullptr;
  }

 private:
  static std::shared_ptr<grpc::ServerCredentials> Credentials(
      const LeaseTls& tls) {
    grpc::SslServerCredentialsOptions options(
        GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
    options.pem_root_certs = tls.authority;
    options.pem_key_cert_pairs.push_back(
        {.private_key = tls.key, .cert_chain = tls.certificate});
    return grpc::SslServerCredentials(options);
  }

  Service service_;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<LeaseServer>> LeaseServer::Start(
    const std::string& socket, LeaseHandler& handler,
    const std::optional<LeasePort>& port) {
  gpr_set_log_function([](gpr_log_func_args*) {});
  grpc::EnableDefaultHealthCheckService(true);
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  auto server = std::make_unique<GrpcLeaseServer>(handler, port);
  if (!server->Listen(socket, port)) {
    return absl::UnavailableError(fmt::format(
        "{}: cannot listen there",
        port.has_value() ? socket + ", or " + port->address.target : socket));
  }
  return server;
}

}  // namespace snf
