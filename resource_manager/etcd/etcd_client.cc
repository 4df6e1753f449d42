// SPDX-License-Identifier: Apache-2.0
// The only file that includes gRPC here: it takes half a minute to compile.
#include "resource_manager/etcd/etcd_client.h"

#include <fmt/format.h>
#include <grpc/support/log.h>
#include <grpc/support/time.h>
#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "base/text/wording.h"
#include "base/text_file.h"
#include "proto/etcd.grpc.pb.h"
#include "runtime/ring/real_clock.h"

namespace snf {
namespace {

namespace pb = etcdserverpb;

// Pairs that one answer may have: so an answer stays below gRPC's limit of 4
// MiB where a value has up to 8 KiB.
constexpr int64_t kPairsOfPage = 500;
constexpr size_t kMostFile = 1 << 20;
constexpr auto kWaitOfRound = std::chrono::milliseconds(50);
constexpr Nanos kPulse = Milliseconds(500);

struct Endpoint {
  std::string name;
  std::unique_ptr<pb::KV::Stub> kv;
  std::unique_ptr<pb::Lease::Stub> lease;
  std::unique_ptr<pb::Watch::Stub> watch;
  std::unique_ptr<pb::Auth::Stub> auth;
};

// Is not moved by who sets the machine's clock.
gpr_timespec DeadlineAfter(Nanos time) {
  return gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
                      gpr_time_from_nanos(time.ns, GPR_TIMESPAN));
}

// The end of the range of keys that begin with the prefix.
std::string EndOf(std::string prefix) {
  while (!prefix.empty() && prefix.back() == '\xff') prefix.pop_back();
  if (prefix.empty()) return std::string(1, '\0');  // no end
  prefix.back() = static_cast<char>(prefix.back() + 1);
  return prefix;
}

EtcdPair PairOf(const pb::KeyValue& from) {
  return {.key = from.key(),
          .value = from.value(),
          .create_revision = from.create_revision(),
          .mod_revision = from.mod_revision(),
          .lease = from.lease()};
}

// Returns true if another endpoint may answer. Errors of a member's own, as
// while its leader changes, have the code UNKNOWN: "context deadline exceeded",
// "raft proposal dropped". All errors of a call have another code.
bool IsOfEndpoint(const grpc::Status& status) {
  return status.error_code() == grpc::StatusCode::UNKNOWN ||
         status.error_code() == grpc::StatusCode::UNAVAILABLE ||
         status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED ||
         status.error_code() == grpc::StatusCode::CANCELLED;
}

// Returns true if a new token may help.
bool IsOfToken(const grpc::Status& status) {
  return status.error_code() == grpc::StatusCode::UNAUTHENTICATED ||
         status.error_message().find("revision of auth store is old") !=
             std::string::npos;
}

absl::Status ToAbsl(const grpc::Status& status, const Endpoint& endpoint) {
  if (status.ok()) return absl::OkStatus();
  return {static_cast<absl::StatusCode>(status.error_code()),
          fmt::format("etcd at {}: {}", endpoint.name,
                      Printable(status.error_message()))};
}

absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> CredentialsOf(
    const EtcdClient::Options& options) {
  if (options.ca_file.empty()) return grpc::InsecureChannelCredentials();
  grpc::SslCredentialsOptions files;
  const std::pair<const std::string&, std::string&> wanted[] = {
      {options.ca_file, files.pem_root_certs},
      {options.cert_file, files.pem_cert_chain},
      {options.key_file, files.pem_private_key}};
  for (const auto& [file, text] : wanted) {
    if (file.empty()) continue;
    absl::StatusOr<std::string> read = ReadTextFile(file, kMostFile);
    if (!read.ok()) return read.status();
    text = *std::move(read);
  }
  return grpc::SslCredentials(files);
}

absl::Status Check(const EtcdClient::Options& options) {
  const auto refuse = [](const char* why) {
    return absl::InvalidArgumentError(fmt::format("etcd: {}", why));
  };
  if (options.endpoints.empty()) return refuse("there is no endpoint");
  if (options.cert_file.empty() != options.key_file.empty()) {
    return refuse("a certificate needs its key, and a key its certificate");
  }
  if (!options.cert_file.empty() && options.ca_file.empty()) {
    return refuse("a certificate needs the authority's, which is missing");
  }
  if (options.user.empty() && !options.password.empty()) {
    return refuse("a password needs a user");
  }
  return absl::OkStatus();
}

// Opens a new channel, which has no back-off yet, and connects as soon as a
// call waits.
std::shared_ptr<Endpoint> Connect(
    const std::string& name,
    const std::shared_ptr<grpc::ChannelCredentials>& credentials) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  const auto channel = grpc::CreateCustomChannel(name, credentials, arguments);
  return std::make_shared<Endpoint>(
      Endpoint{.name = name,
               .kv = pb::KV::NewStub(channel),
               .lease = pb::Lease::NewStub(channel),
               .watch = pb::Watch::NewStub(channel),
               .auth = pb::Auth::NewStub(channel)});
}

