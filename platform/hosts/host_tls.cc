// SPDX-License-Identifier: Apache-2.0
#include "platform/hosts/host_tls.h"

#include <fmt/format.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <utility>
#include <vector>

#include "platform/service/client_role.h"
#include "platform/service/pem.h"
#include "runtime/ring/real_clock.h"

namespace snf {
namespace {

using NamesPointer = OpenSslPointer<GENERAL_NAMES, GENERAL_NAMES_free>;

absl::Status Failed(const std::string& what) {
  const std::string reason = TakeOpenSslError();
  return absl::UnavailableError(reason.empty()
                                    ? "TLS: " + what
                                    : fmt::format("TLS: {}: {}", what, reason));
}

absl::StatusOr<TlsContextPointer> ContextOf(const TlsFiles& files, TlsEnd end) {
  TlsContextPointer context(SSL_CTX_new(
      end == TlsEnd::kServer ? TLS_server_method() : TLS_client_method()));
  const CertificatePointer authority = ParseCertificate(files.authority);
  const CertificatePointer own = ParseCertificate(files.certificate);
  const KeyPointer key = ParseKey(files.key);
  if (context == nullptr || authority == nullptr || own == nullptr ||
      key == nullptr ||
      SSL_CTX_set_min_proto_version(context.get(), TLS1_3_VERSION) != 1 ||
      X509_STORE_add_cert(SSL_CTX_get_cert_store(context.get()),
                          authority.get()) != 1 ||
      SSL_CTX_use_certificate(context.get(), own.get()) != 1 ||
      SSL_CTX_use_PrivateKey(context.get(), key.get()) != 1) {
    return Failed("cannot use the certificate");
  }
  SSL_CTX_set_verify(context.get(),
                     SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT,
                     nullptr);
  SSL_CTX_set_mode(context.get(), SSL_MODE_ENABLE_PARTIAL_WRITE |
                                      SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  // An end without a word is an end: frames say what is missing.
  SSL_CTX_set_options(context.get(), SSL_OP_IGNORE_UNEXPECTED_EOF);
  SSL_CTX_set_session_cache_mode(context.get(), SSL_SESS_CACHE_OFF);
  SSL_CTX_set_num_tickets(context.get(), 0);
  return context;
}

// Returns true if the latest error is that the peer's bytes are no TLS.
bool HasPlainPeer() {
  const unsigned long error = ERR_peek_error();
  return ERR_GET_LIB(error) == ERR_LIB_SSL &&
         (ERR_GET_REASON(error) == SSL_R_WRONG_VERSION_NUMBER ||
          ERR_GET_REASON(error) == SSL_R_HTTP_REQUEST);
}

std::vector<std::string> UrisOf(X509& certificate) {
  std::vector<std::string> uris;
  const NamesPointer names(static_cast<GENERAL_NAMES*>(
      X509_get_ext_d2i(&certificate, NID_subject_alt_name, nullptr, nullptr)));
  for (int i = 0; names != nullptr && i < sk_GENERAL_NAME_num(names.get());
       ++i) {
    const GENERAL_NAME* const name = sk_GENERAL_NAME_value(names.get(), i);
    if (name->type != GEN_URI) continue;
    const ASN1_STRING* const uri = name->d.uniformResourceIdentifier;
    uris.emplace_back(reinterpret_cast<const char*>(ASN1_STRING_get0_data(uri)),
                      static_cast<size_t>(ASN1_STRING_length(uri)));
  }
  return uris;
}

}  // namespace

absl::StatusOr<std::unique_ptr<HostTls>> HostTls::Shake(
    const TlsFiles& files, TlsEnd end, int socket, const std::string& address,
    Nanos patience) {
  const auto context = ContextOf(files, end);
  if (!context.ok()) return context.status();
  TlsPointer tls(SSL_new(context->get()));
  if (tls == nullptr || SSL_set_fd(tls.get(), socket) != 1) {
    return Failed("no connection");
  }
  if (end == TlsEnd::kServer) {
    SSL_set_accept_state(tls.get());
  } else {
    SSL_set_connect_state(tls.get());
    std::string host = address.substr(0, address.rfind(':'));
    if (host.starts_with('[')) host = host.substr(1, host.size() - 2);
    if (X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(tls.get()),
                                      host.c_str()) != 1) {
      return Failed("no address " + host);
    }
  }
  std::unique_ptr<HostTls> own(new HostTls(std::move(tls)));
  if (absl::Status s = own->Shake(socket, patience); !s.ok()) return s;
  return own;
}

absl::Status HostTls::Shake(int socket, Nanos patience) {
  const std::lock_guard lock(mutex_);
  const Instant end = RealClock::Monotonic() + patience;
  while (true) {
    ERR_clear_error();
    const int result = SSL_do_handshake(tls_.get());
    if (result == 1) return absl::OkStatus();
    const int error = SSL_get_error(tls_.get(), result);
    const bool waits =
        error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE;
    const Nanos left = end - RealClock::Monotonic();
    if (!waits || left.ns <= 0) {
      const long verified = SSL_get_verify_result(tls_.get());
      if (verified == X509_V_OK && HasPlainPeer()) {
        ERR_clear_error();
        return absl::FailedPreconditionError(
            "TLS: the other end speaks no TLS");
      }
      if (verified == X509_V_OK) {
        return Failed(waits ? "no answer" : "no handshake");
      }
      ERR_clear_error();
      return Failed(fmt::format("the certificate of the other end: {}",
                                X509_verify_cert_error_string(verified)));
    }
    pollfd wait = {.fd = socket,
                   .events = static_cast<short>(
                       error == SSL_ERROR_WANT_READ ? POLLIN : POLLOUT),
                   .revents = 0};
    poll(&wait, 1, static_cast<int>(left.ns / 1'000'000) + 1);
  }
}

absl::Status HostTls::CheckRole() {
  const std::lock_guard lock(mutex_);
  const CertificatePointer peer(SSL_get1_peer_certificate(tls_.get()));
  const ClientRole role =
      peer == nullptr ? ClientRole::kLook : RoleOf(UrisOf(*peer));
  if (role == ClientRole::kAdmin) return absl::OkStatus();
  return absl::PermissionDeniedError(
      fmt::format("TLS: the daemon's certificate has the role {}, not {}",
                  NameOf(role), NameOf(ClientRole::kAdmin)));
}

ssize_t HostTls::ResultOf(int result) {
  if (result > 0) return result;
  switch (SSL_get_error(tls_.get(), result)) {
    case SSL_ERROR_WANT_READ:
    case SSL_ERROR_WANT_WRITE:
      errno = EAGAIN;
      return -1;
    case SSL_ERROR_ZERO_RETURN:
      return 0;
    case SSL_ERROR_SYSCALL:
      if (errno == 0) errno = ECONNRESET;
      return -1;
    default:
      why_ = TakeOpenSslError();
      errno = EPROTO;
      return -1;
  }
}

std::string HostTls::why() {
  const std::lock_guard lock(mutex_);
  return why_;
}

ssize_t HostTls::Read(std::span<std::byte> to) {
  const std::lock_guard lock(mutex_);
  ERR_clear_error();
  errno = 0;
  return ResultOf(
      SSL_read(tls_.get(), to.data(),
               static_cast<int>(std::min(to.size(), size_t{1} << 20))));
}

ssize_t HostTls::Write(std::span<const std::byte> from) {
  const std::lock_guard lock(mutex_);
  ERR_clear_error();
  errno = 0;
  return ResultOf(
      SSL_write(tls_.get(), from.data(),
                static_cast<int>(std::min(from.size(), size_t{1} << 20))));
}

}  // namespace snf
