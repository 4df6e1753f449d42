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

#include "absl/base/thread_annotations.h"
#include "base/messages/controller_counts.h"
#include "proto/leases.grpc.pb.h"

namespace snf {
namespace {

constexpr auto kLongestLook = std::chrono::seconds(40);
constexpr int kMostStreams = kMostControllers;  // one of each member

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
  explicit Service(LeaseHandler& handler) : handler_(handler) {}

  grpc::Status Attend(grpc::ServerContext* context,
                      Stream::Wire* wire) override {
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
  LeaseHandler& handler_;
  std::atomic<int> members_ = 0;
};

class GrpcLeaseServer final : public LeaseServer {
 public:
  explicit GrpcLeaseServer(LeaseHandler& handler) : service_(handler) {}
  ~GrpcLeaseServer() override {
    if (server_ != nullptr) server_->Shutdown(std::chrono::system_clock::now());
  }

  bool Listen(const std::string& socket) {
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
    builder.RegisterService(&service_);
    const mode_t before = umask(0177);
    server_ = builder.BuildAndStart();
    umask(before);
    return server_ != nullptr;
  }

 private:
  Service service_;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<LeaseServer>> LeaseServer::Start(
    const std::string& socket, LeaseHandler& handler) {
  gpr_set_log_function([](gpr_log_func_args*) {});
  grpc::EnableDefaultHealthCheckService(true);
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  auto server = std::make_unique<GrpcLeaseServer>(handler);
  if (!server->Listen(socket)) {
    return absl::UnavailableError(
        fmt::format("{}: cannot listen there", socket));
  }
  return server;
}

}  // namespace snf