class GrpcEtcdClient final : public EtcdClient {
 public:
  GrpcEtcdClient(const Options& options,
                 std::shared_ptr<grpc::ChannelCredentials> credentials)
      : options_(options),
        credentials_(std::move(credentials)),
        current_(Connect(options.endpoints.front(), credentials_)) {}

  absl::StatusOr<std::optional<EtcdPair>> Get(const std::string& key) override {
    pb::RangeRequest request;
    request.set_key(key);
    const auto reply = Range(request);
    if (!reply.ok()) return reply.status();
    if (reply->kvs_size() == 0) return std::optional<EtcdPair>();
    return PairOf(reply->kvs(0));
  }

  absl::StatusOr<EtcdRange> List(const std::string& prefix) override {
    pb::RangeRequest request;
    request.set_key(prefix);
    request.set_range_end(EndOf(prefix));
    request.set_limit(kPairsOfPage);
    EtcdRange range;
    while (true) {
      const auto reply = Range(request);
      if (!reply.ok()) return reply.status();
      for (const pb::KeyValue& pair : reply->kvs()) {
        range.pairs.push_back(PairOf(pair));
      }
      if (range.revision == 0) range.revision = reply->header().revision();
      if (!reply->more() || reply->kvs_size() == 0) return range;
      // The following pages are of the same revision.
      request.set_revision(range.revision);
      request.set_key(range.pairs.back().key + '\0');
    }
  }

  absl::StatusOr<EtcdOutcome> Transact(
      const std::vector<EtcdCondition>& conditions,
      const std::vector<EtcdChange>& changes) override {
    const pb::TxnRequest request = RequestOf(conditions, changes);
    pb::TxnResponse reply;
    const absl::Status status =
        Call([&](Endpoint& at, grpc::ClientContext& context) {
          return at.kv->Txn(&context, request, &reply);
        });
    if (!status.ok()) return status;
    EtcdOutcome outcome = {.is_done = reply.succeeded(),
                           .revision = reply.header().revision()};
    if (outcome.is_done) return outcome;
    for (const pb::ResponseOp& response : reply.responses()) {
      for (const pb::KeyValue& pair : response.response_range().kvs()) {
        outcome.found.push_back(PairOf(pair));
      }
    }
    return outcome;
  }

  absl::StatusOr<EtcdLease> Grant(Nanos time) override {
    constexpr int64_t kSecond = 1'000'000'000;
    pb::LeaseGrantRequest request;
    request.set_ttl((time.ns + kSecond - 1) / kSecond);
    pb::LeaseGrantResponse reply;
    const absl::Status status =
        Call([&](Endpoint& at, grpc::ClientContext& context) {
          return at.lease->LeaseGrant(&context, request, &reply);
        });
    if (!status.ok()) return status;
    const Nanos granted = Seconds(reply.ttl());
    return EtcdLease{.id = reply.id(), .granted = granted, .left = granted};
  }

  absl::StatusOr<Nanos> KeepAlive(int64_t lease) override {
    pb::LeaseKeepAliveRequest request;
    request.set_id(lease);
    pb::LeaseKeepAliveResponse reply;
    const absl::Status status =
        Call([&](Endpoint& at, grpc::ClientContext& context) {
          const auto stream = at.lease->LeaseKeepAlive(&context);
          const bool is_answered =
              stream->Write(request) && stream->Read(&reply);
          stream->WritesDone();
          if (!is_answered) return stream->Finish();
          context.TryCancel();
          stream->Finish();
          return grpc::Status::OK;
        });
    if (!status.ok()) return status;
    if (reply.ttl() > 0) return Seconds(reply.ttl());
    return absl::NotFoundError(
        fmt::format("etcd: lease {:x} has ended", lease));
  }

