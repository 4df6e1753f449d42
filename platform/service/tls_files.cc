// SPDX-License-Identifier: Apache-2.0
#include "platform/service/tls_files.h"

#include <fmt/format.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>

#include "base/text_file.h"
#include "platform/service/openssl_pointers.h"
#include "platform/service/pem.h"

namespace snf {
namespace {

constexpr size_t kMostBytes = 64 * 1024;

absl::Status Bad(const std::string& file, const std::string& what) {
  return absl::FailedPreconditionError(fmt::format("{}: {}", file, what));
}

absl::StatusOr<std::string> Read(const std::string& file) {
  struct stat about = {};
  if (stat(file.c_str(), &about) != 0) {
    const std::string what = std::strerror(errno);
    if (errno == EACCES) {
      return absl::PermissionDeniedError(fmt::format("{}: {}", file, what));
    }
    return Bad(file,
               what + (errno == ENOENT ? "; snf cert makes this file" : ""));
  }
  return ReadTextFile(file, kMostBytes);
}

absl::StatusOr<std::string> ReadKey(const std::string& file) {
  absl::StatusOr<std::string> text = Read(file);
  if (!text.ok()) return text;
  struct stat about = {};
  if (stat(file.c_str(), &about) == 0 && (about.st_mode & 077) != 0) {
    return absl::PermissionDeniedError(fmt::format(
        "{}: other users may read this key (its mode is {:o}): chmod 600 {}",
        file, about.st_mode & 0777, file));
  }
  return text;
}

std::string TimeText(const ASN1_TIME* time) {
  const BioPointer memory(BIO_new(BIO_s_mem()));
  ASN1_TIME_print(memory.get(), time);
  return TakeText(*memory);
}

// Holds the certificate against the authority, as the other end will.
absl::Status Verify(X509& authority, X509& certificate, TlsEnd end,
                    const std::string& authority_file,
                    const std::string& certificate_file) {
  const StorePointer store(X509_STORE_new());
  const StoreContextPointer context(X509_STORE_CTX_new());
  X509_STORE_add_cert(store.get(), &authority);
  X509_STORE_CTX_init(context.get(), store.get(), &certificate, nullptr);
  X509_STORE_CTX_set_purpose(context.get(), end == TlsEnd::kServer
                                                ? X509_PURPOSE_SSL_SERVER
                                                : X509_PURPOSE_SSL_CLIENT);
  const bool is_good = X509_verify_cert(context.get()) == 1;
  ERR_clear_error();
  if (is_good) return absl::OkStatus();
  const int error = X509_STORE_CTX_get_error(context.get());
  const bool is_authoritys = X509_STORE_CTX_get_error_depth(context.get()) > 0;
  const std::string& file = is_authoritys ? authority_file : certificate_file;
  const X509* const wrong = is_authoritys ? &authority : &certificate;
  switch (error) {
    case X509_V_ERR_CERT_HAS_EXPIRED:
      return Bad(file, fmt::format("the certificate was valid until {}",
                                   TimeText(X509_get0_notAfter(wrong))));
    case X509_V_ERR_CERT_NOT_YET_VALID:
      return Bad(file, fmt::format("the certificate is valid from {} on",
                                   TimeText(X509_get0_notBefore(wrong))));
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
    case X509_V_ERR_CERT_SIGNATURE_FAILURE:
      return Bad(file, fmt::format("not signed by {}", authority_file));
    default:
      return Bad(file, X509_verify_cert_error_string(error));
  }
}

}  // namespace

absl::StatusOr<TlsFiles> ReadTlsFiles(const std::string& directory,
                                      TlsEnd end) {
  const std::string stem = fmt::format(
      "{}/{}", directory, end == TlsEnd::kServer ? "server" : "client");
  const std::string authority_file = directory + "/ca.crt";
  const std::string certificate_file = stem + ".crt";
  const std::string key_file = stem + ".key";
  const absl::StatusOr<std::string> authority = Read(authority_file);
  if (!authority.ok()) return authority.status();
  const absl::StatusOr<std::string> certificate = Read(certificate_file);
  if (!certificate.ok()) return certificate.status();
  const absl::StatusOr<std::string> key = ReadKey(key_file);
  if (!key.ok()) return key.status();
  const CertificatePointer signer = ParseCertificate(*authority);
  if (signer == nullptr) return Bad(authority_file, "no certificate in PEM");
  const CertificatePointer own = ParseCertificate(*certificate);
  if (own == nullptr) return Bad(certificate_file, "no certificate in PEM");
  const KeyPointer own_key = ParseKey(*key);
  if (own_key == nullptr) {
    return Bad(key_file, "no key in PEM without a passphrase");
  }
  const bool belongs = X509_check_private_key(own.get(), own_key.get()) == 1;
  ERR_clear_error();
  if (!belongs) {
    return Bad(key_file, fmt::format("not the key of {}", certificate_file));
  }
  if (absl::Status s =
          Verify(*signer, *own, end, authority_file, certificate_file);
      !s.ok()) {
    return s;
  }
  return TlsFiles{
      .authority = *authority, .certificate = *certificate, .key = *key};
}

}  // namespace snf
