// SPDX-License-Identifier: Apache-2.0
#include "resource_manager/live/lease_client.h"

#include <grpc/support/log.h>
#include <grpcpp/grpcpp.h>

#include <chrono>
#include <utility>

#include "proto/leases.grpc.pb.h"

namespace snf {
namespace {

absl::Status ToAbsl(const grpc::Status& status) {
  return {static_cast<absl::StatusCode>(status.error_code()),
          status.error_message()};
}

// Each has a connection of its own: a new one does not wait for the back-off of
// one that failed before.
std::shared_ptr<grpc::Channel> NewChannel(const std::string& socket) {
  gpr_set_log_function([](gpr_log_func_args*) {});
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  // One that listens and stands still is given up after so long.
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 1'000);
  return grpc::CreateCustomChannel(
      "unix:" + socket, grpc::InsecureChannelCredentials(), arguments);
}

class GrpcLeaseStream final : public LeaseStream {
 public:
  explicit GrpcLeaseStream(const std::string& socket)
      : stub_(proto::Leases::NewStub(NewChannel(socket))),
        wire_(stub_->Attend(&context_)) {}
  ~GrpcLeaseStream() override {
    context_.TryCancel();
    if (!is_finished_) wire_->Finish();
  }

  bool Send(const proto::ToManager& message) override {
    return wire_->Write(message);
  }
  bool Read(proto::ToMember& message) override { return wire_->Read(&message); }
  void Cancel() override { context_.TryCancel(); }
  absl::Status Finish() override {
    is_finished_ = true;
    return ToAbsl(wire_->Finish());
  }

 private:
  std::unique_ptr<proto::Leases::Stub> stub_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReaderWriter<proto::ToManager, proto::ToMember>>
      wire_;
  bool is_finished_ = false;
};

}  // namespace

std::unique_ptr<LeaseStream> LeaseStream::Open(const std::string& socket) {
  return std::make_unique<GrpcLeaseStream>(socket);
}

absl::StatusOr<proto::LookReply> LookAtLeases(const std::string& socket,
                                              Nanos patience) {
  const auto stub = proto::Leases::NewStub(NewChannel(socket));
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() +
                       std::chrono::nanoseconds(patience.ns));
  proto::LookReply reply;
  const grpc::Status status = stub->Look(&context, {}, &reply);
  if (!status.ok()) return ToAbsl(status);
  return reply;
}

}  // namespace snf