  absl::Status Revoke(int64_t lease) override {
    pb::LeaseRevokeRequest request;
    request.set_id(lease);
    pb::LeaseRevokeResponse reply;
    const absl::Status status =
        Call([&](Endpoint& at, grpc::ClientContext& context) {
          return at.lease->LeaseRevoke(&context, request, &reply);
        });
    return absl::IsNotFound(status) ? absl::OkStatus() : status;
  }

  absl::StatusOr<EtcdLease> Look(int64_t lease) override {
    pb::LeaseTimeToLiveRequest request;
    request.set_id(lease);
    pb::LeaseTimeToLiveResponse reply;
    const absl::Status status =
        Call([&](Endpoint& at, grpc::ClientContext& context) {
          return at.lease->LeaseTimeToLive(&context, request, &reply);
        });
    if (!status.ok()) return status;
    if (reply.ttl() < 0) {
      return absl::NotFoundError(
          fmt::format("etcd: lease {:x} has ended", lease));
    }
    return EtcdLease{.id = lease,
                     .granted = Seconds(reply.granted_ttl()),
                     .left = Seconds(reply.ttl())};
  }

  std::unique_ptr<EtcdWatch> Watch(const std::string& prefix,
                                   EtcdWatcher& watcher) override;

  EtcdCounters counters() const override {
    const std::lock_guard lock(mutex_);
    return counters_;
  }

  // For watches.

  const Options& options() const { return options_; }
  void Count(uint64_t EtcdCounters::*counter) {
    const std::lock_guard lock(mutex_);
    ++(counters_.*counter);
  }
  std::shared_ptr<Endpoint> current() const {
    const std::lock_guard lock(mutex_);
    return current_;
  }
  // Goes to the next endpoint, unless another thread has done so.
  void Leave(const std::shared_ptr<Endpoint>& at) {
    const std::lock_guard lock(mutex_);
    ++counters_.failed;
    if (current_ != at) return;
    place_ = (place_ + 1) % options_.endpoints.size();
    current_ = Connect(options_.endpoints[place_], credentials_);
  }
  // Readies a context for a call: with a token, where one is wanted, and so
  // that an endpoint without a leader refuses.
  grpc::Status Prepare(Endpoint& at, grpc::ClientContext& context, Nanos time);
  void ForgetToken() {
    const std::lock_guard lock(mutex_);
    token_.clear();
  }

 private:
  using Ask = std::function<grpc::Status(Endpoint&, grpc::ClientContext&)>;

  absl::Status Call(const Ask& ask);
  absl::StatusOr<pb::RangeResponse> Range(const pb::RangeRequest& request) {
    pb::RangeResponse reply;
    const absl::Status status =
        Call([&](Endpoint& at, grpc::ClientContext& context) {
          return at.kv->Range(&context, request, &reply);
        });
    if (!status.ok()) return status;
    return reply;
  }
  static pb::TxnRequest RequestOf(const std::vector<EtcdCondition>& conditions,
                                  const std::vector<EtcdChange>& changes);

  const Options options_;
  const std::shared_ptr<grpc::ChannelCredentials> credentials_;
  mutable std::mutex mutex_;
  size_t place_ ABSL_GUARDED_BY(mutex_) = 0;  // among the endpoints
  std::shared_ptr<Endpoint> current_ ABSL_GUARDED_BY(mutex_);
  std::string token_ ABSL_GUARDED_BY(mutex_);
  EtcdCounters counters_ ABSL_GUARDED_BY(mutex_);
};

pb::TxnRequest GrpcEtcdClient::RequestOf(
    const std::vector<EtcdCondition>& conditions,
    const std::vector<EtcdChange>& changes) {
  pb::TxnRequest request;
  for (const EtcdCondition& condition : conditions) {
    pb::Compare& compare = *request.add_compare();
    compare.set_result(pb::Compare::EQUAL);
    compare.set_target(pb::Compare::MOD);
    compare.set_key(condition.key);
    compare.set_mod_revision(condition.mod_revision);
    request.add_failure()->mutable_request_range()->set_key(condition.key);
  }
  for (const EtcdChange& change : changes) {
    pb::RequestOp& op = *request.add_success();
    if (!change.value.has_value()) {
      op.mutable_request_delete_range()->set_key(change.key);
      continue;
    }
    pb::PutRequest& put = *op.mutable_request_put();
    put.set_key(change.key);
    put.set_value(*change.value);
    put.set_lease(change.lease);
  }
  return request;
}

