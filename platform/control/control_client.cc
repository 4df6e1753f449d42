// SPDX-License-Identifier: Apache-2.0
#include "platform/control/control_client.h"

#include <grpc/support/log.h>
#include <grpcpp/grpcpp.h>

#include <chrono>
#include <utility>

#include "proto/control.grpc.pb.h"

namespace snf {
namespace {

class GrpcClient final : public ControlClient {
 public:
  explicit GrpcClient(const std::shared_ptr<grpc::Channel>& channel)
      : stub_(proto::Control::NewStub(channel)) {}

#define SNF_CALL(name)                                                        \
  absl::StatusOr<proto::name##Reply> Ask(const proto::name##Request& request) \
      override {                                                              \
    grpc::ClientContext context;                                              \
    SetDeadline(context, PatienceOf(request));                                \
    proto::name##Reply reply;                                                 \
    return Result(stub_->name(&context, request, &reply), std::move(reply));  \
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
  static void SetDeadline(grpc::ClientContext& context, Nanos patience) {
    context.set_deadline(std::chrono::system_clock::now() +
                         std::chrono::nanoseconds(patience.ns));
  }
  template <typename Reply>
  static absl::StatusOr<Reply> Result(const grpc::Status& status,
                                      Reply&& reply) {
    if (status.ok()) return std::move(reply);
    return absl::Status(static_cast<absl::StatusCode>(status.error_code()),
                        status.error_message());
  }

  std::unique_ptr<proto::Control::Stub> stub_;
};

}  // namespace

std::unique_ptr<ControlClient> ControlClient::Connect(
    const std::string& socket) {
  gpr_set_log_function([](gpr_log_func_args*) {});
  return std::make_unique<GrpcClient>(grpc::CreateChannel(
      "unix:" + socket, grpc::InsecureChannelCredentials()));
}

std::unique_ptr<ControlClient> ControlClient::Connect(
    const TlsEndpoint& endpoint) {
  gpr_set_log_function([](gpr_log_func_args*) {});
  const grpc::SslCredentialsOptions credentials = {
      .pem_root_certs = endpoint.files.authority,
      .pem_private_key = endpoint.files.key,
      .pem_cert_chain = endpoint.files.certificate};
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  return std::make_unique<GrpcClient>(grpc::CreateCustomChannel(
      endpoint.address.text(), grpc::SslCredentials(credentials), arguments));
}

}  // namespace snf
