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
  explicit GrpcClient(const std::string& socket)
      : stub_(proto::Control::NewStub(grpc::CreateChannel(
            "unix:" + socket, grpc::InsecureChannelCredentials()))) {}

#define SNF_CALL(name)                                                        \
  absl::StatusOr<proto::name##Reply> Ask(const proto::name##Request& request) \
      override {                                                              \
    grpc::ClientContext context;                                              \
    SetDeadline(context);                                                     \
    proto::name##Reply reply;                                                 \
    return Result(stub_->name(&context, request, &reply), std::move(reply));  \
  }
  SNF_CALL(Status)
  SNF_CALL(Units)
  SNF_CALL(Flows)
  SNF_CALL(Set)
  SNF_CALL(Drain)
  SNF_CALL(Down)
#undef SNF_CALL

 private:
  static void SetDeadline(grpc::ClientContext& context) {
    context.set_deadline(std::chrono::system_clock::now() +
                         std::chrono::nanoseconds(kPatience.ns));
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
  return std::make_unique<GrpcClient>(socket);
}

}  // namespace snf