grpc::Status GrpcEtcdClient::Prepare(Endpoint& at, grpc::ClientContext& context,
                                     Nanos time) {
  context.AddMetadata("hasleader", "true");
  if (options_.user.empty()) return grpc::Status::OK;
  std::string token;
  {
    const std::lock_guard lock(mutex_);
    token = token_;
  }
  if (token.empty()) {
    grpc::ClientContext own;
    own.set_deadline(DeadlineAfter(time));
    pb::AuthenticateRequest request;
    request.set_name(options_.user);
    request.set_password(options_.password);
    pb::AuthenticateResponse reply;
    grpc::Status status = at.auth->Authenticate(&own, request, &reply);
    if (!status.ok()) return status;
    token = reply.token();
    const std::lock_guard lock(mutex_);
    token_ = token;
    ++counters_.tokens;
  }
  context.AddMetadata("token", token);
  return grpc::Status::OK;
}

absl::Status GrpcEtcdClient::Call(const Ask& ask) {
  Count(&EtcdCounters::calls);
  const Instant end = RealClock::Monotonic() + options_.patience;
  bool has_new_token = false;
  for (size_t tried = 1;; ++tried) {
    const std::shared_ptr<Endpoint> at = current();
    const Nanos left = end - RealClock::Monotonic();
    const Nanos time = std::clamp(left, Milliseconds(1), options_.attempt);
    grpc::ClientContext context;
    context.set_deadline(DeadlineAfter(time));
    grpc::Status status = Prepare(*at, context, time);
    if (status.ok()) status = ask(*at, context);
    if (status.ok()) return absl::OkStatus();
    if (!options_.user.empty() && IsOfToken(status) && !has_new_token) {
      has_new_token = true;
      ForgetToken();
      continue;
    }
    if (!IsOfEndpoint(status)) return ToAbsl(status, *at);
    Leave(at);
    if (RealClock::Monotonic() >= end) {
      Count(&EtcdCounters::given_up);
      return absl::UnavailableError(
          fmt::format("no endpoint of etcd answers; {}: {}", at->name,
                      Printable(status.error_message())));
    }
    if (tried % options_.endpoints.size() == 0) {
      std::this_thread::sleep_for(kWaitOfRound);
    }
  }
}

// Reads on a thread of its own. Another one sends a request for progress every
// kPulse, so that an endpoint that stands still is noticed.
class GrpcEtcdWatch final : public EtcdWatch {
 public:
  GrpcEtcdWatch(GrpcEtcdClient& client, std::string prefix,
                EtcdWatcher& watcher)
      : client_(client),
        prefix_(std::move(prefix)),
        watcher_(watcher),
        thread_([this] { Run(); }) {}
  ~GrpcEtcdWatch() override {
    {
      const std::lock_guard lock(mutex_);
      stops_ = true;
      if (context_ != nullptr) context_->TryCancel();
      changed_.notify_all();
    }
    thread_.join();
  }

 private:
  using Stream = grpc::ClientReaderWriter<pb::WatchRequest, pb::WatchResponse>;

  void Run() {
    while (!stops()) {
      if (next_ == 0 && !ReadAll()) {
        Wait(kPulse);
        continue;
      }
      const std::shared_ptr<Endpoint> at = client_.current();
      const grpc::Status status = Follow(*at);
      if (stops()) return;
      if (IsOfToken(status)) client_.ForgetToken();
      if (next_ == 0) continue;
      client_.Leave(at);
      client_.Count(&EtcdCounters::resumed);
      Wait(IsOfEndpoint(status) ? Milliseconds(50) : kPulse);
    }
  }

  bool ReadAll() {
    const absl::StatusOr<EtcdRange> range = client_.List(prefix_);
    if (!range.ok() || stops()) return false;
    if (range->revision < latest_) client_.Count(&EtcdCounters::went_back);
    latest_ = range->revision;
    next_ = range->revision + 1;
    watcher_.on_all(*range);
    return true;
  }

