// SPDX-License-Identifier: Apache-2.0
#include "platform/service/pem.h"

#include <openssl/pem.h>

#include <algorithm>

namespace snf {

CertificatePointer ParseCertificate(const std::string& text) {
  const BioPointer memory(
      BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
  CertificatePointer parsed(
      PEM_read_bio_X509(memory.get(), nullptr, nullptr, nullptr));
  ERR_clear_error();
  return parsed;
}

KeyPointer ParseKey(const std::string& text) {
  const BioPointer memory(
      BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
  const auto no_passphrase = [](char*, int, int, void*) { return 0; };
  KeyPointer parsed(
      PEM_read_bio_PrivateKey(memory.get(), nullptr, no_passphrase, nullptr));
  ERR_clear_error();
  return parsed;
}

std::string TakeText(BIO& memory) {
  std::string text(BIO_ctrl_pending(&memory), '\0');
  const int bytes =
      BIO_read(&memory, text.data(), static_cast<int>(text.size()));
  text.resize(static_cast<size_t>(std::max(bytes, 0)));
  return text;
}

}  // namespace snf
