// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_NFS_ESP_ESP_CIPHER_H_
#define SNF_NFS_ESP_ESP_CIPHER_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

struct evp_cipher_ctx_st;  // of OpenSSL

namespace snf {

// The key of one security association: AES-128 or AES-256, and behind it the
// salt of 4 bytes (RFC 4106 §8.1), as `ip xfrm` wants it too.
struct EspKey {
  static constexpr size_t kSaltBytes = 4;
  static constexpr size_t kMaxBytes = 32 + kSaltBytes;

  std::array<std::byte, kMaxBytes> bytes{};
  size_t size = 0;  // with the salt: 20 or 36

  // Reads 40 or 72 hexadecimal digits, perhaps behind 0x.
  static std::optional<EspKey> Parse(std::string_view text);
  friend bool operator==(const EspKey&, const EspKey&) = default;
};

// AES-GCM for ESP (RFC 4106): the nonce is the salt and the IV of the packet,
// the tag has 16 bytes. Owner-thread only; nothing is allocated after
// construction.
class EspCipher {
 public:
  static constexpr size_t kIvBytes = 8;
  static constexpr size_t kTagBytes = 16;
  using Bytes = std::span<const std::byte>;

  // `seals`: it encrypts; otherwise it decrypts.
  EspCipher(const EspKey& key, bool seals);

  // Encrypts `text` in place. No two texts may have the same IV.
  void Seal(std::span<const std::byte, kIvBytes> iv, Bytes associated,
            std::span<std::byte> text, std::span<std::byte, kTagBytes> tag);
  // Decrypts `sealed` to `text`, which is as long. Returns false if it is not
  // authentic; `text` must not be used then.
  bool Open(std::span<const std::byte, kIvBytes> iv, Bytes associated,
            Bytes sealed, std::span<const std::byte, kTagBytes> tag,
            std::span<std::byte> text);

 private:
  struct Free {
    void operator()(evp_cipher_ctx_st* context) const;
  };
  void Begin(std::span<const std::byte, kIvBytes> iv, Bytes associated);

  std::array<std::byte, EspKey::kSaltBytes> salt_{};
  std::unique_ptr<evp_cipher_ctx_st, Free> context_;
};

}  // namespace snf

#endif  // SNF_NFS_ESP_ESP_CIPHER_H_