  // Returns once the stream has broken, or `next_` is 0: read the range again.
  grpc::Status Follow(Endpoint& at) {
    grpc::ClientContext context;
    grpc::Status status =
        client_.Prepare(at, context, client_.options().attempt);
    if (!status.ok()) return status;
    heard_ns_.store(RealClock::Monotonic().ns);
    is_created_.store(false);
    Announce(&context);
    const std::unique_ptr<Stream> stream = at.watch->Watch(&context);
    std::thread pulse([this, &stream] { Pulse(*stream); });
    pb::WatchRequest request;
    pb::WatchCreateRequest& create = *request.mutable_create_request();
    create.set_key(prefix_);
    create.set_range_end(EndOf(prefix_));
    create.set_start_revision(next_);
    pb::WatchResponse response;
    bool goes_on = stream->Write(request);
    while (goes_on && stream->Read(&response)) {
      heard_ns_.store(RealClock::Monotonic().ns);
      goes_on = Take(response);
    }
    context.TryCancel();
    Announce(nullptr);
    pulse.join();
    return stream->Finish();
  }

  // Returns false if the stream is of no more use.
  bool Take(const pb::WatchResponse& response) {
    if (response.compact_revision() > 0) {
      client_.Count(&EtcdCounters::compacted);
      next_ = 0;
      return false;
    }
    if (response.canceled()) return false;
    if (response.created()) {
      is_created_.store(true);
      // The endpoint lags, or the store is an older one.
      if (response.header().revision() + 1 < next_) next_ = 0;
      return next_ != 0;
    }
    if (stops()) return false;
    for (const pb::Event& event : response.events()) {
      watcher_.on_change(PairOf(event.kv()), event.type() == pb::Event::DELETE);
      latest_ = std::max(latest_, event.kv().mod_revision());
    }
    if (response.events_size() > 0) next_ = latest_ + 1;
    return true;
  }

  void Pulse(Stream& stream) {
    pb::WatchRequest request;
    request.mutable_progress_request();
    std::unique_lock lock(mutex_);
    while (context_ != nullptr) {
      changed_.wait_for(lock, std::chrono::nanoseconds(kPulse.ns));
      if (context_ == nullptr) return;
      const Instant heard{heard_ns_.load()};
      if (stops_ ||
          RealClock::Monotonic() > heard + client_.options().silence) {
        context_->TryCancel();
        return;
      }
      if (!is_created_.load()) continue;
      lock.unlock();
      const bool is_sent = stream.Write(request);
      lock.lock();
      if (!is_sent) return;
    }
  }

  // A watch that ends cancels the stream that is announced.
  void Announce(grpc::ClientContext* context) {
    const std::lock_guard lock(mutex_);
    context_ = context;
    if (stops_ && context != nullptr) context->TryCancel();
    changed_.notify_all();
  }
  bool stops() {
    const std::lock_guard lock(mutex_);
    return stops_;
  }
  void Wait(Nanos time) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::nanoseconds(time.ns),
                      [this] { return stops_; });
  }

  GrpcEtcdClient& client_;
  const std::string prefix_;
  EtcdWatcher& watcher_;
  // Owned by the reading thread.
  int64_t next_ = 0;    // the revision to follow from; 0: read the range first
  int64_t latest_ = 0;  // the greatest revision seen
  std::atomic<int64_t> heard_ns_{0};
  std::atomic<bool> is_created_{false};
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stops_ ABSL_GUARDED_BY(mutex_) = false;
  // Points to the stream's context; null if there is no stream.
  grpc::ClientContext* context_ ABSL_GUARDED_BY(mutex_) = nullptr;
  std::thread thread_;
};

std::unique_ptr<EtcdWatch> GrpcEtcdClient::Watch(const std::string& prefix,
                                                 EtcdWatcher& watcher) {
  return std::make_unique<GrpcEtcdWatch>(*this, prefix, watcher);
}

}  // namespace

absl::StatusOr<std::unique_ptr<EtcdClient>> EtcdClient::Create(
    const Options& options) {
  if (absl::Status s = Check(options); !s.ok()) return s;
  const auto credentials = CredentialsOf(options);
  if (!credentials.ok()) return credentials.status();
  gpr_set_log_function([](gpr_log_func_args*) {});
  return std::make_unique<GrpcEtcdClient>(options, *credentials);
}

}  // namespace snf
