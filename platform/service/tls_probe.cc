// SPDX-License-Identifier: Apache-2.0
#include "platform/service/tls_probe.h"

#include <fmt/format.h>
#include <netdb.h>
#include <openssl/x509v3.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "platform/service/openssl_pointers.h"
#include "platform/service/pem.h"

namespace snf {
namespace {

// OpenSSL writes to a connection that the other end may have closed.
class NoBrokenPipe {
 public:
  NoBrokenPipe() : before_(signal(SIGPIPE, SIG_IGN)) {}
  NoBrokenPipe(const NoBrokenPipe&) = delete;
  NoBrokenPipe& operator=(const NoBrokenPipe&) = delete;
  ~NoBrokenPipe() { signal(SIGPIPE, before_); }

 private:
  void (*before_)(int);
};

// A connection of TCP, whose calls take two seconds at most.
class Connection {
 public:
  explicit Connection(const TcpAddress& address) {
    addrinfo wanted = {};
    wanted.ai_socktype = SOCK_STREAM;
    addrinfo* found = nullptr;
    const int error =
        getaddrinfo(address.host.c_str(), std::to_string(address.port).c_str(),
                    &wanted, &found);
    if (error != 0) {
      why_not_ = gai_strerror(error);
      return;
    }
    for (addrinfo* one = found; one != nullptr && socket_ < 0;
         one = one->ai_next) {
      Connect(*one);
    }
    freeaddrinfo(found);
  }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;
  ~Connection() {
    if (socket_ >= 0) close(socket_);
  }
  int socket() const { return socket_; }
  const std::string& why_not() const { return why_not_; }

 private:
  void Connect(const addrinfo& to) {
    constexpr timeval kPatience = {.tv_sec = 2, .tv_usec = 0};
    socket_ = ::socket(to.ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    for (const int option : {SO_RCVTIMEO, SO_SNDTIMEO}) {
      setsockopt(socket_, SOL_SOCKET, option, &kPatience, sizeof kPatience);
    }
    if (socket_ >= 0 && connect(socket_, to.ai_addr, to.ai_addrlen) == 0) {
      return;
    }
    why_not_ = std::strerror(errno == EINPROGRESS ? ETIMEDOUT : errno);
    if (socket_ >= 0) close(socket_);
    socket_ = -1;
  }

  int socket_ = -1;
  std::string why_not_;
};

bool Use(SSL_CTX& context, const TlsFiles& files) {
  const CertificatePointer authority = ParseCertificate(files.authority);
  const CertificatePointer own = ParseCertificate(files.certificate);
  const KeyPointer key = ParseKey(files.key);
  constexpr std::array<unsigned char, 3> kHttp2 = {2, 'h', '2'};
  SSL_CTX_set_verify(&context, SSL_VERIFY_PEER, nullptr);
  return authority != nullptr && own != nullptr && key != nullptr &&
         X509_STORE_add_cert(SSL_CTX_get_cert_store(&context),
                             authority.get()) == 1 &&
         SSL_CTX_use_certificate(&context, own.get()) == 1 &&
         SSL_CTX_use_PrivateKey(&context, key.get()) == 1 &&
         SSL_CTX_set_alpn_protos(&context, kHttp2.data(), kHttp2.size()) == 0;
}

// Says how a call ended that OpenSSL has no words for; "" if it has.
std::string WhyNoWord(const SSL& tls, int result) {
  const unsigned long last = ERR_peek_last_error();
  const bool has_words =
      ERR_GET_LIB(last) == ERR_LIB_SSL &&
      ERR_GET_REASON(last) != SSL_R_UNEXPECTED_EOF_WHILE_READING;
  if (last != 0 && has_words) return "";
  const int error = SSL_get_error(&tls, result);
  const bool waits =
      error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE;
  return waits ? "it does not answer" : std::string(kHangsUp);
}

std::string WhyNoHandshake(const SSL& tls, const std::string& host,
                           std::string_view flag) {
  const long verified = SSL_get_verify_result(&tls);
  switch (verified) {
    case X509_V_OK:
      break;
    case X509_V_ERR_IP_ADDRESS_MISMATCH:
    case X509_V_ERR_HOSTNAME_MISMATCH:
      return fmt::format(
          "its certificate is not for {0} (snf cert --host={0} makes one for "
          "this host)",
          host);
    case X509_V_ERR_CERT_HAS_EXPIRED:
      return "its certificate has expired";
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
    case X509_V_ERR_CERT_SIGNATURE_FAILURE:
      return fmt::format("its certificate is not signed by the authority of {}",
                         flag);
    default:
      return fmt::format("its certificate: {}",
                         X509_verify_cert_error_string(verified));
  }
  return fmt::format("it speaks no TLS that this end accepts ({})",
                     TakeOpenSslError());
}

}  // namespace

std::string WhyNotReachable(const TlsEndpoint& endpoint,
                            std::string_view flag) {
  const NoBrokenPipe no_broken_pipe;
  const Connection connection(endpoint.address);
  if (connection.socket() < 0) return connection.why_not();
  const TlsContextPointer context(SSL_CTX_new(TLS_client_method()));
  if (context == nullptr || !Use(*context, endpoint.files)) return "";
  const TlsPointer tls(SSL_new(context.get()));
  const char* const host = endpoint.address.host.c_str();
  X509_VERIFY_PARAM* const wanted = SSL_get0_param(tls.get());
  if (X509_VERIFY_PARAM_set1_ip_asc(wanted, host) != 1) {
    X509_VERIFY_PARAM_set1_host(wanted, host, 0);
  }
  ERR_clear_error();
  SSL_set_fd(tls.get(), connection.socket());
  if (const int result = SSL_connect(tls.get()); result != 1) {
    std::string why = WhyNoWord(*tls, result);
    return why.empty() ? WhyNoHandshake(*tls, endpoint.address.host, flag)
                       : why;
  }
  // In TLS 1.3 the server tells after the handshake that it does not take the
  // client's certificate. Else it speaks first, as HTTP/2 has it.
  char byte = 0;
  const int result = SSL_read(tls.get(), &byte, 1);
  if (result == 1) return "";
  const std::string alert = TakeOpenSslError();
  if (alert.empty()) return WhyNoWord(*tls, result);
  return fmt::format("it rejects the certificate of this end ({})", alert);
}

}  // namespace snf
