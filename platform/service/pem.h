// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_SERVICE_PEM_H_
#define SNF_PLATFORM_SERVICE_PEM_H_

#include <string>

#include "platform/service/openssl_pointers.h"

namespace snf {

// Read PEM; null if there is none of the kind, or the key has a passphrase,
// which is never asked for.
CertificatePointer ParseCertificate(const std::string& text);
KeyPointer ParseKey(const std::string& text);

// Takes the text out of a memory of OpenSSL.
std::string TakeText(BIO& memory);

}  // namespace snf

#endif  // SNF_PLATFORM_SERVICE_PEM_H_
