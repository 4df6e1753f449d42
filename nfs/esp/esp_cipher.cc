// SPDX-License-Identifier: Apache-2.0
#include "nfs/esp/esp_cipher.h"

#include <openssl/evp.h>

#include <algorithm>
#include <charconv>

#include "base/check.h"

namespace snf {
namespace {

const unsigned char* In(std::span<const std::byte> bytes) {
  return reinterpret_cast<const unsigned char*>(bytes.data());
}
unsigned char* Out(std::span<std::byte> bytes) {
  return reinterpret_cast<unsigned char*>(bytes.data());
}

}  // namespace

std::optional<EspKey> EspKey::Parse(std::string_view text) {
  if (text.starts_with("0x")) text.remove_prefix(2);
  EspKey key;
  key.size = text.size() / 2;
  constexpr size_t kShort = 16 + kSaltBytes;
  if (text.size() % 2 != 0 || (key.size != kShort && key.size != kMaxBytes)) {
    return std::nullopt;
  }
  for (size_t i = 0; i < key.size; ++i) {
    const char* const digits = text.data() + 2 * i;
    uint8_t byte = 0;
    const auto [end, error] = std::from_chars(digits, digits + 2, byte, 16);
    if (error != std::errc() || end != digits + 2) return std::nullopt;
    key.bytes.at(i) = std::byte{byte};
  }
  return key;
}

void EspCipher::Free::operator()(EVP_CIPHER_CTX* context) const {
  EVP_CIPHER_CTX_free(context);
}

EspCipher::EspCipher(const EspKey& key, bool seals)
    : context_(EVP_CIPHER_CTX_new()) {
  const size_t aes_bytes = key.size - EspKey::kSaltBytes;
  std::copy_n(&key.bytes.at(aes_bytes), salt_.size(), salt_.begin());
  const EVP_CIPHER* const aes =
      aes_bytes == 16 ? EVP_aes_128_gcm() : EVP_aes_256_gcm();
  SNF_CHECK(context_ != nullptr);
  SNF_CHECK(EVP_CipherInit_ex(context_.get(), aes, nullptr, In(key.bytes),
                              nullptr, seals ? 1 : 0) == 1);
}

void EspCipher::Begin(std::span<const std::byte, kIvBytes> iv,
                      Bytes associated) {
  std::array<std::byte, EspKey::kSaltBytes + kIvBytes> nonce;
  std::ranges::copy(iv, std::ranges::copy(salt_, nonce.begin()).out);
  // -1: in the direction that it has.
  SNF_CHECK(EVP_CipherInit_ex(context_.get(), nullptr, nullptr, nullptr,
                              In(nonce), -1) == 1);
  int bytes = 0;
  SNF_CHECK(EVP_CipherUpdate(context_.get(), nullptr, &bytes, In(associated),
                             static_cast<int>(associated.size())) == 1);
}

void EspCipher::Seal(std::span<const std::byte, kIvBytes> iv, Bytes associated,
                     std::span<std::byte> text,
                     std::span<std::byte, kTagBytes> tag) {
  Begin(iv, associated);
  int bytes = 0;
  SNF_CHECK(EVP_CipherUpdate(context_.get(), Out(text), &bytes, In(text),
                             static_cast<int>(text.size())) == 1);
  SNF_CHECK(EVP_CipherFinal_ex(context_.get(), Out(tag), &bytes) == 1);
  SNF_CHECK(EVP_CIPHER_CTX_ctrl(context_.get(), EVP_CTRL_AEAD_GET_TAG,
                                kTagBytes, tag.data()) == 1);
}

bool EspCipher::Open(std::span<const std::byte, kIvBytes> iv, Bytes associated,
                     Bytes sealed, std::span<const std::byte, kTagBytes> tag,
                     std::span<std::byte> text) {
  SNF_CHECK(text.size() == sealed.size());
  Begin(iv, associated);
  int bytes = 0;
  SNF_CHECK(EVP_CipherUpdate(context_.get(), Out(text), &bytes, In(sealed),
                             static_cast<int>(sealed.size())) == 1);
  std::array<std::byte, kTagBytes> wanted;
  std::ranges::copy(tag, wanted.begin());
  SNF_CHECK(EVP_CIPHER_CTX_ctrl(context_.get(), EVP_CTRL_AEAD_SET_TAG,
                                kTagBytes, wanted.data()) == 1);
  std::array<std::byte, kTagBytes> rest;  // GCM leaves none
  return EVP_CipherFinal_ex(context_.get(), Out(rest), &bytes) == 1;
}

}  // namespace snf
