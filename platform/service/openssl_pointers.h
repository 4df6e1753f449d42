// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_SERVICE_OPENSSL_POINTERS_H_
#define SNF_PLATFORM_SERVICE_OPENSSL_POINTERS_H_

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include <memory>
#include <string>

namespace snf {

// Objects of OpenSSL, freed by its functions.
template <typename Type, auto kFree>
struct OpenSslFree {
  void operator()(Type* object) const { kFree(object); }
};
template <typename Type, auto kFree>
using OpenSslPointer = std::unique_ptr<Type, OpenSslFree<Type, kFree>>;

using BioPointer = OpenSslPointer<BIO, BIO_free>;
using CertificatePointer = OpenSslPointer<X509, X509_free>;
using KeyPointer = OpenSslPointer<EVP_PKEY, EVP_PKEY_free>;
using StoreContextPointer = OpenSslPointer<X509_STORE_CTX, X509_STORE_CTX_free>;
using StorePointer = OpenSslPointer<X509_STORE, X509_STORE_free>;
using TlsContextPointer = OpenSslPointer<SSL_CTX, SSL_CTX_free>;
using TlsPointer = OpenSslPointer<SSL, SSL_free>;

// Returns why the last call of this thread failed, and forgets it; "" if
// OpenSSL does not say.
inline std::string TakeOpenSslError() {
  const unsigned long error = ERR_get_error();
  ERR_clear_error();
  const char* const reason = ERR_reason_error_string(error);
  return reason == nullptr ? "" : reason;
}

}  // namespace snf

#endif  // SNF_PLATFORM_SERVICE_OPENSSL_POINTERS_H_
