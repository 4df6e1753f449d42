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
std::shared_ptr<grpc::Channel> NewChannel(const LeaseAddress& address) {
  gpr_set_log_function([](gpr_log_func_args*) {});
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  // One that listens and stands still is given up after so long.
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 1'000);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  if (!address.tls.has_value()) {
    return grpc::CreateCustomChannel(
        address.target, grpc::InsecureChannelCredentials(), arguments);
  }
  const grpc::SslCredentialsOptions credentials = {
      .pem_root_certs = address.tls->authority,
      .pem_private_key = address.tls->key,
      .pem_cert_chain = address.tls->certificate};
  return grpc::CreateCustomChannel(
      address.target, grpc::SslCredentials(credentials), arguments);
}

class GrpcLeaseStream final : public LeaseStream {
 public:
  explicit GrpcLeaseStream(const LeaseAddress& address)
      : stub_(proto::Leases::NewStub(NewChannel(address))),
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

std::unique_ptr<LeaseStream> LeaseStream::Open(const LeaseAddress& address) {
  return std::make_unique<GrpcLeaseStream>(address);
}

absl::StatusOr<proto::LookReply> LookAtLeases(const LeaseAddress& address,
                                              Nanos patience) {
  const auto stub = proto::Leases::NewStub(NewChannel(address));
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() +
                       std::chrono::nanoseconds(patience.ns));
  proto::LookReply reply;
  const grpc::Status status = stub->Look(&context, {}, &reply);
  if (!status.ok()) return ToAbsl(status);
  return reply;
}

}  // namespace snf
